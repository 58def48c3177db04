"""How long checkpoints hold a program up, and the processor's time that they take: with each
scheme, and for the same program alone on the same RAM disk. All by turns."""

import os
import statistics

import aims
from jobs import job, variants
from measure import ALONE, NOW, builds, row

MIB = 256  # a rank
TURNS = 3
COUNT = 4  # checkpoints of a turn that count
WARM_UP = 2  # the first ones meet memory that was never used
CALLS, PAUSE = 30, 10000  # synchronising calls after each, microseconds between them
SMALL_COUNT = 200
BLOCKED, WRITTEN, UNTIL_NEXT, LONGEST, PROCESSOR = range(5)


def measured(mpi, scratch, programs, kinds, count, program, warm_up=WARM_UP, before=(), mpirun=(),
             ranks=4, turns=TURNS):
    """Of each kind of `kinds` the checkpoints' figures, all turns together. One job at a time has
    memory."""
    found = {kind: [] for kind in kinds}
    for turn in range(turns):
        order = list(kinds) if turn % 2 == 0 else list(reversed(kinds))
        for kind in order:
            (_, build), settings = kind, kinds[kind]
            with job(mpi, scratch, build, ranks, **settings) as run:
                last = "keep" if build.dist else "tidy"
                command = [*before, programs["blocked"], count + warm_up, *program, last]
                lines = run.run_to_death(*command, mpirun=mpirun)
            if len(lines) != count + warm_up:
                raise SystemExit(f"{kind[0]}, {build.name}: {len(lines)} checkpoints of "
                                 f"{count + warm_up}")
            found[kind] += lines[warm_up:]
    return found


def medians(lines):
    return list(map(statistics.median, zip(*lines)))


def told(seconds):
    return f"{seconds:.3f} s" if seconds > 0.1 else f"{1e3 * seconds:.2f} ms"


def tell(what, found, kind):
    """A row for each kind. `kind` is the part's name in the keys of aims."""
    plain = found["alone", ALONE]
    alone = medians(plain)
    row(f"{what}: alone", told(alone[BLOCKED]), "", "", f"cpu {told(alone[PROCESSOR])}")
    now = {}
    for (name, build), lines in found.items():
        if not build.dist:
            continue
        mine = medians(lines)
        times = mine[BLOCKED] / alone[BLOCKED]
        label = name if build is NOW else f"{name}, {build.name}"
        row(f"{what}: {label}", "", told(mine[BLOCKED]), f"x {times:.2f}",
            f"least x {least(lines) / least(plain):.2f}; cpu {told(mine[PROCESSOR])}, "
            f"x {mine[PROCESSOR] / alone[PROCESSOR]:.2f}")
        if build is NOW:
            now[name] = lines
            aims.note_if_aimed(f"{kind} {name}", times)
        else:
            share = medians(now[name])[BLOCKED] / mine[BLOCKED]
            row(f"{what}: {name}, of the older build's", "", "", f"x {share:.2f}",
                f"least x {least(now[name]) / least(lines):.2f}")
            aims.note_if_aimed(f"{kind} before {name}", share)


def least(lines):
    return min(line[BLOCKED] for line in lines)


def large(mpi, programs, scratch, turns):
    found = measured(mpi, scratch, programs, variants(builds()), COUNT,
                     [MIB << 10, CALLS, PAUSE, "sleep"], turns=turns)
    tell(f"4 x {MIB} MiB, blocked", found, "blocked")


def small(mpi, programs, scratch, turns):
    """One after another, with one synchronising call each."""
    schemes = (("SINGLE", 0), ("PARTNER", 1), ("XOR", 1))
    flushes = (("each flushed", {"SCR_FLUSH": "1"}),
               ("each flushed by threads", {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1"}))
    for kib in (4, 1024):
        kinds = variants(builds(), schemes)
        for how, more in flushes if kib == 4 else ():
            kinds |= {(f"{name}, {how}", build): settings for (name, build), settings
                      in variants(builds(), (("XOR", 1),), **more).items() if build.dist}
        found = measured(mpi, scratch, programs, kinds, SMALL_COUNT, [kib, 1, 0, "sleep"],
                         warm_up=20, turns=turns)
        tell(f"4 x {kib} KiB, blocked", found, f"{kib} KiB")


def beside(mpi, programs, scratch, turns):
    """Two ranks at work on one core, the other core free for helpers: what is added to the run."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        aims.not_there("helper XOR", "one core")
        return
    kinds = {("alone", ALONE): {}}
    for way in ("BLOCKING", "BACKGROUND", "SLICES"):
        if NOW.knows("SCR_SEAL") and NOW.knows(way):
            kinds[f"XOR, {way}", NOW] = {"SCR_COPY_TYPE": "XOR", "SCR_SEAL": way}
        elif way == "BLOCKING":
            kinds[f"XOR, {way}", NOW] = {"SCR_COPY_TYPE": "XOR"}
        else:
            row(f"2 x {MIB} MiB on one core: SCR_SEAL={way}", "", "not there", "")
    binding = ["--bind-to", "none"] if mpi == "openmpi" else ["-bind-to", "none"]
    found = measured(mpi, scratch, programs, kinds, COUNT, [MIB << 10, CALLS, PAUSE, "work"],
                     before=["taskset", "-c", str(cores[0])], mpirun=binding, ranks=2, turns=turns)
    alone = medians(found["alone", ALONE])
    what = f"2 x {MIB} MiB on one core"
    row(f"{what}: alone, until the next", told(alone[UNTIL_NEXT]), "",
        f"write {told(alone[WRITTEN])}")
    for (name, build), lines in found.items():
        if not build.dist:
            continue
        mine = medians(lines)
        added = (mine[UNTIL_NEXT] - alone[UNTIL_NEXT]) / alone[WRITTEN]
        row(f"{what}: {name}", "", told(mine[UNTIL_NEXT]), f"+ {added:.2f}",
            f"of a write; longest later call {told(mine[LONGEST])}, cpu {told(mine[PROCESSOR])}")
        if name == "XOR, BACKGROUND":
            aims.note("helper XOR", added)
        if name == "XOR, SLICES":
            aims.note("slices XOR", 1e3 * (mine[LONGEST] - alone[LONGEST]))
    for aim, way in (("helper XOR", "BACKGROUND"), ("slices XOR", "SLICES")):
        if (f"XOR, {way}", NOW) not in found:
            aims.not_there(aim, "not there")


PARTS = {"blocked": large, "small": small, "helper": beside}
