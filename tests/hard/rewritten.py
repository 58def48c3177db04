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


def case(function):
    CASES.append(function)
    return function


def begins(here, step, steps=0):
    """A launch, whose nodes are new, finds that step everywhere; `steps` more are done."""
    for path in here.base.iterdir():
        shutil.rmtree(path)
    got = here.run(2, "rewrites", steps, **HERE)
    late = step if step > 2 else 0
    assert got.status == 0, f"{got}"
    assert lines(got) == [f"rank {rank}: {step} {late}" for rank in range(2)], f"{got}"
    return got


def damage(here):
    """Cuts a file of the newest checkpoint short."""
    with (here.prefix / "s.1").open("r+") as file:
        file.truncate(3)


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
