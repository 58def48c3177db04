"""A launch whose files no pattern matches, or that has no pattern, is told so in one line; names
and variables may hold any bytes."""

from bad_input import check_message
from support import assert_same, data_files, place

CASES = []


def case(function):
    CASES.append(function)
    return function


def told(mpi, program, words, *names, ranks=2, manner="plain", **settings):
    """The program writes these names: exactly one message, with these words, and no difference."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(ranks, "names", manner, *names, shim=False)
        got = here.run(ranks, "names", manner, *names, **settings)
        assert_same(want, got)
        assert data_files(plain.tree(".")) == data_files(here.tree(".")), f"files differ: {got}"
        check_message(got, words)
        return got


@case
def names_that_are_not_text(mpi, program):
    """They go to the prefix, which is told once if a pattern matches."""
    got = told(mpi, program, ["matches a pattern", "not UTF-8 text", "caf\\xE9"],
               "ckpt/step_@/caf\udce9_&", "ckpt/step_@/a_&", ranks=1,
               SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*", SCR_FLUSH="1")
    assert got.line("written"), f"{got}"
    told(mpi, program, ["ckpt/step_5/a_0 was written"], "other\udce9", "ckpt/step_@/a_&",
         SCR_CHECKPOINT_PATTERN="save/{id}/*")
