"""A pointer file names the checkpoint that the run begins with, whichever that is."""

import shutil

from support import place

CASES = []
PATTERN = "ckpt/step_{id}/rank_{rank}.dat, ckpt/latest"
HERE = {"SCR_CHECKPOINT_PATTERN": PATTERN, "SCR_FLUSH": "1", "SCR_LEARN": "0"}
EVERY = 5
LAST = 20
# In the cache, where a start brings it; on the prefix.
READ = ({}, {"SCR_FETCH_BYPASS": "1"})


def case(function):
    CASES.append(function)
    return function


def whole_run(here):
    got = here.run(2, "pointer", LAST, EVERY, 0, **HERE)
    assert got.status == 0 and got.line("restart") == "restart 0", f"{got}"
    return got


def begins(here, step, *words, **settings):
    """A launch that is at its end begins with `step`."""
    got = here.run(2, "pointer", step, EVERY, 0, *words, **{**HERE, **settings})
    assert got.status == 0 and got.line("restart") == f"restart {step}", f"{settings}: {got}"
    return got


@case
def a_pointer_goes_back_with_the_run(mpi, program):
    """To the one that the user chooses, from the cache and in place, and forward again."""
    for read in READ:
        with place(mpi, program) as here:
            whole_run(here)
            begins(here, 10, SCR_CURRENT="10", **read)
            begins(here, 10, **read)
            begins(here, 20, SCR_CURRENT="checkpoint.20", **read)
            begins(here, 5, SCR_CURRENT="5", SCR_DROP_AFTER_CURRENT="1", **read)


@case
def a_pointer_goes_back_before_a_damaged_checkpoint(mpi, program):
    for read in READ:
        with place(mpi, program) as here:
            whole_run(here)
            (here.prefix / "ckpt/step_20/rank_1.dat").write_text("short")
            got = begins(here, 15, **read)
            assert "step_20/rank_1.dat has 5 bytes, and had" in got.err, f"{got}"


@case
def the_run_follows_a_pointer_that_somebody_has_changed(mpi, program):
    for read in READ:
        with place(mpi, program) as here:
            whole_run(here)
            (here.prefix / "ckpt/latest").write_text("step_10\n")
            got = begins(here, 10, **read)
            assert got.err == "", f"{got}"


@case
def a_link_leads_to_what_is_left(mpi, program):
    """The caches are lost after rank 0 has made it lead to what only they had; and with the user's
    choice, back and forth."""
    for read in READ:
        with place(mpi, program) as here:
            seldom = {**HERE, "SCR_FLUSH": "2", "SCR_FLUSH_ASYNC": "0", **read}
            here.run(2, "pointer", 40, EVERY, 15, "link", **seldom)
            assert (here.prefix / "ckpt/latest").readlink().name == "step_15"
            for path in here.base.iterdir():
                shutil.rmtree(path)
            got = begins(here, 10, "link", **seldom)
            assert "ckpt/latest led to step_15, and leads to step_10 now" in got.err, f"{got}"
            again = begins(here, 10, "link", **seldom)
            assert again.err == "", f"{again}"
            here.run(2, "pointer", LAST, EVERY, 0, "link", **HERE)
            begins(here, 10, "link", SCR_CURRENT="10", **read)
            begins(here, 20, "link", SCR_CURRENT="checkpoint.20", **read)


@case
def a_link_to_a_file_leads_to_what_is_left(mpi, program):
    """The id is in the file's own name; the run dies before the last checkpoint is complete."""
    settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/s{id}.dat, ckpt/latest", "SCR_FLUSH": "0"}
    with place(mpi, program) as here:
        killed = here.run(2, "file_link", 5, **settings)
        assert (here.prefix / "ckpt/latest").readlink().name == "s5.dat", f"{killed}"
        got = here.run(2, "file_link", 0, **settings)
        assert got.out == "begins with 4\n", f"{killed}\n{got}"
        assert "ckpt/latest led to s5.dat, and leads to s4.dat now" in got.err, f"{got}"


@case
def a_pointer_beside_the_wrong_pattern_is_told_of(mpi, program):
    """Its series has no checkpoint that it could be kept with."""
    wrong = {"SCR_CHECKPOINT_PATTERN": "ckpt/other_{id}.dat, ckpt/latest",
             "SCR_CHECKPOINT_PATTERN_2": "ckpt/step_{id}/rank_{rank}.dat", "SCR_LEARN": "0"}
    for settings, told in ((wrong, 1), (HERE, 0)):
        with place(mpi, program) as here:
            got = here.run(2, "pointer", 40, EVERY, 0, **settings)
            assert got.status == 0 and got.err.count("SCR:") == told, f"{got}"
            assert not told or "ckpt/latest matches SCR_CHECKPOINT_PATTERN, of" in got.err, f"{got}"
            assert (here.prefix / "ckpt/latest").read_text() == "step_40\n", f"{got}"
