"""Jobs that are measured: ranks, each on a node of its own, with prefix and cache on RAM disk."""

import contextlib
import pathlib
import shutil
import subprocess
import tempfile

from measure import ALONE, environment, output

import nodes
import yields

# Type, losses that it survives.
SCHEMES = (("SINGLE", 0), ("PARTNER", 1), ("XOR", 1), ("RS", 2), ("RS", 3))


class Job:
    """A prefix and a cache for each of the nodes. `build`'s shim is loaded. `crowded`: several
    ranks have a core."""

    def __init__(self, mpi, top, build, ranks=4, crowded=False, **settings):
        self.mpi, self.top, self.prefix, self.build = mpi, top, top / "prefix", build
        self.ranks, self.crowded = ranks, crowded
        self.shared = top  # what MPI shares between ranks
        self.nodes = nodes.Nodes(top / "nodes", ranks, 1)
        self.prefix.mkdir()
        self.base = str(self.nodes.here / "base")
        for node in range(ranks):
            self.replace(node)
        defaults = {
            "SCR_CNTL_BASE": self.base, "SCR_CACHE_BASE": self.base, "SCR_LEARN": "0",
            "SCR_CACHE_SIZE": "1", "SCR_FLUSH": "0",
            "SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/rank_{rank}.dat"}
        self.settings = {**defaults, **settings}

    def replace(self, node):
        """A spare takes the place of `node`: nothing of its cache is left."""
        base = self.nodes.node(node) / "base"
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(mode=0o700)

    def clear(self):
        """Nothing is left of the runs so far."""
        for node in range(self.ranks):
            self.replace(node)
        shutil.rmtree(self.prefix)
        self.prefix.mkdir()

    def command(self, *program, mpirun=()):
        launcher = [f"mpirun.{self.mpi}", *mpirun, "-n", str(self.ranks)]
        return self.nodes.command(launcher, list(map(str, program)))

    def run(self, *program):
        """Its lines of numbers; it has to end well and in silence."""
        return output(self.command(*program), self.environment(), self.prefix)

    def environment(self):
        plain = environment(self.build, **self.settings)
        asked = (yields.beside_others(plain, self.mpi) if self.crowded
                 else yields.asked(plain, self.mpi, self.ranks))
        # What Open MPI shares between ranks stays behind where they are killed.
        return {**asked, "OMPI_MCA_btl_vader_backing_directory": str(self.shared)}

    def run_to_death(self, *program, mpirun=()):
        """The lines of numbers of one that kills itself."""
        done = subprocess.run(
            self.command(*program, mpirun=mpirun), env=self.environment(), cwd=self.prefix,
            stdin=subprocess.DEVNULL, text=True, capture_output=True)
        lines = [line for line in done.stdout.splitlines() if line[:1].isdigit()]
        if "SCR: rank" in done.stderr or (not lines and done.stderr.count("SCR:") > 1):
            print(done.stderr)
        return [list(map(float, line.split())) for line in lines]


@contextlib.contextmanager
def job(mpi, scratch, build, ranks=4, crowded=False, disk=None, **settings):
    """A job on the RAM disk `scratch`; with `disk` its prefix and caches are there instead."""
    with contextlib.ExitStack() as stack:
        top = stack.enter_context(tempfile.TemporaryDirectory(dir=disk or scratch))
        made = Job(mpi, pathlib.Path(top), build, ranks, crowded, **settings)
        if disk:
            made.shared = stack.enter_context(tempfile.TemporaryDirectory(dir=scratch))
        yield made


def title(scheme, failures):
    return f"RS, {failures} losses" if scheme == "RS" else scheme


def settings_of(scheme, failures=1):
    more = {"SCR_SET_FAILURES": str(failures)} if failures > 1 else {}
    return {"SCR_COPY_TYPE": scheme, **more}


def variants(builds, schemes=SCHEMES, **more):
    """The program alone, and each scheme with each build: its name and build, and its settings.
    The emulated nodes share the cores that each takes for its own: none is free to encode."""
    named = [(title(*one), settings_of(*one)) for one in schemes]
    seal = {build: {"SCR_SEAL": "BLOCKING"} if build.knows("SCR_SEAL") else {} for build in builds}
    with_shim = [((name, build), {**settings, **seal[build], **more})
                 for name, settings in named for build in builds]
    return {("alone", ALONE): {}, **dict(with_shim)}
