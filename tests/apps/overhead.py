#!/usr/bin/env python3
"""Run times of LAMMPS and OpenFOAM without the shim and with it, by turns: medians. Nothing passes
or fails here: on a busy machine the spread is larger than the difference.

usage: overhead.py [rounds]
"""

import os
import statistics
import sys
import time

import compare
import lammps
import openfoam
from application import Stage, missing

def longer(path, *changes):
    """Ten times the steps, and checkpoints so rare that most of the time goes into the steps."""
    text = path.read_text()
    for old, new in changes:
        assert old in text, f"{path} has no {old}"
        text = text.replace(old, new)
    path.write_text(text)


RUNS = {
    "LAMMPS": (
        lammps.LAMMPS, lammps.lmp("in.long"),
        lambda where: longer(where / "in.long", ("run 200", "run 2000"), ("restart 20 ",
                                                                          "restart 200 ")),
    ),
    "OpenFOAM": (
        openfoam.OPENFOAM[0], openfoam.icofoam(()),
        lambda where: longer(where / "system" / "controlDict", ("endTime 0.2;", "endTime 2;"),
                             ("writeInterval 5;", "writeInterval 50;")),
    ),
}


def one_run(application, words, prepare, settings):
    """Seconds of an mpirun in a fresh directory, and its outcome."""
    with compare.directory(application) as where:
        prepare(where)
        begun = time.perf_counter()
        stage = Stage(4, words)
        if settings:
            done = compare.run_shimmed(application, [stage], where, **settings)[0]
        else:
            done = compare.run_stage(application, stage, where, {})
        return time.perf_counter() - begun, done


def measure(name, rounds):
    application, words, prepare = RUNS[name]
    plain, shimmed, told = [], [], []
    for _ in range(rounds):
        plain.append(one_run(application, words, prepare, {})[0])
        seconds, done = one_run(application, words, prepare, {"SCR_FLUSH": "10"})
        shimmed.append(seconds)
        told.append(compare.tally([done]))
    without, with_shim = statistics.median(plain), statistics.median(shimmed)
    ratio = statistics.median(two / one for one, two in zip(plain, shimmed))
    print(f"{name:10} {without:8.2f} s {with_shim:8.2f} s   ratio of pairs {ratio:.3f}; without "
          f"{min(plain):.2f} to {max(plain):.2f} s; {told[-1]['agreements']} agreements, "
          f"{told[-1]['us']} us each, {told[-1]['share']}", flush=True)


def main(words):
    rounds = int(words[0]) if words else 7
    print(f"{rounds} rounds by turns, 4 ranks on {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}; without and with the shim", flush=True)
    for name, (application, *_) in RUNS.items():
        if missing(application):
            sys.exit(f"{application.program} is not there")
        measure(name, rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
