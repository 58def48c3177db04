#!/usr/bin/env python3
"""Runs every part of the tests, prints each part's time, and sums up: the last line is
`N passed, N failed`. A part that fails to run, or that ran no test, counts as a failure.

The tests in Rust are compiled before the first part; how long that takes is in a line of its own.
The parts whose programs mostly wait (for launchers, daemons, nodes that die) run beside those that
compute; what they print comes in one piece at their end. Tests that failed are named once more
before the table of the times.

usage: run.py [--full] [part ...]

Without --full, the parts that start MPI programs take the two MPIs in turn where it makes no
difference which one it is, and programs that are alike the cases; with it, they run everything on
both, twice as many file calls fail, and the packages are tried. CONTRIBUTING.md has the list.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PART_LIMIT_SECONDS = 4000  # a hang; the longest part takes a fraction of it

CARGO = os.environ.get("CARGO", "cargo")
TEST = [CARGO, "test", "--release"]  # and a crate: all of its programs
DRAWN = {"PROPTEST_RNG_SEED": "1"}  # the same cases each time: a verdict is one on the code


WAITING = ("faults", "cluster", "apps")
BESIDE = (os.cpu_count() or 1) > 1
CRATES = {"core": "scr-core", "cli": "scr-cli", "preload": "scr-preload"}  # by their parts


def parts(full):
    """(name, command, environment) of every part."""
    turns = [] if full else ["--turns"]
    points = ["--all"] if full else turns
    one_in = [] if full else ["--one-in", "20"]
    more = [
        ("packages", [sys.executable, "tests/packages/packages.py"], {}),
        ("page", [sys.executable, "tests/page/page.py"], {}),  # needs a browser
    ]
    return [
        *((name, [*TEST, "--no-fail-fast", "-p", crate], DRAWN) for name, crate in CRATES.items()),
        ("layout", [sys.executable, "tests/layout/layout.py"], {}),
        ("reader", [sys.executable, "tests/reader/reader.py", *turns], {}),
        ("hard", [sys.executable, "tests/hard/hard.py", *turns], {}),
        ("api", [sys.executable, "tests/api/api.py", *turns], {}),
        ("differential", [sys.executable, "tests/differential/differential.py"], {}),
        ("faults", [sys.executable, "tests/faults/faults.py", *one_in], {}),
        ("guide", [sys.executable, "tests/guide/guide.py"], {}),
        ("apps", [sys.executable, "tests/apps/run.py", *turns], {}),
        ("cluster", [sys.executable, "tests/cluster/run.py", *points], {}),
        *(more if full else []),
    ]


SUMMARY = re.compile(r"(?:test result: \w+\. )?(\d+) passed[;,] (\d+) failed")
FAILURE = re.compile(r"^(?:FAIL|failed: )|^test .* FAILED$|  FAILED$|^    python3 .* --only ")


class Part:
    """A part while it runs and after it. `live`: its output is passed on as it comes."""

    printing = threading.Lock()

    def __init__(self, name, command, environment, live):
        self.name, self.command, self.environment = name, command, environment
        self.live, self.held, self.failures = live, [], []
        self.passed = self.failed = 0
        self.seconds = self.used = 0.0

    def tell(self, line):
        if not self.live:
            self.held.append(line)
            return
        with Part.printing:
            print(line, end="", flush=True)

    def read(self, line):
        self.tell(line)
        found = SUMMARY.search(line)
        if found:
            self.passed, self.failed = (
                self.passed + int(found.group(1)), self.failed + int(found.group(2)))
        elif FAILURE.search(line):
            self.failures.append(line.strip())

    def run(self):
        begun = time.monotonic()
        self.tell(f"==== {self.name}: {' '.join(map(str, self.command))}\n")
        process = subprocess.Popen(
            self.command, cwd=ROOT, env={**os.environ, **self.environment}, text=True,
            errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
        # All of its processes: one that keeps the pipe open would keep us waiting.
        limit = threading.Timer(PART_LIMIT_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        for line in process.stdout:
            self.read(line)
        limit.cancel()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if self.passed + self.failed == 0 or (process.returncode != 0 and self.failed == 0):
            self.tell(f"{self.name}: exit status {process.returncode} and {self.passed} tests: "
                      "counted as a failure\n")
            self.failures.append(f"the part itself: exit status {process.returncode}")
            self.failed += 1
        self.seconds = time.monotonic() - begun
        self.used = used.ru_utime + used.ru_stime  # of all its processes that have ended
        with Part.printing:
            print("".join(self.held), end="", flush=True)


def compile_tests(names):
    """Compiles the tests of these parts; what fails to, fails in its part. Returns the seconds, and
    those of a core."""
    begun, before = time.monotonic(), os.times()
    for name in names:
        print(f"==== compiling the tests of {name}", flush=True)
        subprocess.run([*TEST, "--quiet", "--no-run", "-p", CRATES[name]], cwd=ROOT, check=False,
                       stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    used = os.times()
    return (time.monotonic() - begun, used.children_user - before.children_user
            + used.children_system - before.children_system)


def main(wanted):
    names = [word for word in wanted if word != "--full"]
    rows = [row for row in parts("--full" in wanted) if not names or row[0] in names]
    waits = [row[0] in WAITING and BESIDE for row in rows]
    chosen = [Part(*row, live=not aside or all(waits)) for row, aside in zip(rows, waits)]
    lanes = [
        threading.Thread(target=lambda lane=lane: [part.run() for part in lane])
        for lane in ([part for part, aside in zip(chosen, waits) if aside],
                     [part for part, aside in zip(chosen, waits) if not aside])
    ]
    compiling = compile_tests([row[0] for row in rows if row[0] in CRATES])
    begun = time.monotonic()
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    seconds = time.monotonic() - begun
    print()
    for part in chosen:
        for line in part.failures:
            print(f"failed in {part.name}: {line}")
    print("part                  passed  failed   seconds  of a core")
    print(f"{'compiling':36} {compiling[0]:9.1f} {compiling[1]:10.1f}")
    for part in chosen:
        print(f"{part.name:20} {part.passed:7} {part.failed:7} {part.seconds:9.1f} "
              f"{part.used:10.1f}")
    used = sum(part.used for part in chosen)
    print(f"{'all parts, beside each other':36} {seconds:9.1f} {used:10.1f}")
    passed, failed = sum(part.passed for part in chosen), sum(part.failed for part in chosen)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
