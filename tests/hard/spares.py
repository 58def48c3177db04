"""Redundancy files of evicted checkpoints that the next ones are written over."""

import os
import shutil
import signal

import nodes
from support import finish, place

CASES = []
PATTERN = "ckpt/step_{id}/*_{rank}.dat"
RANKS, STEPS, EVERY, KIB, PAUSE = 3, 40, 5, 2500, 28


def case(function):
    CASES.append(function)
    return function


def hard():
    """What this module and hard.py share lives there."""
    import __main__
    return __main__


def start(here, made, pause, scheme):
    words = [STEPS, EVERY, KIB, PAUSE, pause]
    command = made.command([f"mpirun.{here.mpi}", "-n", str(RANKS)],
                           [here.program("bulky"), *map(str, words)])
    bases = {"SCR_CNTL_BASE": str(made.here), "SCR_CACHE_BASE": str(made.here)}
    return here.start(RANKS, "bulky", command=command, SCR_CHECKPOINT_PATTERN=PATTERN,
                      SCR_COPY_TYPE=scheme, SCR_FLUSH="0", SCR_CACHE_SIZE="1",
                      SCR_DEBUG="1", **bases)


def kill_a_rank(here):
    """The launcher ends the others."""
    ranks = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
             if hard().is_rank_of(pid, here, "bulky")]
    assert len(ranks) == RANKS, f"ranks not found: {ranks}"
    os.kill(ranks[-1], signal.SIGKILL)


def spares(made):
    """Spare files by node."""
    return [sorted(made.node(node).glob("*/scr.*/scr.spare.*/*")) for node in range(RANKS)]


@case
def checkpoints_protected_by_what_was_written_over(mpi, program):
    """A node is lost when several of them have been; all it had comes back. At the end and at the
    next start nothing of the spares is left."""
    for scheme in ("XOR", "PARTNER", "RS"):
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(RANKS, "bulky", STEPS, EVERY, KIB, shim=False)
            made = nodes.Nodes(here.base / "nodes", RANKS, 1)
            pause = here.prefix / "pause"
            run = start(here, made, pause, scheme)
            hard().wait_for(pause.exists, run)
            assert all(spares(made)), f"{scheme}: {spares(made)}"
            kill_a_rank(here)
            finish(run)
            pause.unlink()
            shutil.rmtree(made.node(1))
            made.node(1).mkdir(mode=0o700)
            run = start(here, made, pause, scheme)
            hard().wait_for(pause.exists, run)
            pause.unlink()
            got = finish(run)
            assert "rebuilt" in got.err and "restart 25" in got.out, f"{scheme}: {got}"
            assert got.line("checksum") == want.line("checksum"), f"{scheme}: {want}\n{got}"
            assert not any(spares(made)), f"{scheme}: {spares(made)}"
