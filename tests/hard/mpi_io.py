"""Checkpoints that the ranks write together by MPI-IO."""

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
    same(mpi, program, 3, "late_shared", "header", SCR_FLUSH="1",
         SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*")


@case
def mpi_io_has_files_of_its_own(mpi, program):
    """MPI-IO's locks and shared file pointers match the pattern of a directory; ranks of other
    nodes look for them, so they are never in a cache, even if nothing is to be learned."""
    everything = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/**", "SCR_FLUSH": "1",
                  "OMPI_MCA_sharedfp": "lockedfile"}
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        want = plain.run(2, "late_shared", "ordered", shim=False)
        got = shimmed.run_on_nodes(2, "late_shared", "ordered", SCR_LEARN="0", **everything)
        assert_same(want, got)
        assert_same_files(plain, shimmed, got)
