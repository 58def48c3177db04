"""How long checkpoints hold a program up, and the processor's time that they take: with each
scheme, and for the same program alone on the same RAM disk or disk. All by turns."""

import itertools
import os
import statistics
import tempfile

import aims
from jobs import job, variants
from measure import ALONE, NOW, ROOT, builds, row

MIB = 256  # a rank
TURNS = 5
COUNT = 4  # checkpoints of a turn that count
WARM_UP = 2  # the first ones meet memory that was never used
CALLS, PAUSE = 30, 10000  # synchronising calls after each, microseconds between them
WAITS = (0, 15, 35)  # % of the time
WAITS_MIB, WAITS_CALLS = 96, 200
SMALL_COUNT = 200
DISK_MIB, DISK_COUNT = 96, 30  # a rank, at most; small ones
BLOCKED, WRITTEN, UNTIL_NEXT, FIRST, LATER, PROCESSOR = range(6)


def measured(mpi, scratch, programs, kinds, count, program, warm_up=WARM_UP, before=(), mpirun=(),
             turns=None, **place):
    """Of each kind of `kinds` the checkpoints' figures, a list a turn. One job at a time has
    memory. `place` is what jobs.job takes."""
    found = {kind: [] for kind in kinds}
    for turn in range(turns or TURNS):
        order = list(kinds) if turn % 2 == 0 else list(reversed(kinds))
        for kind in order:
            (_, build), settings = kind, kinds[kind]
            with job(mpi, scratch, build, **place, **settings) as run:
                last = "keep" if build.dist else "tidy"
                command = [*before, programs["blocked"], count + warm_up, *program, last]
                lines = run.run_to_death(*command, mpirun=mpirun)
            if len(lines) != count + warm_up:
                raise SystemExit(f"{kind[0]}, {build.name}: {len(lines)} checkpoints of "
                                 f"{count + warm_up}")
            found[kind].append(lines[warm_up:])
    return found


def medians(turns):
    return list(map(statistics.median, zip(*itertools.chain(*turns))))


def by_turns(mine, others, figure):
    """The median of the turns' ratios: a machine that is slower for some seconds, as virtual ones
    are by half, is so for both sides of a turn."""
    return statistics.median(medians([one])[figure] / medians([other])[figure]
                             for one, other in zip(mine, others))


def told(seconds):
    return f"{seconds:.3f} s" if seconds > 0.1 else f"{1e3 * seconds:.2f} ms"


def tell(what, found, kind):
    """A row for each kind. `kind` is the part's name in the keys of aims."""
    plain = found["alone", ALONE]
    alone = medians(plain)
    row(f"{what}: alone", told(alone[BLOCKED]), "", "", f"cpu {told(alone[PROCESSOR])}")
    now = {}
    for (name, build), turns in found.items():
        if not build.dist:
            continue
        mine, times = medians(turns), by_turns(turns, plain, BLOCKED)
        label = name if build is NOW else f"{name}, {build.name}"
        row(f"{what}: {label}", "", told(mine[BLOCKED]), f"x {times:.2f}",
            f"least x {least(turns) / least(plain):.2f}; cpu {told(mine[PROCESSOR])}, "
            f"x {by_turns(turns, plain, PROCESSOR):.2f}")
        if build is NOW:
            now[name] = turns
            aims.note_if_aimed(f"{kind} {name}", times)
        else:
            share = by_turns(now[name], turns, BLOCKED)
            row(f"{what}: {name}, of the older build's", "", "", f"x {share:.2f}",
                f"least x {least(now[name]) / least(turns):.2f}")
            aims.note_if_aimed(f"{kind} before {name}", share)


def least(turns):
    return min(line[BLOCKED] for line in itertools.chain(*turns))


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


def on_disk(mpi, programs, scratch, turns):
    """Two ranks with a core each, prefix and caches on a disk, where a sync takes its time."""
    kinds = variants(builds(), (("SINGLE", 0), ("XOR", 1)))
    with disk() as place:
        for kib, count, calls in ((min(MIB, DISK_MIB) << 10, COUNT, CALLS), (4, DISK_COUNT, 1)):
            size = f"{kib >> 10} MiB" if kib >= 1024 else f"{kib} KiB"
            program = [kib, calls, PAUSE if calls > 1 else 0, "sleep"]
            found = measured(mpi, scratch, programs, kinds, count, program, turns=turns, ranks=2,
                             mpirun=bound(mpi, "core"), disk=place)
            tell(f"2 x {size} on disk, blocked", found, f"disk {size}")


def disk():
    """A directory on a disk; SCR_BENCH_DISK is another place for it."""
    place = os.environ.get("SCR_BENCH_DISK") or ROOT / "target" / "tmp"
    os.makedirs(place, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="scr-bench-", dir=place)


def bound(mpi, to):
    return ["--bind-to" if mpi == "openmpi" else "-bind-to", to]


def ways(names):
    """The program alone, and XOR with each of these values of SCR_SEAL that there is."""
    kinds = {("alone", ALONE): {}}
    for name in names:
        if NOW.knows("SCR_SEAL") and NOW.knows(name):
            kinds[f"XOR, {name}", NOW] = {"SCR_COPY_TYPE": "XOR", "SCR_SEAL": name}
        else:
            row(f"SCR_SEAL={name}", "", "not there", "")
    return kinds


def beside(mpi, programs, scratch, turns):
    """Two ranks at work on one core, the other core free for helpers: what is added to the run."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        aims.not_there("helper XOR", "one core")
        return
    found = measured(mpi, scratch, programs, ways(("BLOCKING", "BACKGROUND")), COUNT,
                     [MIB << 10, CALLS, PAUSE, "work"], before=["taskset", "-c", str(cores[0])],
                     mpirun=bound(mpi, "none"), ranks=2, crowded=True, turns=turns)
    added = tell_added(f"2 x {MIB} MiB on one core", found)
    aim(added, "XOR, BACKGROUND", "helper XOR")


def in_waits(mpi, programs, scratch, turns):
    """Two ranks at work, each with a core that it needs, that wait for each other for so much of
    their time: what a checkpoint adds to the run, and how long it holds a call up."""
    if len(os.sched_getaffinity(0)) < 2:
        for percent in WAITS:
            aims.not_there(f"waits {percent}", "one core")
        return
    for percent in WAITS:
        found = measured(mpi, scratch, programs, ways(("BLOCKING", "AUTO")), COUNT,
                         [WAITS_MIB << 10, WAITS_CALLS, PAUSE, f"{percent}%"],
                         mpirun=bound(mpi, "core"), ranks=2, turns=turns)
        what = f"2 x {WAITS_MIB} MiB, a core each, {percent} % of the time in waits"
        aim(tell_added(what, found), "XOR, AUTO", f"waits {percent}")
        own = 1e-6 * PAUSE * 2 * percent / 100
        for (name, build), turns_of_it in found.items():
            longest = statistics.median(line[LATER] for line in itertools.chain(*turns_of_it))
            row(f"{what}: longest later call beyond the wait, {name}", "", told(longest - own), "")


def aim(measured_by_name, name, key):
    if name in measured_by_name:
        aims.note(key, measured_by_name[name])
    else:
        aims.not_there(key, "not there")


def tell_added(what, found):
    """A row for each kind; what it adds to the run, in plain writes, by name."""
    alone = medians(found["alone", ALONE])
    row(f"{what}: alone, until the next", told(alone[UNTIL_NEXT]), "", "",
        f"write {told(alone[WRITTEN])}")
    added = {}
    for (name, build), turns in found.items():
        if not build.dist:
            continue
        mine = medians(turns)
        added[name] = (mine[UNTIL_NEXT] - alone[UNTIL_NEXT]) / alone[WRITTEN]
        row(f"{what}: {name}", "", told(mine[UNTIL_NEXT]), f"+ {added[name]:.2f}",
            f"of a write; write {told(mine[WRITTEN])}, first call {told(mine[FIRST])}, longest "
            f"later one {told(mine[LATER])}, cpu {told(mine[PROCESSOR])}")
    return added


PARTS = {"blocked": large, "small": small, "disk": on_disk, "helper": beside, "waits": in_waits}
