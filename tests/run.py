#!/usr/bin/env python3
"""Runs every part of the tests, prints each part's time, and sums up: the last line is
`N passed, N failed`. A part that fails to run, or that ran no test, counts as a failure.

usage: run.py [--full] [part ...]

Without --full, the parts that start MPI programs take the two MPIs in turn where it makes no
difference which one it is; with it, they run everything on both.
"""

import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PART_LIMIT_SECONDS = 4000  # a hang; the longest part takes a fraction of it

CARGO = os.environ.get("CARGO", "cargo")
DRAWN = {"PROPTEST_RNG_SEED": "1"}  # the same cases each time: a verdict is one on the code


def parts(full):
    """(name, command, environment) of every part."""
    turns = [] if full else ["--turns"]
    test = [CARGO, "test", "--release", "--no-fail-fast", "-p"]  # all of a crate's programs
    return [
        ("core", [*test, "scr-core"], DRAWN),
        ("cli", [*test, "scr-cli"], DRAWN),
        ("preload", [*test, "scr-preload"], DRAWN),
        ("layout", [sys.executable, "tests/layout/layout.py"], {}),
        ("reader", [sys.executable, "tests/reader/reader.py"], {}),
        ("hard", [sys.executable, "tests/hard/hard.py", *turns], {}),
        ("api", [sys.executable, "tests/api/api.py", *turns], {}),
        ("differential", [sys.executable, "tests/differential/differential.py"], {}),
        ("faults", [sys.executable, "tests/faults/faults.py"], {}),
        ("apps", [sys.executable, "tests/apps/run.py"], {}),
        ("cluster", [sys.executable, "tests/cluster/run.py", *turns], {}),
    ]


SUMMARY = re.compile(r"(?:test result: \w+\. )?(\d+) passed[;,] (\d+) failed")


def run_part(command, environment):
    """Runs a part, passing its output on; returns (passed, failed, exit status)."""
    passed = failed = 0
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    # All of its processes: one that keeps the pipe open would keep us waiting.
    limit = threading.Timer(PART_LIMIT_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    limit.start()
    for line in process.stdout:
        print(line, end="", flush=True)
        found = SUMMARY.search(line)
        if found:
            passed, failed = passed + int(found.group(1)), failed + int(found.group(2))
    limit.cancel()
    return passed, failed, process.wait()


def processor_seconds():
    """What all processes that have ended below this one have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(wanted):
    rows, total_passed, total_failed = [], 0, 0
    everything = parts("--full" in wanted)
    names = [word for word in wanted if word != "--full"]
    chosen = [part for part in everything if part[0] in names] if names else everything
    for name, command, environment in chosen:
        print(f"==== {name}: {' '.join(map(str, command))}", flush=True)
        begun, used = time.monotonic(), processor_seconds()
        passed, failed, status = run_part(command, environment)
        if passed + failed == 0 or (status != 0 and failed == 0):
            print(f"{name}: exit status {status} and {passed} tests: counted as a failure")
            failed += 1
        rows.append((name, passed, failed, time.monotonic() - begun, processor_seconds() - used))
        total_passed, total_failed = total_passed + passed, total_failed + failed
    print("\npart                  passed  failed   seconds  of a core")
    for name, passed, failed, seconds, used in rows:
        print(f"{name:20} {passed:7} {failed:7} {seconds:9.1f} {used:10.1f}")
    print(f"{total_passed} passed, {total_failed} failed")
    return 1 if total_failed or not total_passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
