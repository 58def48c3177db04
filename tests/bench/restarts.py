"""Starts of four ranks, each on a node of its own: with nothing lost, and after lost nodes. What
MPI_Init takes beyond that of the program alone."""

import contextlib
import statistics

import aims
from jobs import job, settings_of, title
from measure import ALONE, NOW, builds, output, row, environment

import yields

RANKS, MIB = 4, 256
# Type, losses that it survives, losses that are tried.
SCHEMES = (("SINGLE", 0, 0), ("PARTNER", 1, 1), ("XOR", 1, 1), ("RS", 2, 2))
TURNS = 5
FLOORS = 10


def starts(mpi, programs, scratch, turns):
    """Each start finds what a run has just left: what one has looked at, the next need not."""
    for scheme, failures, most in SCHEMES:
        of = {build: [[] for _ in range(1 + most)] for build in builds()}
        alone = [[] for _ in range(1 + most)]
        with contextlib.ExitStack() as stack:
            bare = stack.enter_context(job(mpi, scratch, ALONE))
            jobs = {build: stack.enter_context(job(mpi, scratch, build,
                                                   **settings_of(scheme, failures)))
                    for build in of}
            for turn in range(turns or TURNS):
                for lost in range(1 + most):
                    alone[lost].append(bare.run(programs["restart"], "init", MIB)[0][0])
                    order = list(jobs) if turn % 2 == 0 else list(reversed(jobs))
                    for build in order:
                        gone = [(turn + node) % RANKS for node in range(lost)]
                        of[build][lost].append(one_start(jobs[build], programs["restart"], gone))
        tell(title(scheme, failures), alone, of)


def one_start(run, program, gone):
    """Seconds of MPI_Init after a run that has left checkpoints, and lost those nodes. Nothing is
    left of it."""
    run.run_to_death(program, "die", MIB)
    for node in gone:
        run.replace(node)
    found = run.run_to_death(program, "read", MIB)
    run.clear()
    if not found:
        raise SystemExit(f"{run.build.name}: no restart after {len(gone)} lost nodes")
    return found[0][0]


def tell(name, alone, of):
    """What is beyond MPI_Init is so in the same turn; shares are of what the turns have brought."""
    beyond = {build: [[one - plain for one, plain in zip(*pair)] for pair in zip(by_lost, alone)]
              for build, by_lost in of.items()}
    for build, times in beyond.items():
        label = name if build is NOW else f"{name}, {build.name}"
        for lost, seconds in enumerate(times):
            what = f"start, {label}: {lost or 'nothing'} lost"
            row(what, f"{1e3 * statistics.median(alone[lost]):.0f} ms",
                f"+{1e3 * statistics.median(seconds):.0f} ms", "", "beyond MPI_Init")
            if build is not NOW:
                share = statistics.median(
                    now / before for now, before in zip(beyond[NOW][lost], seconds))
                row(f"start, {name}: {lost or 'nothing'} lost, of the older build's", "", "",
                    f"x {share:.2f}")
                aims.note_if_aimed(f"rebuild {name} {lost}", share)
    aims.note("start", 1e3 * statistics.median(beyond[NOW][0]))


def floors(mpi, programs, scratch, _turns):
    """What the schemes' bytes take when they are only read, sent and written: no program that sends
    them by MPI is faster."""
    command = [f"mpirun.{mpi}", "-n", str(RANKS), programs["floor"], MIB, scratch]
    env = yields.asked(environment(ALONE), mpi, RANKS)
    # The first round meets memory that was never used.
    rounds = output([*map(str, command), str(FLOORS)], env, scratch)[1:]
    kinds = ("PARTNER", "XOR", "RS, 2 losses", "RS, 3 losses", "XOR, one of 4 rebuilt")
    for what, seconds in zip(kinds, zip(*rounds)):
        row(f"{RANKS} x {MIB} MiB, the bytes alone: {what}", told(statistics.median(seconds)), "",
            "", f"least {told(min(seconds))}")
    for path in scratch.glob("*_[0-9]"):
        path.unlink()


def told(seconds):
    return f"{seconds:.3f} s"


PARTS = {"rebuild": starts, "floor": floors}
