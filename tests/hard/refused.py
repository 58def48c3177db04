"""Stores that refuse a file, whatever the reason: the program does not hear of it, the file is on
the prefix, and every checkpoint counts; or it was refused there, too: none counts without it."""

import errno

import support
from room import NAMESPACES
from support import messages, place

CASES = []


def case(function):
    CASES.append(function)
    return function


def careless_with(mpi, program, fault, step=15):
    """A run of `careless` with a `fault` and one that goes on from it: the second has to begin with
    the step `step`, and the result has to be right. Returns the first."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(2, "careless", 18, 5, 0, shim=False)
        bad = {name: value.replace("CACHE", str(here.base)) for name, value in fault.items()}
        tool = f"{support.SHIM}:{program('failing_disk.so')}"
        got = here.run(2, "careless", 17, 5, 17, LD_PRELOAD=tool, SCR_FLUSH="0", **bad)
        again = here.run(2, "careless", 18, 5, 0, SCR_FLUSH="0")
        assert again.line("restart") == f"restart {step}", f"{fault}: {got}\n{again}"
        assert again.line("checksum") == want.line("checksum"), f"{fault}: {want}\n{again}"
        return got


@case
def file_that_the_cache_cannot_open(mpi, program):
    """One create fails, or all of one rank do: on the prefix they succeed, and the checkpoint is
    complete with those files there."""
    for code in (errno.ENOSPC, errno.EIO, errno.EROFS):
        for files in {"FAIL_PATH": "/step_15/rank_1.dat"}, {"FAIL_WORDS": "CACHE"}:
            fault = {"FAIL_CALL": "open", "FAIL_ERRNO": str(code), **files}
            got = careless_with(mpi, program, fault)
            assert "failed" not in got.out and "cannot" not in got.out, f"{fault}: {got}"
            assert len(messages(got)) <= 1, f"more than one message: {fault}: {got}"


@case
def file_that_nobody_can_open(mpi, program):
    """The prefix refuses it as well: the program hears that, and the checkpoint is given up on all
    ranks, with one message. The one before it stays."""
    fault = {"FAIL_CALL": "open", "FAIL_WORDS": "step_15/rank_1.dat"}
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(2, "careless", 18, 5, 0, shim=False)
        tool = f"{support.SHIM}:{program('failing_disk.so')}"
        got = here.run(2, "careless", 17, 5, 17, LD_PRELOAD=tool, SCR_FLUSH="0", **fault)
        assert got.line("cannot open ckpt/step_15/rank_1.dat"), f"{got}"
        told = messages(got)
        assert len(told) == 1 and "checkpoint 15 is not valid" in told[0], f"{got}"
        again = here.run(2, "careless", 18, 5, 0, SCR_FLUSH="0")
        assert again.line("restart") == "restart 10", f"{got}\n{again}"
        assert again.line("checksum") == want.line("checksum"), f"{want}\n{again}"


@case
def cache_with_few_inodes(mpi, program):
    """A RAM disk that has bytes, and inodes for a file or two: one message, and the restart is from
    the newest checkpoint."""
    for inodes in (14, 25, 41):
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(2, "careless", 18, 5, 0, shim=False)
            store = here.base / "small"
            store.mkdir()
            mount = (f"mount -t tmpfs -o size=200m,nr_inodes={inodes},mode=700 none {store} "
                     '&& exec "$@"')
            alone = ["unshare", *NAMESPACES, "sh", "-c", mount, "sh"]
            run = lambda *arguments: support.finish(here.start(
                2, "careless", command=alone + here.command(2, "careless", arguments),
                SCR_FLUSH="1", SCR_CACHE_BASE=str(store)))
            got = run(17, 5, 17)
            # One of the files, and one of a checkpoint's records, which may find none either.
            told = messages(got)
            files = [line for line in told if "too few inodes" in line]
            records = [line for line in told if "/.scr/" in line and line not in files]
            assert len(files) <= 1 and len(records) <= 1, f"{inodes}: {got}"
            assert "failed" not in got.out and told == files + records, f"{inodes}: {got}"
            again = run(18, 5, 0)
            assert again.line("restart") == "restart 15", f"{inodes}: {got}\n{again}"
            assert again.line("checksum") == want.line("checksum"), f"{inodes}: {want}\n{again}"


@case
def file_that_the_cache_fails_to_write(mpi, program):
    """A write, an fsync or a close fails in the cache: the program does not hear of it, and the
    checkpoint is complete."""
    for call in ("write", "fsync", "close"):
        for code in (errno.EIO, errno.EROFS):
            fault = {"FAIL_CALL": call, "FAIL_PATH": "/step_15/rank_1.dat",
                     "FAIL_ERRNO": str(code)}
            got = careless_with(mpi, program, fault)
            assert "failed" not in got.out and len(messages(got)) <= 1, f"{call} {code}: {got}"
