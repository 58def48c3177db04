"""A pointer file names the checkpoint that the run begins with, whichever that is."""

from support import place

CASES = []
PATTERN = "ckpt/step_{id}/rank_{rank}.dat, ckpt/latest"
HERE = {"SCR_CHECKPOINT_PATTERN": PATTERN, "SCR_FLUSH": "1", "SCR_LEARN": "0"}
EVERY = 5
LAST = 20


def case(function):
    CASES.append(function)
    return function


def begins(here, step, *words, **settings):
    """A launch that is at its end begins with `step`."""
    got = here.run(2, "pointer", step, EVERY, *words, **{**HERE, **settings})
    assert got.status == 0 and got.line("restart") == f"restart {step}", f"{settings}: {got}"


@case
def a_pointer_goes_back_with_the_run(mpi, program):
    """To the one that the user chooses, from the cache and in place, and forward again; a file, and
    a symbolic link."""
    for read, words in (({}, ()), ({"SCR_FETCH_BYPASS": "1"}, ("link",))):
        with place(mpi, program) as here:
            got = here.run(2, "pointer", LAST, EVERY, *words, **HERE)
            assert got.status == 0 and got.line("restart") == "restart 0", f"{got}"
            begins(here, 10, *words, SCR_CURRENT="10", **read)
            begins(here, 10, *words, **read)
            begins(here, 20, *words, SCR_CURRENT="checkpoint.20", **read)
            begins(here, 5, *words, SCR_CURRENT="5", SCR_DROP_AFTER_CURRENT="1", **read)
