"""Patterns that are not what their writer meant: one message that names the pattern and says what
to do, and the program's own result is what it is without the shim."""

from bad_input import check_message
from support import same

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def two_series_that_match_the_same_files(mpi, program):
    got = same(mpi, program, 2, "steady", 20, 5, SCR_CHECKPOINT_PATTERN="ckpt/**",
               SCR_CHECKPOINT_PATTERN_2="ckpt/step_{id}/rank_{rank}.dat")
    words = ["SCR_CHECKPOINT_PATTERN_2", "match SCR_CHECKPOINT_PATTERN, too", "earlier series"]
    check_message(got, words)


@case
def files_of_each_rank_without_rank_in_the_pattern(mpi, program):
    """Nothing is wrong with it."""
    for learn in "01":
        got = same(mpi, program, 2, "steady", 20, 5, SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*",
                   SCR_LEARN=learn)
        assert not got.err.strip(), f"not silent: {got}"
