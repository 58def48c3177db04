#!/usr/bin/env python3
"""Tests on virtual nodes: nodes and processes die, programs go on. Needs root.

usage: run.py [--all] [--turns] [openmpi|mpich] [word of the case's name ...]

Without --all, the matrix takes one point of the seal and one of the flush at each cell, in turn.
With --turns each story and cell is run on one of the MPIs, in turn, except what is about launching
and salvage.
"""

import itertools
import os
import sys
import time
import traceback

import called  # adds its stories
import damage  # the same
import flushes  # the same
import launches  # the same
import matrix
import ordinary  # the same
import outside  # the same
import pool  # cluster has told where it is
import rotated  # the same
import runs  # the same
import salvage  # the same
import schemes
import slurm  # the same
import slurm_losses  # the same
import ssh  # the same
import stores
import stories

# What each MPI's launcher has a part in.
ON_BOTH = ("launches", "ordinary", "salvage", "ssh")
LONG = ("schemes_losses_and_placements",)


def named_cases(mpis, everything, turns):
    """(name, function) of every test."""
    all_stories = stories.STORIES + schemes.STORIES + stores.STORIES
    for mpi_number, mpi in enumerate(mpis):
        def has_turn(number):
            return not turns or number % len(mpis) == mpi_number

        for number, story in enumerate(all_stories):
            if has_turn(number) or story.__module__ in ON_BOTH:
                yield f"{mpi} {story.__name__}", lambda story=story, mpi=mpi: story(mpi)
        # A sample's row has an even number of cells: shifted, so that each cell meets both MPIs
        # with one sample or another.
        for row, cases in itertools.groupby(matrix.cases(mpi, everything), lambda c: c.sample):
            shift = matrix.SAMPLES.index(row)
            for number, case in enumerate(cases):
                if has_turn(number + shift):
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
    wanted = [word for word in words if word not in ("--all", "--turns", "openmpi", "mpich")]
    chosen = [
        (name, function) for name, function in named_cases(mpis, everything, "--turns" in words)
        if all(word in name.split() for word in wanted)
    ]
    if os.geteuid() != 0:
        print("virtual nodes need root")
        print(f"0 passed, {len(chosen)} failed")
        return 1
    chosen = pool.ordered(chosen, lambda item: item[0].split()[-1], LONG)
    results = pool.run_all(chosen, lambda _: 1, lambda item: attempt(*item))
    results.append(attempt("nothing is left behind", nothing_is_left))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) and chosen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
