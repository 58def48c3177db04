"""Nodes for tests that need a host name and node-local storage of their own for some ranks, and no
more: MPI sees one host. (`scr sim` makes nodes that can die as a whole.)"""

import os


class Nodes:
    """`count` nodes with `ranks_per_node` ranks each. On each of them, `here` is its own directory;
    from outside these are `node(0)`, `node(1)`, ..., all on the file system of `top`. With `mib`
    each is a RAM disk of so many MiB instead, which is gone after each run."""

    def __init__(self, top, count, ranks_per_node, mib=None):
        self.top, self.count = top, count
        self.here = top / "here"
        for folder in [self.here, *map(self.node, range(count))]:
            folder.mkdir(parents=True)
        self.wrapper = top / "asnode"
        mount = f"mount --bind {top}/node$0 {self.here}"
        if mib:
            mount = f"mount -t tmpfs -o size={mib}m,mode=700 none {self.here}"
        self.wrapper.write_text(
            "#!/bin/sh\n"
            f"node=$((${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} / {ranks_per_node}))\n"
            "exec unshare --uts --mount --propagation private sh -c '\n"
            f"hostname node$0 && {mount} && exec \"$@\"' "
            "$node \"$@\"\n"
        )
        self.wrapper.chmod(0o755)

    def node(self, number):
        """The node's directory as seen from outside."""
        return self.top / f"node{number}"

    def command(self, mpirun, program):
        """`mpirun` with its options, the program with its arguments: the command for both."""
        root = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
        return [*root, *mpirun, str(self.wrapper), *program]
