#!/usr/bin/env python3
"""Run times of LAMMPS and OpenFOAM without the shim and with it, by turns, with a checkpoint every
few seconds: the ratio of each pair, its median with the interval that holds it with 95 %, the same
of the processor's time, and the agreements' share of the run; that share also of OpenFOAM's
collated files, written all the time. Nothing passes or fails here: on a busy machine the spread is
larger than the difference. Some nine minutes on a quiet machine.

usage: overhead.py [pairs]
"""

import math
import os
import resource
import statistics
import sys
import time

import compare
import lammps
import openfoam
from application import Stage, missing

PAIRS = 11
SHARES = 5  # runs of what writes all the time
RATIO_MOST, SHARE_MOST = 1.03, 1.0  # what is aimed at; the share in percent


def longer(path, *changes):
    """A run of some ten seconds and more, with a checkpoint every few seconds."""
    text = path.read_text()
    for old, new in changes:
        assert old in text, f"{path} has no {old}"
        text = text.replace(old, new)
    path.write_text(text)


RUNS = {
    "LAMMPS": (
        lammps.LAMMPS, lammps.lmp("in.long"),
        lambda where: longer(where / "in.long", ("run 200", "run 9000"), ("restart 20 ",
                                                                          "restart 2250 ")),
    ),
    "OpenFOAM": (
        openfoam.OPENFOAM[0], openfoam.icofoam(()),
        lambda where: longer(where / "system" / "controlDict", ("endTime 0.2;", "endTime 12;"),
                             ("writeInterval 5;", "writeInterval 600;")),
    ),
}
# A directory every 40 ms.
ALL_THE_TIME = (
    openfoam.OPENFOAM[1], openfoam.icofoam(openfoam.COLLATED),
    lambda where: longer(where / "system" / "controlDict", ("endTime 0.2;", "endTime 2;")),
)


def processor():
    """Seconds that all processes that have ended had of the processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one_run(application, words, prepare, settings):
    """Seconds of an mpirun in a fresh directory, of the processors, and its outcome."""
    with compare.directory(application) as where:
        prepare(where)
        stage = Stage(4, words)
        begun, used = time.perf_counter(), processor()
        if settings:
            done = compare.run_shimmed(application, [stage], where, **settings)[0]
        else:
            done = compare.run_stage(application, stage, where, {})
        return time.perf_counter() - begun, processor() - used, done


def interval(ratios):
    """Between which two of the ratios their median lies with 95 %: the sign test."""
    count, left_out, tail = len(ratios), 0, 0.0
    while True:
        tail += math.comb(count, left_out) / 2 ** count
        if tail > 0.025 or left_out >= count // 2:
            break
        left_out += 1
    ordered = sorted(ratios)
    last = max(left_out - 1, 0)
    return ordered[last], ordered[count - 1 - last]


def measure(name, pairs):
    application, words, prepare = RUNS[name]
    seconds, used, told = [], [], []
    for number in range(pairs):
        kinds = [{}, {"SCR_FLUSH": "10"}]
        runs = {}
        for at in (0, 1) if number % 2 == 0 else (1, 0):
            runs[at] = one_run(application, words, prepare, kinds[at])
        seconds.append((runs[0][0], runs[1][0]))
        used.append((runs[0][1], runs[1][1]))
        told.append(compare.tally([runs[1][2]]))
    without, with_shim = map(statistics.median, zip(*seconds))
    print(f"{name:10} {without:8.2f} s {with_shim:8.2f} s", flush=True)
    for what, both in (("run time", seconds), ("processors' time", used)):
        ratios = [two / one for one, two in both]
        (low, high), ratio = interval(ratios), statistics.median(ratios)
        aim = f"; {RATIO_MOST} at most: {verdict(ratio <= RATIO_MOST)}" if both is seconds else ""
        print(f"{'':10} {what}: ratio {ratio:.3f} ({low:.3f} to {high:.3f}){aim}")
    tell_share(told)


def verdict(met):
    return "met" if met else "not met"


def tell_share(told):
    agreements, us = (statistics.median(one[key] for one in told) for key in ("agreements", "us"))
    share = statistics.median(float(one["share"].split()[0]) for one in told)
    print(f"{'':10} agreements: {agreements:.0f} of {us:.1f} us, {share:.2f} % of the run; "
          f"{SHARE_MOST:.0f} % at most: {verdict(share <= SHARE_MOST)}", flush=True)


def measure_share(runs):
    application, words, prepare = ALL_THE_TIME
    told = [compare.tally([one_run(application, words, prepare, {"SCR_FLUSH": "10"})[2]])
            for _ in range(runs)]
    print(f"{application.name}, written all the time")
    tell_share(told)


def main(words):
    pairs = int(words[0]) if words else PAIRS
    print(f"{pairs} pairs by turns, 4 ranks on {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}; without and with the shim", flush=True)
    for name, (application, *_) in RUNS.items():
        if missing(application):
            sys.exit(f"{application.program} is not there")
        measure(name, pairs)
    measure_share(min(SHARES, pairs))


if __name__ == "__main__":
    main(sys.argv[1:])
