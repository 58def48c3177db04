#!/usr/bin/env python3
"""Lets file calls of ranks below the cache, the control directory and the prefix fail, from
MPI_Init to the end and through a restart, and checks that nobody loses a checkpoint or notices.

A job of two ranks writes steps until it is killed (`first`), is started again and runs to its end
(`again`), and is asked once more what it goes on from. Runs without faults tell which calls there
are. Then one of them fails in `first` or `again`, and the next run tells what that has cost:

  ENOSPC-once, EIO-once           each single call
  EIO-on, EROFS-on, INODES-on     for good, on that file system: I/O errors, read-only, no inodes
                                  left; from the first call on that looks at a file, and from the
                                  first on that changes it, whatever its temporary name and number

Single ones are tried many at a time: a run in which one ends badly is done again with each half of
them, and those that the run did not come to are tried once more with others. The two MPIs take
turns with the calls.

usage: faults.py [--whole] [--one-in N] [--part I/N] [--minutes M] [--seed S] [--scheme single|xor]
                 [--mpi openmpi|mpich] [--only NAME ...]

Without --whole, one in N is drawn (without a number one in 10). With --part, the I-th (from 1) of N
parts of that is tried; with --minutes, nothing new after that time. NAME is that of one injection
as it is printed.
"""

import argparse
import collections
import math
import pathlib
import random
import sys
import tempfile
import time
import zlib

from scene import LONGER_SECONDS, SCHEMES, Scene, build
import pool  # scene says where it is

KILLED, LAST = 4, 6  # the steps after which `first` and `again` end
MPIS = ("openmpi", "mpich")
ONE_IN = 10
TOGETHER = 32  # single faults in one run
KINDS = {  # of faults: errno, what a call has to be able to, for good
    "ENOSPC-once": ("ENOSPC", "s", False),
    "EIO-once": ("EIO", "", False),
    "EIO-on": ("EIO", "", True),
    "EROFS-on": ("EROFS", "r", True),
    "INODES-on": ("ENOSPC", "c", True),
}


class Fault:
    """One injection: in `phase`, the call `call` of `rank` is the `number`th of its kind."""

    def __init__(self, scene, phase, rank, store, kind, number, call):
        self.phase, self.rank, self.store, self.kind = phase, rank, store, kind
        self.number, self.call = number, call
        self.name = f"{scene.scheme}/{scene.mpi}/{phase}/{store}/{rank}/{kind}/{number}"

    def __str__(self):
        return f"{self.name} ({self.call})"

    def is_in(self, part, parts):
        """Whether it is one of this part of all. The same in each run, as far as calls are."""
        words = f"{self.phase} {self.rank} {self.store} {self.kind} {self.number // TOGETHER}"
        if KINDS[self.kind][2]:
            words = f"{self.phase} {self.rank} {self.store} {self.kind} {self.call.step()}"
        return zlib.crc32(words.encode()) % parts == part - 1


def faults_of(scene, phase, calls):
    """Every fault for the calls that a run without faults has made."""
    for rank, made in enumerate(calls):
        for store in scene.stores:
            for kind, (_, needs, for_good) in KINDS.items():
                seen = set()
                able = [call for call in made if call.store == store and needs in call.can]
                for number, call in enumerate(able, 1):
                    if not (for_good and call.step() in seen):
                        yield Fault(scene, phase, rank, store, kind, number, call)
                    seen.add(call.step())


def wrapper(scene, faults):
    """Injectors for faults of one phase, store and kind."""
    words = []
    for rank in sorted({fault.rank for fault in faults}):
        one = next(fault for fault in faults if fault.rank == rank)
        errno, needs, for_good = KINDS[one.kind]
        numbers = ",".join(str(fault.number) for fault in faults if fault.rank == rank)
        creating = ["--creating"] if needs == "c" else []
        words += scene.injector("--below", scene.stores[one.store], "--errno", errno, *creating,
                                "--nth", numbers, "--count", 0 if for_good else 1, "--rank", rank)
    return words


class Sweep:
    """The injections of one scene, and what came of them."""

    def __init__(self, scene, until):
        self.scene, self.until = scene, until
        self.tried = self.hit = self.left = 0
        self.lost = []
        self.messages = collections.Counter()
        self.first = self.again = self.after = None

    def without_faults(self):
        """Runs all phases; keeps the state after the first for `again`."""
        counting = self.scene.injector()
        self.first = self.scene.run(KILLED, KILLED, wrapper=counting)
        self.scene.save()
        if self.scene.nodes:
            self.scene.lose_node()
        self.again = self.scene.run(LAST, wrapper=counting)
        self.after = self.scene.run(LAST)
        got = [(run.start, run.status == 0, run.failed) for run in
               (self.first, self.again, self.after)]
        want = [(0, False, []), (KILLED, True, []), (LAST, True, [])]
        assert got == want, "\n".join(map(str, (self.first, self.again, self.after)))
        in_cache = [call for calls in self.first.calls for call in calls if call.store == "cache"]
        assert in_cache, "nothing was cached: is the shim there?"
        faults = [*faults_of(self.scene, "first", self.first.calls),
                  *faults_of(self.scene, "again", self.again.calls)]
        by_turns = MPIS.index(self.scene.mpi)
        return [fault for at, fault in enumerate(faults) if at % 2 == by_turns]

    def inject(self, faults):
        """Runs with these faults, which are of one phase, store and kind; returns (calls that
        failed, defects, what was printed)."""
        injected = wrapper(self.scene, faults)
        if faults[0].phase == "first":
            self.scene.clear()
            with_faults = self.scene.run(KILLED, KILLED, wrapper=injected)
            if self.scene.nodes and faults[0].number % 2:
                self.scene.lose_node()
            next_run = self.scene.run(LAST)
            plain, plain_next = self.first, self.again
        else:
            self.scene.restore()
            if self.scene.nodes:
                self.scene.lose_node()
            with_faults = self.scene.run(LAST, wrapper=injected)
            next_run = self.scene.run(LAST)
            plain, plain_next = self.again, self.after
        hits = with_faults.hits()

        def may_fail(line):
            return own(line, faults, hits)

        defects = [*compare(plain, with_faults, "the run", may_fail),
                   *compare(plain_next, next_run, "the next run"),
                   *self.repeated(with_faults), *self.repeated(next_run),
                   *restarts(faults[0].phase, KINDS[faults[0].kind][2], with_faults, next_run,
                             may_fail)]
        said = (text for run in (with_faults, next_run) for text in run.messages)
        self.messages.update({self.scene.shape(text) for text in said})
        return hits, defects, f"{with_faults}--- then:\n{next_run}"

    def repeated(self, run):
        """Messages that say the same, of whatever rank or step."""
        said = collections.Counter(map(self.scene.shape, run.messages))
        return (f"said {times} times: {text}" for text, times in said.items() if times > 1)

    def attempt(self, faults):
        """Tries faults together; if that ends badly, each half of them. Returns those that the run
        did not come to with others."""
        if time.monotonic() > self.until:
            self.left += len(faults)
            return []
        hits, defects, printed = self.inject(faults)
        if defects and len(faults) > 1:
            middle = len(faults) // 2
            return [*self.attempt(faults[:middle]), *self.attempt(faults[middle:])]
        came_to = {(call.rank, call.number) for call in hits}
        missed = [one for one in faults if (one.rank, one.number) not in came_to]
        self.tried += len(faults)
        self.hit += len(faults) - len(missed)
        if defects:
            self.lost.append((faults[0], defects))
            where = ", ".join(dict.fromkeys(map(str, hits[:3])))
            lines = [f"LOST {faults[0]}", f"  hit: {len(hits)} calls, first {where}",
                     *(f"  {defect}" for defect in defects),
                     *(f"    | {line}" for line in printed.splitlines())]
            print("\n".join(lines), flush=True)
        return missed if len(faults) > 1 else []

    def attempt_all(self, together):
        """Tries all groups of faults, and once more what they did not come to."""
        missed = [fault for group in together for fault in self.attempt(group)]
        self.tried -= len(missed)
        for group in groups(missed, random.Random(1)):
            self.attempt(group)


READS = ("open", "openat", "read", "pread64", "copy_file_range", "sendfile")


def concerns(call, path):
    """Whether a call that failed is the program's own on `path`, which it has below the prefix, or
    on a directory of it: the PFS has refused. Or it reads what the cache alone has."""
    theirs = call.store == "prefix" and "/.scr" not in call.place
    alone = call.store == "cache" and call.name in READS and call.can == "---"
    at = call.path.find("/ckpt")
    if at < 0 or not (theirs or alone):
        return False
    of_call = call.path[at + 1 :]
    return any(f"{name}/".startswith(f"{of_call}/") for name in (path, path.removesuffix(".tmp")))


def own(line, faults, hits):
    """Whether the call of the program that this line tells of may fail. One that fails for good
    does so at every name."""
    if KINDS[faults[0].kind][2]:
        return any(concerns(call, "ckpt" + call.path.partition("/ckpt")[2]) for call in hits)
    return any(concerns(call, line.split()[2]) for call in hits)


def compare(plain, run, which, may_fail=lambda line: False):
    """What a run did other than without faults."""
    if run.status is None:
        yield f"{which} hangs"
        return
    # Of a job that is killed, MPICH's launcher tells the status of whichever rank it saw first.
    if run.status != plain.status and not (plain.status and run.status):
        yield f"{which} ends with status {run.status}, not {plain.status}"
    if plain.result and run.result != plain.result:
        yield f"{which} has another result: {run.result}"
    for line in run.failed:
        if not may_fail(line):
            yield f"{which}: the program's own call fails: {line}"
    if run.seconds > plain.seconds + LONGER_SECONDS:
        yield f"{which} takes {run.seconds:.1f} s, without faults {plain.seconds:.1f} s"


def restarts(phase, for_good, with_faults, next_run, may_fail):
    """Whether the runs went on from the newest checkpoint that was whole. One of which the program
    knows that it is not, since a call failed, does not count. One that was in progress when a file
    system began to fail for good may be missing."""
    bad = {int(line.split(" of step ")[1].split(":")[0]) for line in with_faults.failed
           if line.split()[1] not in ("find", "read")}
    written = range(1, (KILLED if phase == "first" else LAST) + 1)
    newest = max((step for step in written if step not in bad), default=0)
    least = newest - for_good
    if next_run.start is not None and next_run.start < least:
        yield f"the next run goes on from step {next_run.start}, not {newest}"
    # What the program cannot even look for, it does not go on from. Where the cache fails for good,
    # so does what it alone has; where the prefix does, nothing of the cache is shown. What the
    # cache alone has and fails to read once, the program does without.
    looked = not any(line.startswith("failed find ") for line in with_faults.failed)
    refused = any(line.startswith("failed read ") and may_fail(line)
                  for line in with_faults.failed)
    if phase == "again" and looked and with_faults.start in range(KILLED - (for_good or refused)):
        yield f"the restart goes on from step {with_faults.start}, not {KILLED}"


def groups(faults, generator):
    """Faults that are tried together: single ones of the same phase, store and kind."""
    alike = collections.defaultdict(list)
    for fault in faults:
        key = fault.name if KINDS[fault.kind][2] else (fault.phase, fault.store, fault.kind)
        alike[key].append(fault)
    for found in alike.values():
        generator.shuffle(found)
        for at in range(0, len(found), TOGETHER):
            yield found[at : at + TOGETHER]


def named(scene, name):
    """The fault of that name. Which call its number means differs a little from run to run."""
    _, _, phase, store, rank, kind, number = name.split("/")
    return Fault(scene, phase, int(rank), store, kind, int(number), "by its name")


def chosen(scene, faults, options, generator):
    """Those that are asked for, in groups."""
    if options.only:
        here = f"{scene.scheme}/{scene.mpi}/"
        return [[named(scene, name)] for name in options.only if name.startswith(here)]
    if not options.whole:
        faults = generator.sample(faults, -(-len(faults) // options.one_in))
    if options.part:
        part, parts = map(int, options.part.split("/"))
        faults = [fault for fault in faults if fault.is_in(part, parts)]
    found = list(groups(faults, generator))
    generator.shuffle(found)
    return found


def sweep(scene, options):
    generator = random.Random(f"{options.seed} {scene.scheme} {scene.mpi}")
    found = Sweep(scene, options.until)
    faults = found.without_faults()
    wanted = chosen(scene, faults, options, generator)
    print(f"{scene.scheme} {scene.mpi}: {sum(map(len, wanted))} of {len(faults)} injections, in "
          f"{len(wanted)} runs", flush=True)
    begun = time.monotonic()
    found.attempt_all(wanted)
    print(f"{scene.scheme} {scene.mpi}: {found.tried} tried, {found.hit} hit, {len(found.lost)} "
          f"lost, {found.left} left, {time.monotonic() - begun:.0f} s", flush=True)
    return found


def wanted_scenes(options):
    """(scheme, MPI) of every scene that is asked for."""
    every = [(scheme, mpi) for scheme in options.scheme or SCHEMES for mpi in options.mpi or MPIS]
    if options.only:
        every = [one for one in every
                 if any(name.startswith("/".join(one) + "/") for name in options.only)]
    return every


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--one-in", type=int, metavar="N", default=ONE_IN)
    parser.add_argument("--part", metavar="I/N")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--scheme", choices=SCHEMES, action="append")
    parser.add_argument("--mpi", choices=MPIS, action="append")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    options = parser.parse_args()
    options.until = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="scr-faults-") as name:
        top = pathlib.Path(name)
        build(top)

        def one(which):
            scene = Scene(top, *which)
            try:
                return sweep(scene, options)
            finally:
                scene.remove()

        sweeps = pool.run_all(list(wanted_scenes(options)), lambda _: pool.HALF, one)
    return report(sweeps)


def report(sweeps):
    messages = sum((found.messages for found in sweeps), collections.Counter())
    print("\nmessages, and in how many runs:")
    for message, times in messages.most_common():
        print(f"{times:6}  {message}")
    lost = [one for found in sweeps for one in found.lost]
    print(f"\nlost: {len(lost)}")
    for fault, defects in lost:
        print(f"  {fault}: {defects[0]}")
        print(f"    python3 tests/faults/faults.py --only {fault.name}")
    tried, hit = sum(found.tried for found in sweeps), sum(found.hit for found in sweeps)
    print(f"injections: {tried} tried, {hit} hit, {len(lost)} lost")
    print(f"{tried - len(lost)} passed, {len(lost)} failed")
    return 1 if lost or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
