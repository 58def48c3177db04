"""Files that are written under a temporary name and renamed: cached whatever is random in it."""

import re

from support import (PROGRAMS, ROOT, assert_same_files, finish, kill_ranks_of, messages, place,
                     wait_for)

CASES = []
COUNTS = re.compile(r"opened for writing: (\d+) in cache, (\d+) on the prefix")
SETTINGS = {"SCR_LEARN": "1", "SCR_DEBUG": "1"}
RANKS, EVERY, STEPS = 2, 5, 20
WAYS = ("mkstemp", "unlike", "elsewhere", "process", "open")
WAYS_OF_PYTHON = ("zarr2", "zarr3", "uuid", "tempfile", "open")


def case(function):
    CASES.append(function)
    return function


def cached(got):
    """Files that went to the cache, and to the prefix."""
    found = COUNTS.search(got.err)
    assert found, f"{got}"
    return int(found.group(1)), int(found.group(2))


def run_twice(plain, here, files, start):
    """The second run goes on from the first: all of it is cached, as is most of the first."""
    for run in (1, 2):
        want = start(plain, run * STEPS, shim=False)
        got = start(here, run * STEPS, SCR_FLUSH="1", **SETTINGS)
        assert want.status == got.status == 0 and want.out == got.out, f"{want}\n{got}"
        all_files = STEPS // EVERY * files
        least = all_files if run == 2 else all_files // 2
        in_cache, on_prefix = cached(got)
        assert in_cache >= least and in_cache + on_prefix == all_files, f"{got}"
        assert "SCR-1006" not in got.err and "SCR-2008" not in got.err, f"{got}"
        assert_same_files(plain, here, got)


@case
def renamed_when_it_is_complete(mpi, program):
    for how in WAYS:
        def start(there, steps, how=how, **settings):
            return there.run(RANKS, "renamed", how, steps, EVERY, **settings)
        with place(mpi, program) as plain, place(mpi, program) as here:
            run_twice(plain, here, RANKS, start)


@case
def renamed_by_libraries_of_python(mpi, program):
    words = ["/usr/bin/python3", str(PROGRAMS / "renamed.py")]
    library = {"PYTHONPATH": str(ROOT / "target" / "python-mpich")} if mpi == "mpich" else {}
    pattern = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*.{bin,json}", **library}
    for how in WAYS_OF_PYTHON:
        def start(there, steps, how=how, **settings):
            command = [f"mpirun.{mpi}", "-n", str(RANKS), *words, how, str(steps), str(EVERY)]
            return finish(there.start(RANKS, "", command=command, **pattern, **settings))
        with place(mpi, program) as plain, place(mpi, program) as here:
            run_twice(plain, here, RANKS * 3 + 1, start)


@case
def killed_when_all_names_were_temporary_ones(mpi, program):
    for how in ("mkstemp", "open"):
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(RANKS, "renamed", how, STEPS, EVERY, shim=False)
            pause = here.prefix / "pause"
            run = here.start(RANKS, "renamed", how, STEPS, EVERY, 17, pause, SCR_FLUSH="0",
                             **SETTINGS)
            wait_for(pause.exists, run)
            kill_ranks_of(here, "renamed")
            finish(run)
            assert not (here.prefix / "ckpt/step_15/rank_0.dat").exists()
            pause.unlink()
            got = here.run(RANKS, "renamed", how, STEPS, EVERY, SCR_FLUSH="0", SCR_LEARN="1")
            assert got.line("restart") == "restart 15", f"{messages(got)} {got}"
            assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"
