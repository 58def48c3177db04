"""What a restart offers from the prefix is what was written there, or somebody is told."""

import os
import shutil
import time

from room import run_in_store
from support import place

CASES = []
PATTERN = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*_{rank}.dat", "SCR_FLUSH": "1"}
KIB = 20 << 10


def case(function):
    CASES.append(function)
    return function


def lose_cache(here):
    for path in here.base.iterdir():
        shutil.rmtree(path)


def flip(path, at):
    """Changes three bytes."""
    with path.open("r+b") as file:
        file.seek(at)
        found = file.read(3)
        file.seek(at)
        file.write(bytes(byte ^ 0x55 for byte in found))


def touch(folder):
    """All its files have the times of a minute later, as if they had been copied there."""
    for path in folder.iterdir():
        later = time.time_ns() + 60 * 10**9
        os.utime(path, ns=(later, later))


def again(here, small, *words, **settings):
    """A run on new nodes; with a small store, or one that reads the prefix."""
    lose_cache(here)
    if small:
        return run_in_store(here, 60, 2, *words, **PATTERN, **settings)
    return here.run(2, *words, **{"SCR_FETCH_BYPASS": "1", **PATTERN, **settings})


def falls_back(got, told):
    """The program begins with the older one, and one line says why."""
    assert got.status == 0 and got.line("restart") == "restart 5", f"{got}"
    assert told in got.err and "hidden from the program" in got.err, f"{got}"
    assert got.err.count("SCR:") == 1, f"{got}"


@case
def damage_far_into_a_file_that_is_read_where_it_is(mpi, program):
    """The store has no room for the checkpoint, or the user wants it read where it is."""
    for small in (True, False):
        with place(mpi, program) as here:
            assert not here.run(2, "bulky", 10, 5, KIB, **PATTERN).err
            whole = again(here, small, "bulky", 10, 5, KIB)
            assert whole.line("restart") == "restart 10" and not whole.err, f"{whole}"
            flip(here.prefix / "ckpt/step_10/bulk_1.dat", 19 << 20)
            told = "ckpt/step_10/bulk_1.dat has not the content that it was flushed with"
            falls_back(again(here, small, "bulky", 5, 5, KIB), told)


@case
def a_copy_that_was_cut_short(mpi, program):
    """Its times are all new, as of files that the user has put there himself."""
    for bypass in "01":
        with place(mpi, program) as here:
            assert not here.run(2, "steady", 10, 5, **PATTERN).err
            step = here.prefix / "ckpt/step_10"
            touch(step)
            copied = again(here, False, "steady", 10, 5, SCR_FETCH_BYPASS=bypass)
            assert copied.line("restart") == "restart 10" and not copied.err, f"{copied}"
            size = (step / "rank_1.dat").stat().st_size
            os.truncate(step / "rank_1.dat", 100)
            touch(step)
            told = f"ckpt/step_10/rank_1.dat has 100 bytes, and had {size} when it was complete"
            falls_back(again(here, False, "steady", 5, 5, SCR_FETCH_BYPASS=bypass), told)


@case
def contents_that_cannot_be_compared(mpi, program):
    """The program wrote the first checkpoint to the prefix itself: nobody has a checksum of it."""
    with place(mpi, program) as here:
        learns = {"SCR_LEARN": "1", **PATTERN}
        assert not here.run(2, "steady", 5, 5, **learns).err
        lose_cache(here)
        whole = here.run(2, "scan", **learns)
        assert "step_5" in whole.out and not whole.err, f"{whole}"
        flip(here.prefix / "ckpt/step_5/rank_1.dat", 100)
        got = here.run(2, "scan", **learns)
        assert "step_5" in got.out and got.err.count("SCR:") == 1, f"{got}"
        told = "ckpt/step_5/rank_1.dat was written to after it was complete"
        assert "have no checksum" in got.err and told in got.err, f"{got}"
