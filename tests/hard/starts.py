"""Starts at which something fails: nobody waits for a rank that does not come."""

import shutil

import support
from support import finish, kill_ranks_of, messages, place, wait_for

CASES = []
OTHER_PATTERN = {"SCR_RESTART_REQUIRED": "1", "SCR_CHECKPOINT_PATTERN": "other/{id}/{rank}"}


def case(function):
    CASES.append(function)
    return function


def hard():
    """What this module and hard.py share lives there."""
    import __main__
    return __main__


@case
def a_prefix_without_hard_links(mpi, program):
    """The launch check does not need them: files are cached, nothing is said."""
    with place(mpi, program) as here:
        preload = f"{support.SHIM}:{program('no_links.so')}"
        got = here.run(2, "steady", 20, 5, LD_PRELOAD=preload, SCR_DEBUG="1", SCR_FLUSH="0")
        assert got.status == 0 and "runs without SCR" not in got.err, f"{got}"
        assert "sealed as dataset" in got.err, f"{got}"


@case
def a_prefix_without_locks(mpi, program):
    """A file stands in for the lock: a second run is kept off as long as the first one lives, and
    one that was killed is in nobody's way."""
    with place(mpi, program) as here:
        preload, pause = f"{support.SHIM}:{program('no_locks.so')}", here.base / "pause"
        first = here.start(2, "steady", 20, 5, 17, pause, LD_PRELOAD=preload)
        wait_for(pause.exists, first)
        second = here.run(2, "steady", 20, 5, LD_PRELOAD=preload)
        assert second.status == 0 and second.err.count("another run uses") == 1, f"{second}"
        kill_ranks_of(here)
        finish(first)
        third = here.run(2, "steady", 20, 5, -1, LD_PRELOAD=preload)
        assert third.status == 0 and "another run" not in third.err, f"{third}"
        assert "runs without SCR" not in third.err, f"{third}"


@case
def one_rank_that_cannot_start_where_nothing_names_the_launch(mpi, program):
    """Only the ranks are preloaded: no launch check, the rank tells it in the first collective."""
    with place(mpi, program) as plain:
        want = plain.run(2, "steady", 20, 5, shim=False)
    steady, shim = [program("steady"), "20", "5"], [f"LD_PRELOAD={support.SHIM}"]
    for spoilt in ("SCR_CACHE_SIZE=none", "SCR_CNTL_BASE=/nowhere"):
        for ranks in ([shim, [*shim, spoilt]], [[*shim, spoilt], shim]):
            first, second = (["-n", "1", "env", *words, *steady] for words in ranks)
            command = [f"mpirun.{mpi}", *first, ":", *second]
            with place(mpi, program) as here:
                got = finish(here.start(2, "steady", command=command, LD_PRELOAD=None))
            assert (got.status, got.out) == (want.status, want.out), f"{want}\n{got}"
            assert "the program runs without SCR" in got.err, f"{got}"
            # Open MPI names the launch: then rank 0 may speak, and those who wait for it.
            assert len(messages(got)) <= (1 if mpi == "mpich" else 2), f"messages: {got}"


@case
def a_required_restart_that_cannot_be(mpi, program):
    """SCR_RESTART_REQUIRED=1: the run ends where the start falls back, if there is a checkpoint."""
    with place(mpi, program) as here:
        first = here.run(2, "steady", 20, 5, SCR_RESTART_REQUIRED="1")
        assert first.status == 0 and not first.err, f"{first}"
    with place(mpi, program) as here:
        settings = {"SCR_RESTART_REQUIRED": "1", "SCR_CNTL_BASE": "/nowhere"}
        first = here.run(2, "steady", 20, 5, **settings)
        assert first.status == 0 and first.line("restart") == "restart 0", f"{first}"
    with place(mpi, program) as here:
        known = here.prefix / ".scr/flush.scr"
        there = lambda: known.exists() and b"checkpoint.15\0" in known.read_bytes()
        hard().kill_at_pause(here, here.prefix / "pause", there)
        unreadable = {"SCR_RESTART_REQUIRED": "1", "SCR_CACHE_SIZE": "none"}
        for spoilt in (OTHER_PATTERN, settings, unreadable):
            ended = here.run(2, "steady", 40, 5, **spoilt)
            assert ended.status != 0 and not ended.line("restart"), f"{spoilt}: {ended}"
            assert len(messages(ended)) == 1, f"not exactly one message: {ended}"
            assert "SCR_RESTART_REQUIRED=1: the run ends before" in ended.err, f"{ended}"
        alone = here.base.with_name(here.base.name + "-alone")
        alone.mkdir()
        try:
            shutil.copy(support.SHIM, alone)
            without = {"LD_PRELOAD": str(alone / support.SHIM.name)}
            ended = here.run(2, "steady", 40, 5, SCR_RESTART_REQUIRED="1", **without)
            assert ended.status != 0 and not ended.line("restart"), f"{ended}"
            assert len(messages(ended)) == 1, f"not exactly one message: {ended}"
            assert "libscr.so is missing" in ended.err, f"{ended}"
            assert "SCR_RESTART_REQUIRED=1: the run ends before" in ended.err, f"{ended}"
        finally:
            shutil.rmtree(alone)
        went = here.run(2, "steady", 40, 5, SCR_RESTART_REQUIRED="1")
        assert went.status == 0 and went.line("restart") == "restart 15", f"{went}"
