"""A checkpoint without an id: each flush takes the names of the one before, which the prefix keeps
beside as long as the window (SCR_PREFIX_SIZE) has room for it."""

import os
import shutil
import signal

import support
from logged import LOGGED, events
from support import finish, kill_ranks_of, lines, place, wait_for

CASES = []
HERE = {"SCR_CHECKPOINT_PATTERN": "s.{rank}, late.{rank}", "SCR_FLUSH": "1",
        "SCR_PREFIX_SIZE": "3", "SCR_LEARN": "0"}
# By all ranks together, by threads; in the cache, where a start brings it, and on the prefix.
WAYS = ({}, {"SCR_FLUSH_ASYNC": "1", "SCR_FETCH_BYPASS": "1"})


def case(function):
    CASES.append(function)
    return function


def begins(here, step, *steps, **settings):
    """A launch, whose nodes are new, finds that step everywhere; `steps` more are done."""
    for path in here.base.iterdir():
        shutil.rmtree(path)
    got = here.run(2, "rewrites", *(steps or (0,)), **{**HERE, **settings})
    late = step if step > 2 else 0
    assert got.status == 0, f"{got}"
    assert lines(got) == [f"rank {rank}: {step} {late}" for rank in range(2)], f"{got}"
    return got


def damage(here):
    """Cuts a file of the newest checkpoint short."""
    with (here.prefix / "s.1").open("r+") as file:
        file.truncate(3)


@case
def the_one_before_comes_back_when_the_newest_is_damaged(mpi, program):
    for way in WAYS:
        with place(mpi, program) as here:
            whole = begins(here, 0, 4, **way)
            assert not whole.err, f"{whole}"
            damage(here)
            for step in (3, 2):
                got = begins(here, step, **way)
                assert "s.1 has 3 bytes, and had" in got.err, f"{got}"
                assert f"(dataset {step}) are in place again" in got.err, f"{got}"
                again = begins(here, step, **way)
                assert not again.err, f"{again}"
                damage(here)
            # The window had room for no more.
            got = begins(here, 0, 3, **way)
            assert "hidden from the program" in got.err, f"{got}"
            assert not begins(here, 3, **way).err


@case
def each_is_written_to_the_prefix_once(mpi, program):
    with place(mpi, program) as here:
        begins(here, 0, 6, **LOGGED, **WAYS[1])
        found = events(here)
        text = "\n".join(map(str, found))
        begun = [one.id for one in found if one.event == "FLUSH_BEGIN"]
        ended = [one.id for one in found if one.event == "FLUSH_END"]
        assert begun == sorted(set(begun)) and begun[-1] == "6", text
        assert ended == begun, text


@case
def a_run_goes_back_to_one_that_was_written_over(mpi, program):
    """And forward again; what comes next follows the one that was chosen."""
    for way in WAYS:
        with place(mpi, program) as here:
            begins(here, 0, 4, **way)
            for step in (2, 4, 3, 2):
                got = begins(here, step, SCR_CURRENT=f"scr.dataset.{step}", **way)
                assert f"(dataset {step}) are in place again" in got.err, f"{got}"
            assert not begins(here, 2, **way).err
            begins(here, 2, 1, **way)
            damage(here)
            begins(here, 2, **way)
            dropped = {"SCR_DROP_AFTER_CURRENT": "1", **way}
            begins(here, 2, SCR_CURRENT="scr.dataset.2", **dropped)
            kept = here.prefix / ".scr/scr.dataset.4/files/s.0"
            assert kept.read_text() == "step 4, and so on\n"


@case
def what_the_user_has_done_to_it_stays(mpi, program):
    """He has deleted it, to begin anew, or has brought one from elsewhere."""
    with place(mpi, program) as here:
        begins(here, 0, 4)
        for rank in range(2):
            for name in ("s", "late"):
                (here.prefix / f"{name}.{rank}").unlink()
        begins(here, 0)
        for rank in range(2):
            (here.prefix / f"s.{rank}").write_text("step 9, which is of another run\n")
            (here.prefix / f"late.{rank}").write_text("step 9, which is of another run\n")
        begins(here, 9)
        got = begins(here, 9, SCR_CURRENT="scr.dataset.3")
        assert "written anew since" in got.err, f"{got}"


@case
def it_is_kept_and_comes_back_though_runs_are_killed(mpi, program):
    """Between the links and the index, between the index and the names, and on the way back."""
    for point, step in (("replaced.linked@2", 3), ("flush.publish@3", 3)):
        with place(mpi, program) as here:
            pause = here.prefix / "pause"
            killed(here, pause, f"{point}:{pause}", 4)
            begins(here, step)
            damage(here)
            begins(here, step - 1)
    with place(mpi, program) as here:
        begins(here, 0, 4)
        damage(here)
        pause = here.prefix / "pause"
        killed(here, pause, f"return.noted:{pause}", 0)
        got = begins(here, 3)
        assert "are in place again" not in got.err, f"{got}"


@case
def a_flush_that_fails_while_a_newer_one_is_under_way(mpi, program):
    """Threads cannot write the older one, and the newer one brings all its names: the index must
    not call the older one complete meanwhile, of which the prefix has nothing."""
    with place(mpi, program) as here:
        pause, held = here.prefix / "pause", here.prefix / "held"
        journal = here.prefix / ".scr/journal"
        tool = f"{support.SHIM}:{program('held_back.so')}"
        run = here.start(2, "rewrites", 3, pause, LD_PRELOAD=tool, HOLD_WORD="/.s.0.scr-",
                         HOLD_AT=str(held), **{**HERE, **LOGGED, "SCR_FLUSH_ASYNC": "1"})
        begun = lambda: held.exists() and pause.exists() and (journal / "2").exists()
        wait_for(begun, run)
        held.unlink()
        wait_for((journal / "1/failed.0.scr").exists, run)
        pause.unlink()
        got = finish(run)
        assert "it is tried again" in got.err and got.status == 0, f"{got}"
        assert (here.prefix / "s.0").read_text().startswith("step 3,"), f"{got}"
        ended = [one.id for one in events(here, "FLUSH_END")]
        assert ended == ["2", "3"], f"{ended} {got}"


def killed(here, pause, point, steps):
    """A run that is killed at `point`. Its ranks, too: those of Open MPI outlive their launcher,
    and save what they have while they end."""
    settings = {**HERE, "SCR_FLUSH_ASYNC": "0", "SCR_TEST_PAUSE": point}
    run = here.start(2, "rewrites", steps, **settings)
    wait_for(pause.exists, run)
    kill_ranks_of(here, "rewrites")
    os.killpg(run.pid, signal.SIGKILL)
    finish(run)
    pause.unlink()
