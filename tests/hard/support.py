"""What the hard cases share: building the programs, running them with and without the shim."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import nodes  # noqa: E402
import yields  # noqa: E402

DIST = pathlib.Path(os.environ.get("SCR_DIST", ROOT / "target" / "dist"))
SHIM = DIST / "lib" / "libscr_preload.so"
PROGRAMS = ROOT / "tests" / "hard" / "programs"
# The others are programs.
LIBRARIES = ("pmpi_tool", "failing_agreement", "failing_disk", "held_back", "looked_up", "no_links",
             "no_locks")
PATTERN = "ckpt/step_{id}/rank_{rank}.dat"
LIMIT_SECONDS = 300  # a hang; on a busy machine spinning ranks take half of it

# As root and with more ranks than cores, both MPIs have to be asked to yield.
LAUNCH_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}


def hdf5_flags(mpi):
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", f"hdf5-{mpi}"], check=True,
                           capture_output=True, text=True)
    return flags.stdout.split()


def build(mpi, into, only="*"):
    """Compiles every program for `mpi`, or the one named; returns a function from name to path."""
    into.mkdir(parents=True, exist_ok=True)
    for source in sorted(PROGRAMS.glob(f"{only}.c")):
        shared = ["-shared", "-fPIC"] if source.stem in LIBRARIES else []
        target = into / (source.stem + (".so" if shared else ""))
        hdf5 = hdf5_flags(mpi) if "<hdf5.h>" in source.read_text() else []
        subprocess.run(
            [f"mpicc.{mpi}", "-Wall", "-Wextra", "-O1", *shared, "-o", target, source, "-lpthread",
             *hdf5],
            check=True,
        )
    for source in sorted(PROGRAMS.glob(f"{only}.f90")):
        command = [f"mpif90.{mpi}", "-Wall", "-O1", "-J", into, "-o", into / source.stem, source]
        subprocess.run(command, check=True)
    return lambda name: str(into / name)


class Outcome:
    """Exit status, standard output and error of one run."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def line(self, word):
        """The first line of the output that starts with `word`."""
        return next((line for line in self.out.splitlines() if line.startswith(word)), None)

    def __repr__(self):
        return f"status {self.status}\n--- out\n{self.out}\n--- err\n{self.err}"


class Place:
    """A prefix directory with a control and cache base of its own, gone after the case."""

    def __init__(self, mpi, program):
        self.mpi, self.program = mpi, program
        self.prefix = pathlib.Path(tempfile.mkdtemp(prefix="scr-hard-"))
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="scr-hard-", dir="/dev/shm"))
        self.nodes = None
        self.rests = True  # ranks that wait leave their core to others

    def environment(self, shim, settings):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SCR_")}
        env.update(LAUNCH_ENVIRONMENT)
        if shim:
            env["LD_PRELOAD"] = str(SHIM)
            env.update({"SCR_CNTL_BASE": str(self.base), "SCR_CACHE_BASE": str(self.base)})
            env.update({"SCR_CHECKPOINT_PATTERN": PATTERN, "SCR_COPY_TYPE": "SINGLE"})
            env.update({"SCR_LEARN": "0"})
        env.update(settings)
        env = {k: v for k, v in env.items() if v is not None}
        wait = yields.resting if self.rests else yields.beside_others
        return wait(env, self.mpi)

    def command(self, ranks, name, arguments):
        return [f"mpirun.{self.mpi}", "-n", str(ranks), self.program(name), *map(str, arguments)]

    def start(self, ranks, name, *arguments, shim=True, command=None, **settings):
        return subprocess.Popen(
            command or self.command(ranks, name, arguments),
            cwd=self.prefix, env=self.environment(shim, settings), text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, ranks, name, *arguments, **settings):
        return finish(self.start(ranks, name, *arguments, **settings))

    def run_on_nodes(self, count, name, *arguments, **settings):
        """The same under the shim with a rank on each of `count` nodes."""
        return finish(self.start_on_nodes(count, 1, name, *arguments, **settings))

    def start_on_nodes(self, count, each, name, *arguments, **settings):
        """Starts the program with `each` ranks on each of `count` nodes, the same ones always."""
        if self.nodes is None:
            self.nodes = nodes.Nodes(self.base / "nodes", count, each)
        ranks = count * each
        command = self.nodes.command([f"mpirun.{self.mpi}", "-n", str(ranks)],
                                     [self.program(name), *map(str, arguments)])
        here = str(self.nodes.here)
        bases = {"SCR_CNTL_BASE": here, "SCR_CACHE_BASE": here}
        return self.start(ranks, name, command=command, **bases, **settings)

    def tree(self, below="ckpt"):
        """Path to digest of every file below the prefix's `below`."""
        top = self.prefix / below
        digests = ((path, digest(path)) for path in sorted(top.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.prefix)): found for path, found in digests if found}

    def cached(self):
        """Names of the checkpoint files in the cache."""
        return sorted(str(p.relative_to(self.base)) for p in self.base.rglob("rank_*.dat"))

    def remove(self):
        shutil.rmtree(self.prefix, ignore_errors=True)
        shutil.rmtree(self.base, ignore_errors=True)


def digest(path):
    """Of the file's content; None if it has gone meanwhile, as staged files do in a flush."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def finish(process):
    """Waits for the run; one that hangs is killed and fails the case with what it printed."""
    try:
        out, err = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"hangs: {Outcome('killed', out, err)}")
    return Outcome(process.returncode, out, err)


def wait_for(condition, run):
    """Waits for an event; a run that ends before it, or a hang, fails the case."""
    def has_come():
        try:
            return condition()
        except FileNotFoundError:
            return False  # a directory went while it was listed

    deadline = time.monotonic() + LIMIT_SECONDS
    while not has_come():
        if run.poll() is not None:
            raise AssertionError(f"ended before the event: {finish(run)}")
        if time.monotonic() > deadline:
            os.killpg(run.pid, signal.SIGKILL)
            raise AssertionError(f"the event did not come: {finish(run)}")
        time.sleep(0.02)


def ranks_of(here, program="steady"):
    """Process ids of the run's ranks."""
    def is_one(pid):
        try:
            return (os.readlink(f"/proc/{pid}/cwd") == str(here.prefix)
                    and os.readlink(f"/proc/{pid}/exe") == here.program(program))
        except OSError:
            return False
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_one(pid)]


def kill_ranks_of(here, program="steady"):
    ranks = ranks_of(here, program)
    assert ranks, "ranks not found"
    for pid in ranks:
        with contextlib.suppress(ProcessLookupError):  # the launcher was faster than we
            os.kill(pid, signal.SIGKILL)


def messages(got):
    """What SCR says of a run; not the launcher's line on how to save what the caches of a run that
    has failed have, which depends on how far its records had come."""
    return [line for line in got.err.splitlines()
            if "SCR:" in line and "the launch has failed" not in line]


def told_but(got, *expected):
    """The lines of standard error that have none of the `expected` words."""
    told = [line for line in got.err.splitlines() if line.strip()]
    return [line for line in told if not any(words in line for words in expected)]


def lines(got):
    """What several ranks have printed comes in any order."""
    return sorted(got.out.splitlines())


@contextlib.contextmanager
def place(mpi, program):
    """A fresh Place."""
    made = Place(mpi, program)
    try:
        yield made
    finally:
        made.remove()


def data_files(tree):
    """Without what SCR itself leaves in the prefix."""
    return {path: digest for path, digest in tree.items() if "/.scr/" not in f"/{path}"}


def assert_same(want, got):
    """Both outcomes have the same status and output."""
    assert (got.status, got.out) == (want.status, want.out), f"{want}\n--- under the shim\n{got}"


def assert_same_files(plain, here, got):
    """Both places have the same files with the same contents and rights; `got` tells what
    happened."""
    before, after = data_files(plain.tree()), data_files(here.tree())
    assert before == after, f"files differ: {sorted(before.items() ^ after.items())}\n{got}"
    before, after = (modes_of(one, before) for one in (plain, here))
    assert before == after, f"rights differ: {sorted(before.items() ^ after.items())}\n{got}"


def modes_of(place, files):
    return {path: oct((place.prefix / path).stat().st_mode) for path in files}


def same(mpi, program, ranks, name, *arguments, files=True, **settings):
    """Runs with SCR_FLUSH=1 and without the shim: same status, same output, same files."""
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        want = plain.run(ranks, name, *arguments, shim=False)
        got = shimmed.run(ranks, name, *arguments, **{"SCR_FLUSH": "1", **settings})
        assert_same(want, got)
        if files:
            assert_same_files(plain, shimmed, got)
        return got
