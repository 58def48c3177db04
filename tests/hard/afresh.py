"""What a user does to a run's directory after a crash is his word for what the next start begins
with."""

import shutil
import subprocess

from support import DIST, Outcome, finish, kill_ranks_of, messages, place, wait_for

CASES = []
SCR = str(DIST / "bin" / "scr")
STEPS, EVERY = 40, 5


def case(function):
    CASES.append(function)
    return function


def killed_at(here, step, when=lambda: True, **settings):
    """Runs `steady` until it is killed at that step."""
    pause = here.prefix / "pause"
    run = here.start(2, "steady", STEPS, EVERY, step, pause, **{"SCR_FLUSH": "0", **settings})
    wait_for(lambda: pause.exists() and when(), run)
    kill_ranks_of(here)
    got = finish(run)
    pause.unlink(missing_ok=True)
    return got


def whole_run(here, **settings):
    return here.run(2, "steady", STEPS, EVERY, **settings)


def begins(got, step, want=None):
    """The run has begun with `step`; one that is not killed comes to the same as without us."""
    assert got.line("restart") == f"restart {step}", f"{got}"
    assert want is None or got.line("checksum") == want.line("checksum"), f"{want}\n{got}"


def told_once(got, *words):
    """Exactly one message, which has these words."""
    told = messages(got)
    assert len(told) == 1 and all(word in told[0] for word in words), f"{words}: {got}"


def tool(here, *words, **settings):
    """What a command of `scr` answers in the prefix."""
    env = here.environment(True, settings)
    del env["LD_PRELOAD"]
    done = subprocess.run([SCR, *words], cwd=here.prefix, env=env, text=True, capture_output=True)
    return Outcome(done.returncode, done.stdout, done.stderr)


@case
def directory_of_the_run_is_deleted_and_made_anew(mpi, program):
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(2, "steady", STEPS, EVERY, shim=False)
        killed_at(here, 17)
        shutil.rmtree(here.prefix)
        here.prefix.mkdir()
        saved = tool(here, "scavenge")
        assert saved.status != 0 and not here.tree(), f"{saved}"
        got = killed_at(here, 3)
        begins(got, 0)
        told_once(got, "SCR-3118", "checkpoint 15", "was made anew", "SCR_CACHE_ADOPT=1")
        begins(whole_run(here, SCR_CACHE_ADOPT="1"), 15, want)


@case
def directory_of_the_checkpoints_is_deleted(mpi, program):
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(2, "steady", STEPS, EVERY, shim=False)
        published = lambda: len(here.tree("ckpt/step_10")) == 2
        killed_at(here, 17, published, SCR_FLUSH="2")
        shutil.rmtree(here.prefix / "ckpt")
        for _ in range(2):  # his word holds for later starts, too
            got = killed_at(here, 3)
            begins(got, 0)
            told_once(got, "SCR-3119", "somebody has deleted", "SCR_CURRENT=checkpoint.15")
            saved = tool(here, "scavenge")
            assert "somebody has deleted checkpoints" in saved.out + saved.err, f"{saved}"
            assert not here.tree("ckpt/step_15"), f"{here.tree()}"
        begins(whole_run(here, SCR_CURRENT="checkpoint.15"), 15, want)


@case
def pointer_that_is_edited_after_a_crash(mpi, program):
    settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/rank_{rank}.dat, ckpt/latest",
                "SCR_FLUSH": "1"}
    with place(mpi, program) as plain:
        want = plain.run(2, "pointer", 30, EVERY, shim=False)
    for edited in (False, True):
        with place(mpi, program) as here:
            latest = here.prefix / "ckpt" / "latest"
            run = here.start(2, "pointer", 4000, EVERY, **settings)
            wait_for(lambda: latest.read_text() in ("step_15\n", "step_20\n"), run)
            kill_ranks_of(here, "pointer")
            finish(run)
            if edited:
                latest.write_text("step_10\n")
            got = here.run(2, "pointer", 30, EVERY, **settings)
            begin = int(got.line("restart").split()[1])
            assert begin == 10 if edited else begin >= 15, f"{got}"
            assert begin > 30 or got.line("checksum") == want.line("checksum"), f"{want}\n{got}"
