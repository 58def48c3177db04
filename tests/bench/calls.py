"""Checkpoints by the calls of SCR beside the shim's, in one run by turns; and what it costs to ask
whether one is due."""

import statistics
import subprocess

from jobs import job
from measure import NOW, ROOT, SOURCES, row, support

RANKS = 4
SCHEMES = ("SINGLE", "XOR", "RS")
# KiB a rank, turns.
SIZES = ((4, 100), (256 << 10, 4))
ASKED = 20000


def build(mpi, scratch):
    library, program = support.DIST / "lib", scratch / f"calls.{mpi}"
    subprocess.run([f"mpicc.{mpi}", "-O2", "-Wall", "-Wextra", "-o", program, SOURCES / "calls.c",
                    f"-I{ROOT / 'src' / 'api' / 'include'}", f"-L{library}", "-lscr",
                    f"-Wl,-rpath,{library}"], check=True)
    return program


def told(seconds):
    return f"{seconds:.2f} s" if seconds > 0.1 else f"{1e3 * seconds:.2f} ms"


def by_turns(mpi, scratch):
    program = build(mpi, scratch)
    row("", "shim", "calls", "")
    for kib, count in SIZES:
        size = f"{kib} KiB" if kib < 1024 else f"{kib >> 10} MiB"
        for scheme in SCHEMES:
            # Both end with a checkpoint that is sealed.
            with job(mpi, scratch, NOW, SCR_COPY_TYPE=scheme, SCR_SEAL="BLOCKING") as run:
                turns = run.run(program, kib, count)
            shim, calls = map(statistics.median, zip(*turns))
            times = statistics.median(calls / shim for shim, calls in turns)
            row(f"{RANKS} x {size}, written and sealed: {scheme}", told(shim), told(calls),
                f"x {times:.2f}")
    row("", "allreduce", "call", "")
    with job(mpi, scratch, NOW, SCR_COPY_TYPE="SINGLE", SCR_CHECKPOINT_SECONDS="100000") as run:
        allreduce, need = run.run(program, "idle", ASKED)[0]
    row("SCR_Need_checkpoint, none is due", f"{allreduce:.0f} ns", f"{need:.0f} ns",
        f"x {need / allreduce:.2f}")


PARTS = {"calls": by_turns}
