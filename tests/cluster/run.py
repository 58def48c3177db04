#!/usr/bin/env python3
"""Tests on virtual nodes: nodes and processes die, programs go on. Needs root.

usage: run.py [--all] [openmpi|mpich] [word of the case's name ...]

Without --all, the matrix takes one point of the seal and one of the flush at each cell, in turn.
"""

import concurrent.futures
import os
import sys
import time
import traceback

import damage  # adds its stories
import flushes  # the same
import launches  # the same
import matrix
import schemes
import stores
import stories

JOBS = int(os.environ.get("SCR_TEST_JOBS", "2"))


def named_cases(mpis, everything):
    """(name, function) of every test."""
    for mpi in mpis:
        for story in stories.STORIES + schemes.STORIES + stores.STORIES:
            yield f"{mpi} {story.__name__}", lambda story=story, mpi=mpi: story(mpi)
        for case in matrix.cases(mpi, everything):
            yield case.name(), lambda case=case: matrix.run_case(case)


def attempt(name, function):
    begun = time.monotonic()
    try:
        function()
        error = None
    except Exception:  # a broken test must not end the others
        error = traceback.format_exc(limit=3)
    seconds = time.monotonic() - begun
    print(f"{'ok  ' if error is None else 'FAIL'} {name} ({seconds:.1f} s)", flush=True)
    if error:
        print("\n".join("     " + line for line in error.splitlines()), flush=True)
    return error is None


def nothing_is_left():
    """Each test ends its cluster, one that failed, too; a late one has had the time until now."""
    stories.wait_until_gone(rf"t{os.getpid()}-\d+")


def main(words):
    everything = "--all" in words
    mpis = [word for word in words if word in ("openmpi", "mpich")] or ["openmpi", "mpich"]
    wanted = [word for word in words if word not in ("--all", "openmpi", "mpich")]
    chosen = [
        (name, function) for name, function in named_cases(mpis, everything)
        if all(word in name.split() for word in wanted)
    ]
    if os.geteuid() != 0:
        print("virtual nodes need root")
        print(f"0 passed, {len(chosen)} failed")
        return 1
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        results = list(pool.map(lambda item: attempt(*item), chosen))
    results.append(attempt("nothing is left behind", nothing_is_left))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) and chosen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
