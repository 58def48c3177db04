"""Checkpoints that a signal handler writes."""

import shutil

from support import assert_same_files, data_files, finish, place, same

CASES = []
NOW = {"SCR_CHECKPOINT_PATTERN_2": "ckpt/now/rank_{rank}.now"}


def case(function):
    CASES.append(function)
    return function


@case
def written_by_a_handler_while_its_rank_waits(mpi, program):
    """The agreement before a collective call waits for the other ranks, and a signal comes: what
    the handler writes is what the program reads then."""
    for learn in ("0", "1"):
        same(mpi, program, 2, "on_signal", 5, files=False, **NOW, SCR_LEARN=learn)


@case
def written_by_a_handler_that_has_interrupted_malloc(mpi, program):
    """Its thread holds what our work needs, too: the handler must not write past the engine."""
    same(mpi, program, 2, "on_signal", 3, "malloc", files=False, **NOW)


@case
def ended_by_a_handler_that_writes(mpi, program):
    """As before a time limit: each rank's handler writes, and ends it. (How MPI and its launcher
    take that is theirs; see `exit_without_finalize`. Here the launcher is not to kill the one rank
    when it sees the end of the other.)"""
    lenient = {"openmpi": ["--enable-recovery"], "mpich": ["-disable-auto-cleanup"]}
    for end in ("exit", "_exit"):
        with place(mpi, program) as plain, place(mpi, program) as here:
            launcher = [f"mpirun.{mpi}", *lenient[mpi], "-n", "2", program("on_signal"), "3", end]
            want = finish(plain.start(2, "on_signal", command=launcher, shim=False))
            got = finish(here.start(2, "on_signal", command=launcher, SCR_FLUSH="1", **NOW))
            files = data_files(plain.tree())
            assert [name for name in files if name.endswith(".now")], f"{want}"
            assert_same_files(plain, here, got)


@case
def fortran_ends_as_without_us(mpi, program):
    """Its handler looks for the program's file, here and there, while malloc is held. (Of several
    ranks that end so, the launcher tells the status of one, or that it has ended the others.)"""
    for how in ("abort", "heap"):
        with place(mpi, program) as here:
            shutil.copy(program("crash"), here.prefix)
            command = [f"mpirun.{mpi}", "-n", "1", "./crash", how]
            want, got = (finish(here.start(1, "crash", command=command, shim=shim))
                         for shim in (False, True))
            assert want.status != 0 and got.status == want.status, f"{how}: {want}\n{got}"
