"""Patterns that are not what their writer meant: one message that names the pattern and says what
to do, and the program's own result is what it is without the shim."""

from bad_input import check_message
from support import data_files, place

CASES = []


def case(function):
    CASES.append(function)
    return function


def run_both(mpi, program, name, *arguments, ranks=2, **settings):
    """The outcome of a run under the shim, the same as without it."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(ranks, name, *arguments, shim=False)
        got = here.run(ranks, name, *arguments, **{"SCR_FLUSH": "1", **settings})
        assert (got.status, got.out) == (want.status, want.out), f"{want}\n{got}"
        before, after = data_files(plain.tree()), data_files(here.tree())
        assert before == after, f"files differ: {sorted(before.items() ^ after.items())}\n{got}"
        return got


@case
def two_series_that_match_the_same_files(mpi, program):
    got = run_both(mpi, program, "steady", 20, 5, SCR_CHECKPOINT_PATTERN="ckpt/**",
                   SCR_CHECKPOINT_PATTERN_2="ckpt/step_{id}/rank_{rank}.dat")
    words = ["SCR_CHECKPOINT_PATTERN_2", "match SCR_CHECKPOINT_PATTERN, too", "earlier series"]
    check_message(got, words)


@case
def files_of_each_rank_without_rank_in_the_pattern(mpi, program):
    """Nothing is wrong with it."""
    for learn in "01":
        got = run_both(mpi, program, "steady", 20, 5, SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*",
                       SCR_LEARN=learn)
        assert not got.err.strip(), f"not silent: {got}"
