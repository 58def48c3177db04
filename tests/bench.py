#!/usr/bin/env python3
"""`make bench`: what the shim costs, as ratios and differences of things measured side by side in
one run, medians of turns and of their ratios. Absolute numbers mean little: machines, and series on
one machine, differ by half. Nothing passes or fails here; the table at the end says which aims are
met.

BENCH_BEFORE=DIR measures an older build, whose `dist` is DIR, by turns with this one. SCR_DIST is
the place of this one, if it is not target/dist; only optimised builds tell something.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "bench"))
import aims  # noqa: E402
import blocked  # noqa: E402
import calls  # noqa: E402
import idle  # noqa: E402
import many  # noqa: E402
import one_file  # noqa: E402
import restarts  # noqa: E402
from measure import ALONE, NOW, ROOT, build, builds, environment, output, row  # noqa: E402

STARTS = 400
FILES_ONCE = 4000
MPIS = ["openmpi", "mpich"]
WITH_MPI = {**blocked.PARTS, **one_file.PARTS, **restarts.PARTS, **idle.PARTS, **many.PARTS}
WITHOUT_MPI = ("flush", "metadata")  # ranks are threads, or there are none
PARTS = ["start", "open", *WITH_MPI, *calls.PARTS, *WITHOUT_MPI]
PROGRAMS = ("open_close", "blocked", "restart", "floor", "idle", "many")


def process_start():
    """A program that knows no MPI, started with and without the shim by turns."""
    program = shutil.which("true")
    kinds = [ALONE, *builds()]
    surroundings = {kind: environment(kind) for kind in kinds}
    times = {kind: [] for kind in kinds}
    for turn in range(len(kinds) * STARTS):
        kind = kinds[turn % len(kinds)]
        begun = time.perf_counter()
        pid = os.posix_spawn(program, [program], surroundings[kind])
        os.waitpid(pid, 0)
        times[kind].append(1e3 * (time.perf_counter() - begun))
    plain = statistics.median(times[ALONE])
    for kind in builds():
        shim = statistics.median(times[kind])
        label = "" if kind is NOW else f", {kind.name}"
        row(f"start of /bin/true{label}", f"{plain:.2f} ms", f"{shim:.2f} ms",
            f"+{shim - plain:.2f} ms", "within 1 ms")


def open_and_close(mpi, programs, top):
    """Files that no pattern matches: in a process without MPI, then in a rank."""
    prefix, base, outside = top / "prefix", top / "base", top / "outside"
    for folder in (prefix, base, outside):
        folder.mkdir(parents=True)
    files = [outside / "data", prefix / "data"]
    for path in files:
        path.write_text("x")
    for number in range(FILES_ONCE):
        (prefix / f"once{number}").write_text("x")
    settings = {"SCR_PREFIX": str(prefix), "SCR_CNTL_BASE": str(base), "SCR_CACHE_BASE": str(base),
                "SCR_COPY_TYPE": "SINGLE",
                "SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/rank_{rank}.dat"}
    env = environment(NOW, **settings)
    program = [programs["open_close"]]
    inert = output([*program, "plain", files[0]], env, prefix)
    more = [*files, "data", f"{prefix}/once:{FILES_ONCE}"]
    command = [f"mpirun.{mpi}", "-n", "1", *program, "mpi", *more]
    rank = output(command, env, prefix, told="no checkpoint was protected")
    names = ["no MPI", "outside the prefix", "below the prefix", "below, a relative name",
             "below, each of many for the first time"]
    hopes = ["within 150 ns"] * 4 + [""]
    for name, (shim, plain), hope in zip(names, inert + rank, hopes):
        row(f"open+close: {name}", f"{plain:.0f} ns", f"{shim:.0f} ns",
            f"+{shim - plain:.0f} ns", hope)


def without_mpi(part):
    """A bench of the core alone; lines `aim KEY: VALUE` are for the table."""
    command = ["cargo", "bench", "--quiet", "-p", "scr-core", "--bench", part]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as bench:
        for line in bench.stdout:
            if line.startswith("aim "):
                key, value = line[len("aim "):].rsplit(":", 1)
                aims.note(key, float(value))
            else:
                print(line, end="", flush=True)
    if bench.returncode:
        sys.exit(f"{' '.join(command)}: status {bench.returncode}")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="word",
                        help="MPIs and parts, by default all: " + ", ".join([*MPIS, *PARTS]))
    parser.add_argument("--turns", type=int, metavar="N",
                        help=f"of each kind of run ({blocked.TURNS} of {blocked.COUNT} checkpoints "
                             f"each, {restarts.TURNS} of starts)")
    parser.add_argument("--mib", type=int, default=blocked.MIB,
                        help="of a large checkpoint, a rank (%(default)s)")
    asked = parser.parse_args()
    for unknown in set(asked.words).difference(MPIS, PARTS):
        parser.error(f"there is no part {unknown}")
    blocked.MIB = restarts.MIB = asked.mib
    return asked


def main():
    asked = arguments()
    parts = [part for part in PARTS if part in asked.words] or PARTS
    mpis = [mpi for mpi in MPIS if mpi in asked.words] or MPIS
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
          + ", ".join(f"{build.name}: {build.dist}" for build in builds()))
    row("", "plain", "shim", "")
    if "start" in parts:
        process_start()
    for mpi in mpis if set(parts) - {"start", *WITHOUT_MPI} else []:
        print(f"-- {mpi}")
        with tempfile.TemporaryDirectory(prefix="scr-bench-", dir="/dev/shm") as scratch:
            scratch = pathlib.Path(scratch)
            programs = build(PROGRAMS, mpi, scratch)
            if "open" in parts:
                open_and_close(mpi, programs, scratch / "files")
            for part in filter(parts.__contains__, WITH_MPI):
                WITH_MPI[part](mpi, programs, scratch, asked.turns)
            for part in filter(parts.__contains__, calls.PARTS):
                calls.PARTS[part](mpi, scratch)
    for part in filter(parts.__contains__, WITHOUT_MPI):
        without_mpi(part)
    aims.table(whole=not asked.words)


if __name__ == "__main__":
    main()
