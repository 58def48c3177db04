"""Four ranks, each on a node of its own: what protecting costs, what a lost node costs, and how
often small checkpoints can be taken. Against the same write to a plain file, and the same start
with nothing lost. `like` is what the C implementation took on such a machine of two cores."""

import contextlib
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from measure import environment, output, row

import nodes
import yields

RANKS = 4
MIB = 256  # a rank
# Type, losses that it survives, what the C implementation took: write and seal; rebuild after one
# lost node, after two.
SCHEMES = (
    ("SINGLE", 0, "0.31 s", ()),
    ("PARTNER", 1, "0.8-1.0 s", ("0.31-0.36 s",)),
    ("XOR", 1, "0.57-0.64 s", ("0.25-0.32 s",)),
    ("RS", 2, "1.3-1.5 s", ("0.9-1.1 s", "1.8-1.9 s")),
    ("RS", 3, "2.5 s", ()),
)
ROUNDS = 2
SEALS = 4  # of a launch
WARM_UP = 3
REBUILDS = 3
FLOORS = 10
SMALL = 300
SMALL_CASES = (
    ("SINGLE", {"SCR_FLUSH": "0"}, "2.5 ms"),
    ("XOR", {"SCR_FLUSH": "0"}, "3.8-6.3 ms"),
    ("XOR, each flushed", {"SCR_FLUSH": "1"}, "7-9 ms"),
    ("XOR, each flushed by threads", {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1"}, "7-9 ms"),
)


class Job:
    """A prefix and a cache for each of the nodes, on RAM disk."""

    def __init__(self, mpi, top, **settings):
        self.mpi, self.top, self.prefix = mpi, top, top / "prefix"
        self.nodes = nodes.Nodes(top / "nodes", RANKS, 1)
        self.prefix.mkdir()
        self.base = str(self.nodes.here / "base")
        for node in range(RANKS):
            (self.nodes.node(node) / "plain").mkdir()
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

    def command(self, *program):
        mpirun = [f"mpirun.{self.mpi}", "-n", str(RANKS)]
        return self.nodes.command(mpirun, list(map(str, program)))

    def run(self, *program):
        """Its lines of numbers; it has to end well and in silence."""
        return output(self.command(*program), self.environment(), self.prefix)

    def environment(self):
        return yields.asked(environment(True, **self.settings), self.mpi, RANKS)

    def run_to_death(self, *program):
        """The lines of numbers of one that kills itself."""
        done = subprocess.run(
            self.command(*program), env=self.environment(), cwd=self.prefix,
            stdin=subprocess.DEVNULL, text=True, capture_output=True)
        lines = [line for line in done.stdout.splitlines() if line[:1].isdigit()]
        return [list(map(float, line.split())) for line in lines]


@contextlib.contextmanager
def job(mpi, scratch, **settings):
    with tempfile.TemporaryDirectory(dir=scratch) as top:
        yield Job(mpi, pathlib.Path(top), **settings)


def title(scheme, failures):
    return f"RS, {failures} losses" if scheme == "RS" else scheme


def settings_of(scheme, failures):
    more = {"SCR_SET_FAILURES": str(failures)} if failures > 1 else {}
    return {"SCR_COPY_TYPE": scheme, **more}


def seals(mpi, programs, scratch):
    """Write and seal, after a plain write, in a run that goes on: each of its checkpoints takes the
    place of one before. The first ones meet memory that was never used."""
    for scheme, failures, like, _ in SCHEMES:
        rounds = []
        for _ in range(ROUNDS):
            with job(mpi, scratch, **settings_of(scheme, failures)) as run:
                plain_files = run.nodes.here / "plain"
                count = WARM_UP + SEALS
                lines = run.run_to_death(programs["restart"], "seal", MIB, plain_files, count)
                rounds += lines[WARM_UP:]
        plain, shim = map(statistics.median, zip(*rounds))
        times = statistics.median(shim / plain for plain, shim in rounds)
        row(f"{RANKS} x {MIB} MiB, written and sealed: {title(scheme, failures)}",
            f"{plain:.2f} s", f"{shim:.2f} s", f"x {times:.2f}", f"like {like}")


def rebuilds(mpi, programs, scratch):
    """Starts: with nothing lost, then with one more node lost each time."""
    for scheme, failures, _, likes in SCHEMES:
        if not likes:
            continue
        with job(mpi, scratch, **settings_of(scheme, failures)) as run:
            run.run_to_death(programs["restart"], "die", MIB)
            seconds = [[] for _ in range(1 + len(likes))]
            for round_ in range(REBUILDS):
                for lost, all_of_it in enumerate(seconds):
                    for node in range(lost):
                        run.replace((round_ + node) % RANKS)
                    found = run.run_to_death(programs["restart"], "read", MIB)
                    if not found:
                        raise SystemExit(f"{scheme}: no restart after {lost} lost nodes")
                    all_of_it.append(found[0][0])
        whole, *broken = map(statistics.median, seconds)
        for lost, (rebuilt, like) in enumerate(zip(broken, likes), 1):
            row(f"start and rebuild, {title(scheme, failures)}: {lost} of {RANKS} nodes lost",
                f"{whole:.2f} s", f"{rebuilt:.2f} s", f"+{rebuilt - whole:.2f} s", f"like {like}")


def small(mpi, programs, scratch):
    """Checkpoints of 4 KiB a rank, one after another."""
    for name, more, like in SMALL_CASES:
        with job(mpi, scratch, SCR_COPY_TYPE=name.split(",")[0], **more) as run:
            times = [line[0] for line in run.run(programs["restart"], "small", SMALL)]
        each = statistics.mean(times)
        row(f"{RANKS} x 4 KiB, written and sealed: {name}", "", f"{each:.2f} ms",
            f"{1e3 / each:.0f} /s", f"like {like}")


def floors(mpi, programs, scratch):
    """What XOR's bytes take when they are only read, sent and written: no program that sends them
    by MPI is faster."""
    command = [f"mpirun.{mpi}", "-n", str(RANKS), programs["floor"], MIB, scratch]
    env = yields.asked(environment(False), mpi, RANKS)
    rounds = output([*map(str, command), str(FLOORS)], env, scratch)[1:]
    for what, seconds in zip(("protected", "one of 4 rebuilt"), zip(*rounds)):
        found = f"{statistics.median(seconds):.2f} s"
        row(f"{RANKS} x {MIB} MiB, XOR's bytes alone: {what}", found, "", "")
    for path in scratch.glob("*_[0-9]"):
        path.unlink()


PARTS = {"seal": seals, "rebuild": rebuilds, "floor": floors, "small": small}
