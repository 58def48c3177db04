#!/usr/bin/env python3
"""Programs that nobody here wrote, unchanged, under the shim: LAMMPS, OpenFOAM, Quantum ESPRESSO.

usage: run.py [word ...]    only the cases whose name has one of the words

Each runs without the shim, with it and every checkpoint flushed (all files must be equal), with it
and only the newest one flushed, and on virtual nodes, where a process or a node dies on the way.
"""

import sys
import time
import traceback

import compare
import espresso
import lammps
import openfoam
from application import missing
from strike import lost_node, lost_process

SUITES = (
    (lammps, (lammps.LAMMPS,)), (openfoam, openfoam.OPENFOAM), (espresso, (espresso.ESPRESSO,)),
)
HEAD = ("program", "datasets", "amended", "voided", "cached", "prefix", "agreements", "shim s")


def same(application, flush, newest_only):
    """Runs without the shim and with it; returns the outcomes under it, if all is equal."""
    with compare.directory(application) as plain, compare.directory(application) as shimmed:
        wanted = compare.run_all(application, plain)
        found = compare.run_all(application, shimmed, SCR_FLUSH=flush)
        compare.same_output(application, wanted, found)
        compare.same_files(application, plain, shimmed, newest_only)
        return found


def every_file(application, table):
    """SCR_FLUSH=1: the prefix is that of a run without the shim."""
    found = same(application, "1", newest_only=False)
    sums = [sum(column) for column in zip(*compare.tallies(found))]
    table.append((application.name, *map(int, sums[:6]), round(sum(sums[7:]), 3)))


def newest_files(application, _table):
    """SCR_FLUSH=0: the newest dataset of every series."""
    same(application, "0", newest_only=True)


CASES = (every_file, newest_files, lost_process, lost_node)


def cases(words):
    for module, applications in SUITES:
        chosen = [
            (application, case) for application in applications for case in CASES
            if (application.strike or case in (every_file, newest_files))
            and (not words or any(word in f"{application.name} {case.__name__}" for word in words))
        ]
        if chosen:
            yield module, chosen


def show(table):
    rows = [HEAD, *table]
    widths = [max(len(str(row[at])) for row in rows) for at in range(len(HEAD))]
    for row in rows:
        print("  ".join(f"{value!s:>{width}}" for value, width in zip(row, widths)))


def main(words):
    passed, failed, table = 0, 0, []
    for module, chosen in cases(words):
        if missing(module.PROGRAM, module.PACKAGES):
            print(f"FAILED {module.PROGRAM} is not there and could not be installed")
            failed += len(chosen)
            continue
        for application, case in chosen:
            begun, name = time.monotonic(), f"{application.name} {case.__name__}"
            try:
                told = case(application, table) or ""
                passed += 1
                print(f"ok     {name} ({time.monotonic() - begun:.1f} s) {told}", flush=True)
            except Exception:  # pylint: disable=broad-exception-caught
                failed += 1
                print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    show(table)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
