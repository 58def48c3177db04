"""Checkpoints that the ranks write together by MPI-IO."""

import os

from support import assert_same, assert_same_files, place, same

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def mpi_io_in_the_middle(mpi, program):
    same(mpi, program, 2, "mpiio_middle",
         SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/rank_{rank}.dat, ckpt/step_{id}/shared.mpi",
         SCR_LEARN="1")


@case
def mpi_io_after_a_header_that_one_rank_wrote(mpi, program):
    same(mpi, program, 3, "all_write", "header", SCR_FLUSH="1",
         SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*")


@case
def mpi_io_has_files_of_its_own(mpi, program):
    """MPI-IO's locks and shared file pointers match the pattern of a directory; ranks of other
    nodes look for them, so they are never in a cache, even if nothing is to be learned."""
    everything = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/**", "SCR_FLUSH": "1",
                  "OMPI_MCA_sharedfp": "lockedfile"}
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        want = plain.run(2, "all_write", "ordered", shim=False)
        got = shimmed.run_on_nodes(2, "all_write", "ordered", SCR_LEARN="0", **everything)
        assert_same(want, got)
        assert_same_files(plain, shimmed, got)


@case
def spoiled_between_two_runs(mpi, program):
    """The cache has a part of each checkpoint, the prefix the file that all ranks wrote. Between
    two runs somebody removes or cuts that of the newest: the older one is taken, and one line says
    why. A new time of modification alone proves nothing."""
    everything = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*", "SCR_FLUSH": "0",
                  "SCR_CACHE_SIZE": "2"}
    spoil = {"is missing": lambda path: path.unlink(),
             "has 100 bytes": lambda path: os.truncate(path, 100),
             "was written to after": lambda path: os.utime(path)}
    with place(mpi, program) as plain:
        want = plain.run(2, "part_shared", 20, shim=False)
    for word, change in spoil.items():
        with place(mpi, program) as here:
            killed = here.run(2, "part_shared", 20, 15, **everything)
            shared = here.prefix / "ckpt/step_15/shared.dat"
            assert shared.exists() and here.cached(), f"{here.tree()} {killed}"
            change(shared)
            got = here.run(2, "part_shared", 20, **everything)
            step = 15 if "written" in word else 10
            assert got.line("restart") == f"restart {step}", f"{word}: {got}"
            assert got.line("shared") == "shared whole", f"{word}: {got}"
            told = [line for line in got.err.splitlines() if str(shared) in line]
            assert len(told) == 1 and word in told[0], f"{word}: {got}"
            assert got.line("checksum") == want.line("checksum"), f"{word}: {want}\n{got}"
