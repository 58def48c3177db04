"""What a restart offers from the prefix is what was written there, or somebody is told."""

import shutil

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
