#!/usr/bin/env python3
"""`make bench`: what the shim costs, as ratios and differences of things measured side by side in
one run, medians of alternating rounds. Absolute numbers mean little: machines, and series on one
machine, differ by half. Nothing passes or fails here.
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
import calls  # noqa: E402
import protection  # noqa: E402
from measure import GIGA, ROOT, build, environment, output, row  # noqa: E402

import nodes  # noqa: E402

RANKS = 2
SCHEMES = (("SINGLE", RANKS), ("PARTNER", RANKS), ("XOR", RANKS), ("RS", 3))  # RS: two losses
MIB = 64  # a rank; with two datasets in the cache and the plain files well below 4 GiB
ROUNDS = 13
WARM_UP = 2  # the first use of memory is slow, and the first checkpoint waits for quiet
STARTS = 400
FILES_ONCE = 4000
MPIS = ["openmpi", "mpich"]
PARTS = ["start", "open", "checkpoint", *protection.PARTS, *calls.PARTS, "flush",
         "metadata"]
WITHOUT_MPI = ("flush", "metadata")  # ranks are threads, or there are none
PROGRAMS = ("open_close", "checkpoint", "restart", "floor")


def process_start():
    """A program that knows no MPI, started with and without the shim by turns."""
    program = shutil.which("true")
    without, with_shim = environment(False), environment(True)
    times = {False: [], True: []}
    for turn in range(2 * STARTS):
        shim = bool(turn % 2)
        begun = time.perf_counter()
        pid = os.posix_spawn(program, [program], with_shim if shim else without)
        os.waitpid(pid, 0)
        times[shim].append(1e3 * (time.perf_counter() - begun))
    plain, shim = statistics.median(times[False]), statistics.median(times[True])
    row("start of /bin/true", f"{plain:.2f} ms", f"{shim:.2f} ms", f"+{shim - plain:.2f} ms",
        "within 1 ms")


def open_and_close(mpi, programs, top):
    """Files that no pattern matches: in a process without MPI, then in a rank."""
    prefix, base, outside = top / "prefix", top / "base", top / "outside"
    for folder in (prefix, base, outside):
        folder.mkdir()
    files = [outside / "data", prefix / "data"]
    for path in files:
        path.write_text("x")
    for number in range(FILES_ONCE):
        (prefix / f"once{number}").write_text("x")
    settings = {"SCR_PREFIX": str(prefix), "SCR_CNTL_BASE": str(base), "SCR_CACHE_BASE": str(base),
                "SCR_COPY_TYPE": "SINGLE",
                "SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/rank_{rank}.dat"}
    env = environment(True, **settings)
    program = [programs["open_close"]]
    inert = output([*program, "plain", files[0]], env, prefix)
    more = [*files, "data", f"{prefix}/once:{FILES_ONCE}"]
    command = [f"mpirun.{mpi}", "-n", "1", *program, "mpi", *more]
    rank = output(command, env, prefix, told="no checkpoint was protected")
    names = ["no MPI", "outside the prefix", "below the prefix", "below, a relative name",
             "below, each of many for the first time"]
    aims = ["within 150 ns"] * 4 + [""]
    for name, (shim, plain), aim in zip(names, inert + rank, aims):
        row(f"open+close: {name}", f"{plain:.0f} ns", f"{shim:.0f} ns",
            f"+{shim - plain:.0f} ns", aim)


def checkpoints(mpi, programs, top, scheme, ranks):
    """Ranks on nodes of their own, so that the scheme has something to protect against."""
    made, prefix = nodes.Nodes(top / "nodes", ranks, 1), top / "prefix"
    prefix.mkdir()
    for node in range(ranks):
        for name in ("base", "plain"):
            (made.node(node) / name).mkdir(mode=0o700)
    base = str(made.here / "base")
    env = environment(
        True, SCR_CNTL_BASE=base, SCR_CACHE_BASE=base, SCR_COPY_TYPE=scheme, SCR_FLUSH="0",
        SCR_LEARN="0", SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/rank_{rank}.dat")
    mpirun = [f"mpirun.{mpi}", "-n", str(ranks)]
    program = [programs["checkpoint"], str(ROUNDS), str(MIB), str(made.here / "plain")]
    rounds = output(made.command(mpirun, program), env, prefix)[WARM_UP:]
    cached, plain, seal, copy, exchange = map(statistics.median, zip(*rounds))

    def share(of, to):
        return f"{100 * statistics.median(one[of] / one[to] for one in rounds):.0f} %"
    total = ranks * MIB * 2**20 / GIGA

    def speed(seconds):
        return f"{total / seconds:.2f} GB/s"
    row(f"checkpoint write to RAM disk, {scheme}", speed(plain), speed(cached), share(1, 0),
        "95 % or more")
    row(f"seal, {scheme}: a copy in memory", speed(copy), speed(seal), share(3, 2))
    if scheme != "SINGLE":
        row(f"seal, {scheme}: an exchange by MPI", speed(exchange), speed(seal), share(4, 2))
        # What no scheme can do without: the bytes go to other nodes, and are written there. On so
        # few ranks, PARTNER and XOR move and write what the program has written, RS twice as much.
        times = 2 if scheme == "RS" else 1
        both = [times * (one[4] + one[1]) for one in rounds]
        share_of_both = statistics.median(b / one[2] for b, one in zip(both, rounds))
        row(f"seal, {scheme}: exchange and plain writes", speed(statistics.median(both)),
            speed(seal), f"{100 * share_of_both:.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", metavar="word",
                        help="MPIs and parts, by default all: " + ", ".join([*MPIS, *PARTS]))
    words = parser.parse_args().words
    for unknown in set(words).difference(MPIS, PARTS):
        parser.error(f"there is no part {unknown}")
    parts = [part for part in PARTS if part in words] or PARTS
    mpis = [mpi for mpi in MPIS if mpi in words] or MPIS
    print(f"{RANKS} ranks, {MIB} MiB each; medians of {ROUNDS - WARM_UP} rounds; "
          f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    row("", "plain", "shim", "", "aim")
    if "start" in parts:
        process_start()
    for part in filter(parts.__contains__, WITHOUT_MPI):
        subprocess.run(["cargo", "bench", "--quiet", "-p", "scr-core", "--bench", part],
                       cwd=ROOT, check=True)
    for mpi in mpis if set(parts) - {"start", *WITHOUT_MPI} else []:
        print(f"-- {mpi}")
        with tempfile.TemporaryDirectory(prefix="scr-bench-", dir="/dev/shm") as scratch:
            scratch = pathlib.Path(scratch)
            programs = build(PROGRAMS, mpi, scratch)
            if "open" in parts:
                (scratch / "files").mkdir()
                open_and_close(mpi, programs, scratch / "files")
            for scheme, ranks in SCHEMES if "checkpoint" in parts else ():
                top = scratch / scheme
                top.mkdir()
                checkpoints(mpi, programs, top, scheme, ranks)
                shutil.rmtree(top)
            for part in filter(parts.__contains__, protection.PARTS):
                protection.PARTS[part](mpi, programs, scratch)
            for part in filter(parts.__contains__, calls.PARTS):
                calls.PARTS[part](mpi, scratch)


if __name__ == "__main__":
    main()
