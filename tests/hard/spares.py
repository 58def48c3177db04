"""Redundancy files of evicted checkpoints that the next ones are written over."""

import os
import shutil
import signal

import nodes
from room import NAMESPACES
from support import finish, place, ranks_of

CASES = []
PATTERN = "ckpt/step_{id}/*_{rank}.dat"
RANKS, STEPS, EVERY, KIB, PAUSE = 2, 40, 5, 2500, 28


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
    ranks = ranks_of(here, "bulky")
    assert len(ranks) == RANKS, f"ranks not found: {ranks}"
    os.kill(ranks[-1], signal.SIGKILL)


def spares(made):
    """Spare files by node."""
    return [sorted(made.node(node).glob("*/scr.*/*/scr.spare.*/*")) for node in range(RANKS)]


@case
def checkpoints_protected_by_what_was_written_over(mpi, program):
    """A node is lost when several of them have been; all it had comes back. The next start
    removes what is there, whosever it was, and the end what there is then."""
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
            left = spares(made)[0][0].parent.with_name("scr.spare.7")
            left.mkdir()
            shutil.rmtree(made.node(1))
            made.node(1).mkdir(mode=0o700)
            run = start(here, made, pause, scheme)
            hard().wait_for(pause.exists, run)
            assert not left.exists(), f"{scheme}: {left}"
            pause.unlink()
            got = finish(run)
            assert "rebuilt" in got.err and "restart 25" in got.out, f"{scheme}: {got}"
            assert got.line("checksum") == want.line("checksum"), f"{scheme}: {want}\n{got}"
            assert not any(spares(made)), f"{scheme}: {spares(made)}"


@case
def spares_make_room_for_a_checkpoint(mpi, program):
    """Another program takes what is left of the store but for less than the next checkpoint and its
    protection need beside the spares: they go, and it is cached and protected all the same."""
    left_kib, mib, never = 9 << 10, 64, 1 << 20
    with place(mpi, program) as plain, place(mpi, program) as here:
        words = [STEPS, EVERY, KIB, never, "none", 20, left_kib]
        want = plain.run(2, "bulky", STEPS, EVERY, KIB, shim=False)  # nothing is taken
        store = here.base / "small"
        made = nodes.Nodes(store, 2, 1)
        wrapper = here.base / "asnode"
        made.wrapper.rename(wrapper)
        program_words = [here.program("bulky"), *map(str, words), str(made.here / "eaten")]
        command = made.command([f"mpirun.{mpi}", "-n", "2"], program_words)
        command = [str(wrapper) if word == str(made.wrapper) else word for word in command]
        small = (f"mount -t tmpfs -o size={mib}m,mode=700 none {store} && "
                 f"mkdir -m 700 {made.here} {made.node(0)} {made.node(1)} && exec \"$@\"")
        bases = {"SCR_CNTL_BASE": str(made.here), "SCR_CACHE_BASE": str(made.here)}
        got = finish(here.start(
            2, "bulky", command=["unshare", *NAMESPACES, "sh", "-c", small, "sh", *command],
            SCR_CHECKPOINT_PATTERN=PATTERN, SCR_COPY_TYPE="PARTNER", SCR_FLUSH="0",
            SCR_CACHE_SIZE="1", **bases))
        assert (got.status, got.out, got.err) == (0, want.out, ""), f"{want}\n{got}"
