"""How long a checkpoint holds a program up that is one file of all ranks, written by MPI-IO, beside
one of as many bytes that is a file a rank; alone, and in the cache, by turns."""

import blocked
from jobs import job, variants
from measure import ALONE, NOW, row

SCHEMES = (("SINGLE", 0), ("PARTNER", 1), ("XOR", 1))
WATCHED = 3  # the first checkpoints of one file are not cached yet
ONE = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/all.dat", "SCR_LEARN": "1",
       "SCR_SHARED_CACHE": "1"}


def one_file(mpi, programs, scratch, turns):
    kinds = variants([NOW], SCHEMES)
    found = {}
    for _ in range(turns or blocked.TURNS):
        for (name, build), settings in kinds.items():
            for ways in ([], ["one"]):
                lines = once(mpi, scratch, programs, build, settings, ways)
                found.setdefault((name, bool(ways)), []).append(lines)
    plain = found["alone", False]
    for name, build in kinds:
        files, one = found[name, False], found[name, True]
        files_seconds, seconds = (blocked.told(blocked.medians(turns)[blocked.BLOCKED])
                                  for turns in (files, one))
        times = blocked.by_turns(one, files, blocked.BLOCKED)
        of_plain = blocked.by_turns(one, plain, blocked.BLOCKED)
        label = "alone" if build is ALONE else name
        row(f"4 x {blocked.MIB} MiB, a file a rank and one file: {label}", files_seconds, seconds,
            f"x {times:.2f}", f"of plain files x {of_plain:.2f}")


def once(mpi, scratch, programs, build, settings, ways):
    """The lines of those checkpoints that count."""
    warm_up = blocked.WARM_UP + (WATCHED if ways else 0)
    more = ONE if ways and build.dist else {}
    with job(mpi, scratch, build, **{**settings, **more}) as run:
        last = "keep" if build.dist else "tidy"
        command = [programs["blocked"], blocked.COUNT + warm_up, blocked.MIB << 10, blocked.CALLS,
                   blocked.PAUSE, "sleep", last, *ways]
        lines = run.run_to_death(*command)
        if build.dist and ways:
            held = run.nodes.node(0).rglob("all.dat")
            if not any(path.stat().st_blocks for path in held):
                raise SystemExit(f"{settings}: one file is not in the cache")
    if len(lines) != blocked.COUNT + warm_up:
        raise SystemExit(f"{settings}: {len(lines)} checkpoints")
    return lines[warm_up:]


PARTS = {"one_file": one_file}
