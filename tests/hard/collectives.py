"""Collective calls and communicators that an agreement must not be taken in by."""

import support
from settings import hard
from support import assert_same, assert_same_files, data_files, finish, place, same

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def spawn_merge_split(mpi, program):
    # Debian's MPICH cannot spawn; it fails the same way with and without us, after checkpoints that
    # have to be on the prefix then. Merge and split are tested with Open MPI only.
    # Open MPI's mpirun ends with SIGPIPE (141) now and then after a spawn, without us, too.
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        want = plain.run(2, "spawn_merge_split", shim=False)
        got = shimmed.run(2, "spawn_merge_split", SCR_FLUSH="1")
        success = (0, 141)
        assert (want.status in success) == (got.status in success), f"{want}\n{got}"
        if mpi == "openmpi":
            assert got.out == want.out, f"{want}\n{got}"
        assert len(plain.tree()) == (12 if mpi == "openmpi" else 6), f"{plain.tree()}\n{want}"
        assert_same_files(plain, shimmed, got)


@case
def threads_on_two_duplicates(mpi, program):
    """Debian's MPICH ends a program with two threads in it at once if it was not told. Open MPI
    lets it hang now and then at MPI_THREAD_SINGLE, where it takes no lock: without us, too."""
    for level in (1, 2, 3) if mpi == "openmpi" else (3,):
        got = same(mpi, program, 2, "threads_on_dups", level)
        assert "SCR:" not in got.err, f"level {level}: {got}"


@case
def threads_that_take_turns(mpi, program):
    got = same(mpi, program, 2, "threads_on_dups", 2, "turns")
    assert "SCR:" not in got.err, f"{got}"


@case
def fast_then_slow(mpi, program):
    """Agreements go on in the slow steps: all checkpoints but the last are on the prefix, complete,
    before the program comes to its end."""
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        plain.rests = shimmed.rests = False  # of two million collectives
        want = plain.run(2, "fast_then_slow", 0, shim=False)
        mark = shimmed.prefix / "mark"
        run = shimmed.start(2, "fast_then_slow", 2000000, mark, SCR_FLUSH="1")
        hard().wait_for(mark.exists, run)
        names = [f"ckpt/step_{step}/rank_{rank}.dat" for step in range(20, 200, 20)
                 for rank in (0, 1)]
        everything, flushed = data_files(plain.tree()), data_files(shimmed.tree())
        assert flushed.items() >= {name: everything[name] for name in names}.items(), f"{flushed}"
        mark.unlink()
        got = finish(run)
        assert_same(want, got)
        assert_same_files(plain, shimmed, got)


@case
def group_of_one(mpi, program):
    same(mpi, program, 3, "group_of_one")


@case
def errors_return_with_a_dead_peer(mpi, program):
    """The launchers end the survivors before they see the error; the cache is there afterwards."""
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        for killed in (True, False):
            want = plain.run(3, "errors_return", shim=False)
            got = shimmed.run(3, "errors_return", SCR_FLUSH="0")
            assert (want.status == 0) == (got.status == 0) == (not killed), f"{want}\n{got}"
            assert killed == (data_files(shimmed.tree()) == {}), f"{shimmed.tree()}\n{got}"
        assert got.line("restart") in ("restart 5", "restart 10"), f"began anew: {got}"
        assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"


@case
def agreement_that_fails(mpi, program):
    """As with a dead peer, from the middle of a run on: one error a rank and no agreement after it;
    the program's own calls are made, and its further checkpoints go to the prefix."""
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        want = plain.run(2, "steady", 40, 5, -1, shim=False)
        failures = shimmed.base / "failures"
        preload = f"{support.SHIM}:{program('failing_agreement.so')}"
        got = shimmed.run(2, "steady", 40, 5, -1, SCR_FLUSH="0", LD_PRELOAD=preload,
                          FAIL_AT="900", FAILURES=str(failures))
        assert_same(want, got)
        assert failures.read_text() == "failed\n" * 2, f"{failures.read_text()}{got}"
        assert got.err.count("no further checkpoint is cached") == 1, f"{got}"
        before, after = data_files(plain.tree()), data_files(shimmed.tree())
        steps = {name.split("/")[1] for name, _ in before.items() & after.items()}
        assert {"step_35", "step_40"} <= steps and "step_5" not in steps, f"{steps}{got}"
