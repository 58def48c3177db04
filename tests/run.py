#!/usr/bin/env python3
"""Runs every part of the tests, prints each part's time, and sums up: the last line is
`N passed, N failed`. A part that fails to run, or that ran no test, counts as a failure.

All parts are there at once, and share the places of the machine (tests/support/pool.py); a part
that is higher in the table of them has the first claim. The tests in Rust are compiled first; how
long that takes is in a line of its own. What a part prints comes in one piece at its end, a test
that fails in a line of its own at once. Tests that failed are named once more before the table of
the times.

usage: run.py [--full] [part ...]

Without --full, the parts that start MPI programs take the two MPIs in turn where it makes no
difference which one it is, and programs that are alike the cases; with it, they run everything on
both, more file calls fail, and the packages are tried. CONTRIBUTING.md has the list.
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
import pool  # noqa: E402

PART_LIMIT_SECONDS = 4000  # a hang; the longest part takes a fraction of it

CARGO = os.environ.get("CARGO", "cargo")
SURROUNDINGS = {
    "PROPTEST_RNG_SEED": "1",  # the same cases each time: a verdict is one on the code
    # To look for devices and fabrics is a third of Open MPI's launch; what it finds is this.
    "HWLOC_COMPONENTS": "-pci,-linuxio", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp",
}

TEST = [CARGO, "test", "--release"]  # and what of: a crate, all of its programs
LONG = {"SCR_SIM_SCHEDULES": "100000"}  # plain `cargo test` runs a fiftieth of them
WRAPPER = {"RUSTC_WRAPPER": str(ROOT / "tests/support/rustc.sh")}
CRATES = {  # by their parts
    # scr-cli has none of these; named, it has crates that both need compiled as for itself.
    "core": ["-p", "scr-abi", "-p", "scr-core", "-p", "scr-cli", "--lib",
             "--test", "core", "--test", "session"],
    "simulation": ["-p", "scr-core", "-p", "scr-cli", "--test", "simulation"],
    "cli": ["-p", "scr-cli"],
    "preload": ["-p", "scr-preload"],
}
FILLER = ["nice", "-n", "19"]  # computes for minutes, with no clock in it: takes what others leave
COMPILER = pool.OF_ALL - 1  # places: beside more it takes twice as long, and all of it more


def parts(full):
    """(name, words, places) of every part: those that wait for launchers, daemons and nodes that
    die before those that compute, which leave no core without work at the end. The places are
    those of the whole part; with 0 its cases take them, each its own."""
    turns = [] if full else ["--turns"]
    points = ["--all"] if full else turns
    one_in = [] if full else ["--one-in", "25"]
    more = [("packages", ["tests/packages/packages.py"], 2),
            ("elsewhere", ["tests/packages/elsewhere.py"], 2), ("page", ["tests/page/page.py"], 1),
            ("values", ["tests/mpi/values.py"], 2)]
    return [
        ("guide", ["tests/guide/guide.py"], 1),
        ("cluster", ["tests/cluster/run.py", *points], 0),
        ("mpis", ["tests/mpis/mpis.py", *turns], 0),
        ("api", ["tests/api/api.py", *turns], 0),
        ("faults", ["tests/faults/faults.py", *one_in], 0),
        ("hard", ["tests/hard/hard.py", *turns], 0),
        ("apps", ["tests/apps/run.py", *turns], 0),
        ("reader", ["tests/reader/reader.py", *turns], 1),
        ("layout", ["tests/layout/layout.py"], 1),
        ("differential", ["tests/differential/differential.py"], 1),
        *(more if full else []),  # these need Debian's tools, a browser, and libclang
        ("cli", None, 2),
        ("preload", None, 2),
        ("core", None, 2),
        ("simulation", None, 0),
    ]


SUMMARY = re.compile(r"(?:test result: \w+\. )?(\d+) passed[;,] (\d+) failed")
AGAIN = " once more, after: "
FAILURE = re.compile(r"^(?:FAIL|failed: )|^test .* FAILED$|  FAILED$|^    python3 .* --only ")


def command_of(name, words):
    """What runs a part: cargo a crate's tests, Python the others."""
    if name in CRATES:
        nice = FILLER if name == "simulation" else []
        return [*nice, *TEST, "--no-fail-fast", *CRATES[name]]
    return [sys.executable, *words]


class Part:
    """A part while it runs and after it. `live`: its output is passed on as it comes."""

    printing = threading.Lock()

    def __init__(self, name, words, places, live):
        self.name, self.places = name, places
        self.command = command_of(name, words)
        self.live, self.held, self.failures, self.again = live, [], [], []
        self.passed = self.failed = 0
        self.seconds = self.used = 0.0

    @staticmethod
    def show(text):
        with Part.printing:
            print(text, end="", flush=True)

    def tell(self, line):
        if self.live:
            self.show(line)
        else:
            self.held.append(line)

    def read(self, line):
        self.tell(line)
        found = SUMMARY.search(line)
        if found:
            self.passed, self.failed = (
                self.passed + int(found.group(1)), self.failed + int(found.group(2)))
        elif AGAIN in line:
            self.again.append(line.strip())
        elif FAILURE.search(line):
            self.failures.append(line.strip())
            if not self.live:
                self.show(f"---- {self.name}: {line}")

    def fail(self, why):
        self.failures.append(f"the part itself: {why}")
        self.failed += 1

    def run(self, door, claim, compiled):
        """Runs it as soon as it has its places, if those are not its cases' matter."""
        if self.name in CRATES:
            compiled.wait()
        whole = door.places.held(self.places, claim) if self.places else contextlib.nullcontext()
        with whole:
            begun = time.monotonic()
            self.run_now({**door.environment(claim), **(WRAPPER if self.name in CRATES else {})})
            self.seconds = time.monotonic() - begun
        self.show("".join(self.held))
        self.show(f"==== {self.name}: {self.passed} passed, {self.failed} failed; "
                  f"{self.seconds:.1f} s, {self.used:.1f} s of a core\n")

    def run_now(self, environment):
        self.tell(f"==== {self.name}: {' '.join(map(str, self.command))}\n")
        process = subprocess.Popen(
            self.command, cwd=ROOT, env={**LONG, **os.environ, **SURROUNDINGS, **environment},
            text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
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
            self.fail(f"exit status {process.returncode}")
        self.used = used.ru_utime + used.ru_stime  # of all its processes that have ended


class Compiling:
    """Compiles the tests of the parts that are Rust's; what fails to, fails in its part."""

    def __init__(self, parts):
        self.names = [part.name for part in parts if part.name in CRATES]
        self.done = threading.Event()
        self.seconds = self.used = 0.0

    def run(self, door, claim):
        try:
            self.run_in_places(door, claim)
        finally:
            self.done.set()

    def run_in_places(self, door, claim):
        with door.places.held(COMPILER, claim) if self.names else contextlib.nullcontext():
            begun = time.monotonic()
            for name in self.names:
                process = subprocess.Popen(
                    [*TEST, "--quiet", "--no-run", *CRATES[name]], cwd=ROOT,
                    env={**os.environ, **WRAPPER}, stdin=subprocess.DEVNULL,
                    stderr=subprocess.STDOUT)
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                self.used += used.ru_utime + used.ru_stime
            self.seconds = time.monotonic() - begun


def main(wanted):
    names = [word for word in wanted if word != "--full"]
    rows = [row for row in parts("--full" in wanted) if not names or row[0] in names]
    chosen = [Part(*row, live=len(rows) == 1) for row in rows]
    compiling = Compiling(chosen)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="scr-tests-") as scratch:
        door = pool.Door(pathlib.Path(scratch) / "places", pool.Places(pool.OF_ALL))
        threads = [threading.Thread(target=compiling.run, args=(door, 0))]
        threads += [threading.Thread(target=part.run, args=(door, claim, compiling.done))
                    for claim, part in enumerate(chosen, start=1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seconds = time.monotonic() - begun
    print()
    for part in chosen:
        for line in part.again:
            print(f"tried again in {part.name}: {line}")
    for part in chosen:
        if part.passed + part.failed == 0:
            part.fail("it was not run")
        for line in part.failures:
            print(f"failed in {part.name}: {line}")
    print("part                  passed  failed   seconds  of a core")
    print(f"{'compiling':36} {compiling.seconds:9.1f} {compiling.used:10.1f}")
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
