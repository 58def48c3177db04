"""The ends of a program: with and without MPI_Finalize, in main and after it."""

import functools
import shutil

from support import assert_same, assert_same_files, data_files, messages, place
from tries import three_times

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def exit_without_finalize(mpi, program):
    """All files are there, whatever ends the ranks, at once or not. MPICH's launcher kills what has
    not gone when the first rank has, and says so on its output: with status 9 now and then, or 1 if
    it sees the end of a rank's connection long before that of the rank, which may have threads;
    without us, too."""
    ends = ("exit", "_exit", "_Exit", "quick_exit", "signal")

    def attempt(words):
        with place(mpi, program) as plain, place(mpi, program) as shimmed:
            want = plain.run(3, "no_finalize", *words, shim=False)
            got = shimmed.run(3, "no_finalize", *words, SCR_FLUSH="1")
            allowed = (0, 1, 9) if mpi == "mpich" else (want.status,)
            assert got.status in allowed, f"{words} {want}\n{got}"
            assert got.line("checksum") == want.line("checksum"), f"{words} {want}\n{got}"
            assert_same_files(plain, shimmed, (words, got))

    for words in [(end,) for end in ends] + [("exit", "slow"), ("_exit", "finalized")]:
        three_times(functools.partial(attempt, words))


def of_step(here, step):
    """The two ranks' files of one checkpoint."""
    files = data_files(here.tree())
    names = [f"ckpt/step_{step}/rank_{rank}.dat" for rank in (0, 1)]
    return {name: files[name] for name in names}


@case
def finalize_after_main(mpi, program):
    """MPI_Finalize that a static object's destructor calls is as good as one in main."""
    for how in ("handler", "destructor", "closes"):
        with place(mpi, program) as plain, place(mpi, program) as shimmed:
            want = plain.run(2, "late_finalize", how, shim=False)
            got = shimmed.run(2, "late_finalize", how, SCR_FLUSH="0")
            assert_same(want, got)
            assert not messages(got), f"{how}: {got}"
            step = 21 if how == "closes" else 20
            assert data_files(shimmed.tree()) == of_step(plain, step), f"{shimmed.tree()}\n{got}"


@case
def sealed_at_the_return_from_main(mpi, program):
    """The last checkpoint is sealed, and no MPI_Finalize comes: it is on the prefix, whole and
    known to a restart, as soon as all ranks have come to their end; before, no part of it is."""
    allowed = (0, 1, 9) if mpi == "mpich" else (1,)  # see `exit_without_finalize`

    def attempt():
        with place(mpi, program) as plain, place(mpi, program) as here:
            plain.run(2, "late_finalize", "never", shim=False)
            got = here.run(2, "late_finalize", "never", 500000, SCR_FLUSH="0")
            assert got.status in allowed and not messages(got), f"{got}"
            assert data_files(here.tree()) == of_step(plain, 20), f"{here.tree()}\n{got}"
            assert (here.prefix / ".scr" / "index.scr").exists(), f"{got}"
            for cache in ("there", "lost"):
                again = here.run(2, "late_finalize", "never", SCR_FLUSH="0")
                assert again.line("restart") == "restart 20", f"{cache}: {again}"
                assert again.line("checksum") == got.line("checksum"), f"{cache}: {again}"
                shutil.rmtree(here.base)
                here.base.mkdir()
        with place(mpi, program) as here:
            got = here.run(2, "late_finalize", "never", 9000000, SCR_FLUSH="0")
            assert data_files(here.tree()) == {}, f"{here.tree()}\n{got}"
            again = here.run(2, "late_finalize", "handler", SCR_FLUSH="0")
            assert again.line("restart") == "restart 20", f"{again}"

    three_times(attempt)


@case
def sealed_and_flushed_by_threads_without_finalize(mpi, program):
    """The same with SCR_FLUSH_ASYNC=1: what threads were about to write is there at the end."""
    allowed = (0, 1, 9) if mpi == "mpich" else (1,)  # see `exit_without_finalize`
    threads = {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1"}

    def attempt():
        with place(mpi, program) as plain, place(mpi, program) as here:
            plain.run(2, "late_finalize", "never", shim=False)
            got = here.run(2, "late_finalize", "never", 500000, **threads)
            assert got.status in allowed and not messages(got), f"{got}"
            found = data_files(here.tree())
            assert {**found, **of_step(plain, 20)} == found, f"{here.tree()}\n{got}"
            for cache in ("there", "lost"):
                again = here.run(2, "late_finalize", "never", **threads)
                assert again.line("restart") == "restart 20", f"{cache}: {again}"
                assert again.line("checksum") == got.line("checksum"), f"{cache}: {again}"
                shutil.rmtree(here.base)
                here.base.mkdir()

    three_times(attempt)
