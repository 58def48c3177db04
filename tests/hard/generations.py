"""Programs without ids, as Fortran's default open writes."""

from support import finish, kill_ranks_of, lines, messages, place, wait_for

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def rewritten_every_few_milliseconds_by_the_default_open_of_fortran(mpi, program):
    """It cuts no file short, and settles at no moment: it is cached all the same, while the run
    lasts, and comes back whole."""
    for learn in ("1", "0"):
        settings = {"SCR_CHECKPOINT_PATTERN": "state.{rank}", "SCR_LEARN": learn, "SCR_FLUSH": "0"}
        with place(mpi, program) as here:
            run = here.start(2, "default_open", 4000, 5, **settings)
            wait_for(lambda: len(list(here.base.rglob("scr.dataset.*/state.?"))) >= 2, run)
            kill_ranks_of(here, "default_open")
            killed = finish(run)
            assert not messages(killed), f"{killed}"
            got = here.run(2, "default_open", 0, 5, **settings)
            found = [int(line.split()[-1]) for line in lines(got)]
            assert len(set(found)) == 1 and found[0] > int(learn), f"{learn}: {got}"
