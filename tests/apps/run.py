#!/usr/bin/env python3
"""Programs that know nothing of SCR under the shim: LAMMPS, OpenFOAM, Quantum ESPRESSO, unchanged,
and small ones (`programs/`) for each way of writing checkpoints that they do not have.

usage: run.py [--turns] [word ...]    only the cases whose name has one of the words

With --turns, programs that are alike (one program on both MPIs, the ways in which OpenFOAM writes)
take the cases in turn. SCR_APPS_SEED draws other moments; with SCR_APPS_ALL=1 a process and a node
die on both MPIs.

Each runs without the shim, with it and every checkpoint flushed (all files must be equal), with it
and only the newest one flushed, and on virtual nodes, where a process or a node dies on the way.
"""

import os
import sys
import threading
import time
import traceback
import zlib

import compare
import espresso
import grids
import lammps
import openfoam
import proposed
from application import missing
import pool  # compare has told where it is
from strike import lost_node, lost_process, seed

APPLICATIONS = (
    lammps.LAMMPS, *openfoam.OPENFOAM, espresso.ESPRESSO, espresso.DYNAMICS, *grids.GRIDS,
)
LONG = (espresso.DYNAMICS, lammps.LAMMPS)  # with all their cases
HEAD = (
    "datasets", "amended", "most", "voided", "cached", "prefix", "fell", "agreements", "us",
    "share", "shim s", "run s",
)
INSTALLING = threading.Lock()
LEGEND = """Sums over the runs of every_file. most: amendments of one series in a run; cached,
prefix: opens for writing there; fell: files that were to be cached and were not; us: one allreduce
of the agreements' size, measured at the end of the run; share: agreements x that, of the run; shim
s: the most that a rank spent in start, agreements, seals, flushes and end, its waits for other
ranks included."""


def same(application, flush, newest_only, **settings):
    """Runs without the shim and with it; returns the outcomes under it, if all is equal."""
    plain = compare.Undisturbed.of(application)
    with compare.directory(application) as shimmed:
        found = compare.run_all(application, shimmed, SCR_FLUSH=flush, **settings)
        compare.same_output(application, plain.outcomes, found)
        compare.same_files(plain, shimmed, newest_only)
        return found


def every_file(application, table):
    """SCR_FLUSH=1: the prefix is that of a run without the shim."""
    few = application.amendments
    for _ in range(3):  # A busy machine pauses within a checkpoint now and then, not each time.
        told = compare.tally(same(application, "1", newest_only=False))
        if told["most"] <= few:
            break
        print(f"     once more, after: {application.name}: {told['most']} amendments of one series",
              flush=True)
    table.append((application.name, *(told[key] for key in HEAD)))
    assert told["most"] <= few, f"{told['most']} amendments of one series, not {few} at most"


def every_file_cached(application, table):
    """The same with SCR_LEARN=0: the first file of every kind is cached, too."""
    told = compare.tally(same(application, "1", newest_only=False, SCR_LEARN="0"))
    table.append((f"{application.name} SCR_LEARN=0", *(told[key] for key in HEAD)))
    assert told["cached"] > 0, f"nothing was cached: {told}"


def newest_files(application, _table):
    """SCR_FLUSH=0: the newest dataset of every series."""
    same(application, "0", newest_only=True)


def durable(application, _table):
    """Files that several ranks write are on disk before their checkpoint counts."""
    compare.shared_files_are_synced(application)


CASES = (
    every_file, every_file_cached, newest_files, durable, proposed.learned, lost_process, lost_node,
)
DEALT = (every_file, newest_files, lost_process, lost_node, durable)


def has_turn(application, case):
    """Whether `make test` runs the case on this one of the programs that are alike."""
    if application.turn is None or case not in DEALT:
        return True
    is_its_own = application.own_way and case in (every_file, durable)
    # Those of one program on the two MPIs are dealt as they are without turns.
    is_dealt = application.both and case in (lost_process, lost_node)
    return is_its_own or is_dealt or (DEALT.index(case) + application.turn) % 2 == 0


def applies(application, case):
    """Whether the case can be run; of two MPIs, one loses a process and the other a node."""
    if case is durable:
        return bool(application.shared)
    if case is every_file_cached:
        return application.once
    if case in (every_file, newest_files, proposed.learned):
        return True
    if not application.strike or not application.both or os.environ.get("SCR_APPS_ALL") == "1":
        return bool(application.strike)
    drawn = ("openmpi", "mpich")[(zlib.crc32(application.kind.encode()) + seed()) % 2]
    return (case is lost_process) == (application.mpi == drawn)


def chosen(words, turns):
    """Each program with its cases and their names: they share what it does without the shim."""
    for application in APPLICATIONS:
        named = [(case, f"{application.name} {case.__name__}") for case in CASES
                 if applies(application, case) and (not turns or has_turn(application, case))]
        named = [(case, name) for case, name in named
                 if not words or any(word in name for word in words)]
        if named:
            yield application, named


def show(table):
    if not table:
        return
    rows = [("program", *HEAD), *table]
    widths = [max(len(str(row[at])) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("  ".join(f"{value!s:>{width}}" for value, width in zip(row, widths)))
    print(LEGEND)


def run(application, case, name, table):
    """Returns whether it passed."""
    begun = time.monotonic()
    try:
        with INSTALLING:
            is_missing = missing(application)
        if is_missing:
            packages = " ".join(application.packages)
            raise AssertionError(f"{application.program} is not there; packages: {packages}")
        told = case(application, table) or ""
        print(f"ok     {name} ({time.monotonic() - begun:.1f} s) {told}", flush=True)
        return True
    except Exception:  # pylint: disable=broad-exception-caught
        print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
        return False


def main(arguments):
    words = [word for word in arguments if word != "--turns"]
    table, passed = [], []

    def run_cases(item):
        application, named = item
        passed.extend(run(application, case, name, table) for case, name in named)

    try:
        programs = pool.ordered(
            chosen(words, "--turns" in arguments), lambda item: item[0], LONG)
        pool.run_all(programs, lambda _: pool.HALF, run_cases)
    finally:
        show(table)
    print(f"{passed.count(True)} passed, {passed.count(False)} failed")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
