"""A checkpoint of many small files of four ranks, each on a node of its own: the start that finds
it in the cache, and the end that has brought it to the prefix, by turns with `cp -r` of the same
files and a sync of what that has written. On a disk, since a RAM disk makes nothing durable."""

import statistics
import subprocess
import time

import aims
from jobs import job, settings_of
from measure import ALONE, NOW, builds, row

FILES = 2500
TURNS = 5
DISK = "/var/tmp"


def ends(mpi, programs, scratch, turns):
    of = {build: [] for build in builds()}
    copies, shares = [], {build: [] for build in of}
    for _ in range(turns or TURNS):
        with job(mpi, scratch, ALONE, 4, disk=DISK) as bare:
            bare.run_to_death(programs["many"], "die", FILES)
            begin = time.perf_counter()
            subprocess.run(["cp", "-r", "ckpt", "copied"], cwd=bare.prefix, check=True)
            subprocess.run(["sync", "-f", "copied"], cwd=bare.prefix, check=True)
            copies.append(time.perf_counter() - begin)
            plain = sum(bare.run(programs["many"], "end")[0])
        for build in of:
            settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/rank_{rank}.*.dat"}
            with job(mpi, scratch, build, 4, disk=DISK, **settings_of("SINGLE"), **settings) as run:
                run.run_to_death(programs["many"], "die", FILES)
                # It says what it restarts from.
                end = run.run_to_death(programs["many"], "end")
                of[build].append(sum(end[0]) - plain)
                shares[build].append(of[build][-1] / copies[-1])
    for build, seconds in of.items():
        label = "" if build is NOW else f", {build.name}"
        row(f"4 x {FILES} files, start and end, of cp -r{label}",
            f"{1e3 * statistics.median(copies):.0f} ms",
            f"+{1e3 * statistics.median(seconds):.0f} ms",
            f"x {statistics.median(shares[build]):.2f}")
    aims.note("many files", statistics.median(shares[NOW]))


PARTS = {"many": ends}
