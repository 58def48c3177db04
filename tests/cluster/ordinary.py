"""`scr sim` of a user who is not root: a user namespace around the cluster makes him so in it."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from cluster import DIST, LIMIT_SECONDS, Cluster
from samples import EXAMPLES, environment
from scene import LENGTH, checksum, newest_files, restart_step, undisturbed
from stories import POSIX, story

USER = 61234  # nobody's
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
RANKS = 3
# The limit holds in a user namespace of its own, not on this machine. Its first shell has no rights
# in it, for it was begun before there were users.
LIMITED = """\
echo entered; read mapped
exec sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"' sh "$@"
"""


class Ordinary(Cluster):
    """A cluster of that user, whose home has a copy of SCR: others may be closed to him."""

    def __init__(self, home, nodes, spare):
        self.home = home
        super().__init__(nodes, spare)

    def command(self, *words):
        scr = [self.home / "dist" / "bin" / "scr", "sim", "--name", self.name]
        return [*AS_USER, "env", f"HOME={self.home}", *map(str, [*scr, *words])]


@contextlib.contextmanager
def home_of(mpi):
    """All nodes see it, unlike /tmp."""
    home = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        (home / "dist").mkdir()
        (home / "run").mkdir()
        for name in ("bin", "lib"):
            shutil.copytree(DIST / name, home / "dist" / name, symlinks=True)
        shutil.copy(EXAMPLES / mpi / POSIX.name, home)
        shutil.copy(POSIX.config(), home / "scr.conf")
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(home)], check=True)
        yield home
    finally:
        shutil.rmtree(home)


@story
def a_cluster_of_an_ordinary_user(mpi):
    """He starts it, runs a program, loses a node, goes on from the cache, and stops it."""
    sum_wanted, files_wanted = undisturbed(POSIX, mpi, RANKS)
    with home_of(mpi) as home, Ordinary(home, nodes=RANKS, spare=1) as cluster:
        env = environment(
            mpi, LD_PRELOAD=str(home / "dist/lib/libscr_preload.so"), SCR_COPY_TYPE="XOR",
            SCR_CONF_FILE=str(home / "scr.conf"), SCR_PREFIX=str(home / "run"), SCR_LEARN="0",
        )
        words = [str(home / POSIX.name), *map(str, LENGTH)]
        mark = home / "run" / "paused"
        paused = [*words, "--pause", "step", "35", str(mark)]
        run = cluster.start(mpi, RANKS, paused, home / "run", env)
        run.wait_for_file(mark)
        cluster.kill("node2")
        assert run.finish().status != 0, run.outcome()
        assert cluster.up() == ["node1", "node3", "node4"]
        outcome = cluster.start(mpi, RANKS, words, home / "run", env).finish()
        assert outcome.status == 0 and restart_step(outcome) == 30, outcome
        assert "rebuilt by XOR: ranks 1" in outcome.err, outcome
        assert checksum(outcome) == sum_wanted, outcome
        assert newest_files(POSIX, home / "run") == files_wanted, outcome
        assert (home / "run" / ".scr").stat().st_uid == USER
        # What a login there has around it.
        told = cluster.on("node1", "sh", "-c", "id -u; echo $HOME").out.split()
        assert told == ["0", str(home)], told
    assert not os.path.exists(f"/var/tmp/scr-sim-{USER}/{cluster.name}")


@story
def a_kernel_that_refuses_ordinary_users(mpi):
    """The setting that is in the way is named, with what changes it; nothing is left behind."""
    with home_of(mpi) as home:
        start = [home / "dist/bin/scr", "sim", "--name", "refused", "start", "1"]
        with subprocess.Popen(
            ["unshare", "--user", "sh", "-c", LIMITED, "sh", *AS_USER, *map(str, start)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:
            assert process.stdout.readline() == "entered\n"
            for kind in ("uid_map", "gid_map"):
                pathlib.Path(f"/proc/{process.pid}/{kind}").write_text("0 0 65536", "ascii")
            told = process.communicate("mapped\n", timeout=LIMIT_SECONDS)[1]
        assert process.returncode == 1, told
        assert "user.max_user_namespaces is 0" in told, told
        assert "sysctl -w" in told and "as root" in told, told
        assert not os.path.exists(f"/var/tmp/scr-sim-{USER}/refused")
