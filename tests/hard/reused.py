"""Large files that are written over those of checkpoints that have left the cache."""

import os
import signal

from support import finish, place, ranks_of

CASES = []
PATTERN = "ckpt/step_{id}/*_{rank}.dat"
RANKS, STEPS, EVERY = 2, 40, 5


def case(function):
    CASES.append(function)
    return function


def hard():
    """What this module and hard.py share lives there."""
    import __main__
    return __main__


SETTINGS = {"SCR_CHECKPOINT_PATTERN": PATTERN, "SCR_FLUSH": "0", "SCR_CACHE_SIZE": "1"}


def written(numbers):
    """Files that each rank has written, and how many of them lie where another one has lain."""
    lines = numbers.read_text().splitlines()
    return len(lines), len(lines) - len(set(lines))


@case
def files_that_are_written_over_old_ones(mpi, program):
    """They are as long as they are written, longer or shorter than those before, and nobody who
    could know better sees them otherwise: this process, its child, another rank after a barrier."""
    for between in ("nothing", "look", "fork"):
        with place(mpi, program) as plain, place(mpi, program) as here:
            words = [STEPS, EVERY, between]
            want = plain.run(RANKS, "resized", *words, plain.base / "numbers", shim=False)
            numbers = here.base / "numbers"
            got = here.run(RANKS, "resized", *words, numbers, **SETTINGS)
            assert (got.status, got.out, got.err) == (0, want.out, ""), f"{between}: {got}"
            files, again = written(numbers)
            assert files == RANKS * STEPS // EVERY, f"{between}: {files}"
            assert again > 0 or between != "nothing", f"{between}: no file was written over"
            assert not list(here.base.glob("*/scr.*/*/scr.spare*")), "left at the end"


@case
def killed_while_a_file_is_written_over_an_old_one(mpi, program):
    """The next run goes on from the checkpoint before; nothing of the old file is found, and what
    was lent is gone."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(RANKS, "resized", STEPS, EVERY, "nothing", plain.base / "numbers",
                         shim=False)
        pause, numbers = here.prefix / "pause", here.base / "numbers"
        words = [STEPS, EVERY, "pause", numbers, 25, pause]
        run = here.start(RANKS, "resized", *words, **SETTINGS)
        hard().wait_for(pause.exists, run)
        lent = [path.name for path in here.base.glob("*/scr.*/*/scr.spare.*")]
        assert "scr.spare.0.lent" in lent, lent
        os.kill(ranks_of(here, "resized")[0], signal.SIGKILL)
        finish(run)
        pause.unlink()
        words[2] = "nothing"
        got = here.run(RANKS, "resized", *words, **SETTINGS)
        assert got.status == 0 and "restart 20" in got.out, got
        assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"
        assert not list(here.base.glob("*/scr.*/*/scr.spare*")), "left at the end"
