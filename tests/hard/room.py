"""Stores that are too small, become too small, or go: the program's result is unharmed, and one
message says so."""

import os
import subprocess

import support
from settings import hard
from support import assert_same, assert_same_files, data_files, finish, messages, place

CASES = []
# For mounts that nobody else sees.
NAMESPACES = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
PATTERN = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/rank_{rank}.*"}


def case(function):
    CASES.append(function)
    return function


def all_ways(mpi):
    """What `filling` is told: MPICH's UCX writes jumps to functions of its own over the hooks of
    mmap, so that a mapping is not seen there."""
    return ["-mapping"] if mpi == "mpich" else []


def run_in_store(*arguments, **settings):
    return finish(start_in_store(*arguments, **settings))


def start_in_store(here, mib, ranks, name, *arguments, **settings):
    """Starts with a RAM disk of so many MiB as the store; `STORE` among the arguments is a file in
    it."""
    store = here.base / "small"
    store.mkdir()
    arguments = [str(store / "eaten") if word == "STORE" else word for word in arguments]
    mount = f'mount -t tmpfs -o size={mib}m,mode=700 none {store} && exec "$@"'
    alone = ["unshare", *NAMESPACES, "sh", "-c", mount, "sh"]
    command = alone + here.command(ranks, name, arguments)
    settings = {"SCR_FLUSH": "1", "SCR_CACHE_BASE": str(store), **PATTERN, **settings}
    return here.start(ranks, name, command=command, **settings)


def same_as_plain(mpi, program, mib, ranks, *arguments, **settings):
    """`filling` gives the same in a small store as without the shim."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(ranks, "filling", *["eaten" if a == "STORE" else a for a in arguments],
                         shim=False)
        assert want.status == 0, f"{want}"
        got = run_in_store(here, mib, ranks, "filling", *arguments, **settings)
        assert_same(want, got)
        assert_same_files(plain, here, got)
        return got


@case
def cache_that_fills_up_in_mid_write(mpi, program):
    """Every file of the first checkpoint begins in the cache and is larger than it."""
    got = same_as_plain(mpi, program, 3, 2, 2, 4096, 0, "none", *all_ways(mpi))
    told = messages(got)
    assert len(told) == 1 and "no room" in told[0], f"not exactly one message: {got}"


@case
def cache_that_fills_up_under_threads(mpi, program):
    """Of the threads that write one file one finds the cache full: what the others write while it
    moves is there, and no one gets an error."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(1, "filling_threads", 4, 16384, shim=False)
        got = run_in_store(here, 12, 1, "filling_threads", 4, 16384, SCR_LEARN="0")
        assert_same(want, got)
        assert_same_files(plain, here, got)
        told = messages(got)
        assert len(told) == 1 and "no room" in told[0], f"not exactly one message: {got}"


@case
def cache_that_fills_up_while_a_file_is_written_unseen(mpi, program):
    """What is written by the bare system call while the file moves is lost; that is told, and the
    checkpoint is none."""
    with place(mpi, program) as here:
        mark, ticks = here.prefix / "mark", here.prefix / "ticks"
        run = start_in_store(here, 12, 1, "filling_threads", 2, 16384, "unseen", SCR_LEARN="0",
                             SCR_TEST_PAUSE=f"move.copied:{mark}")
        hard().wait_for(mark.exists, run)
        before = ticks.stat().st_size
        hard().wait_for(lambda: ticks.stat().st_size >= before + 2, run)
        mark.with_name("mark.go").touch()
        got = finish(run)
        assert got.status == 0 and "what it wrote then is lost" in got.err, f"{got}"
        assert "checkpoint 1 is not valid and is given up" in got.err, f"{got}"


@case
def threads_change_one_file_by_several_descriptors(mpi, program):
    """In a cache with room, in one without room for what they change, and in one that has none left
    when a file is opened once more: that descriptor is on the same file as those before it."""
    for mib, how, learn in (200, "over", "1"), (3, "over", "0"), (5, "anew", "0"):
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(1, "threads_update", 5, 1920, how, shim=False)
            got = run_in_store(here, mib, 1, "threads_update", 5, 1920, how, SCR_LEARN=learn,
                               SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/**")
            assert_same(want, got)
            assert_same_files(plain, here, (mib, how, got))


@case
def cache_that_another_program_eats_up(mpi, program):
    """In the middle of every file, however it is written, the room that is left is taken."""
    got = same_as_plain(mpi, program, 40, 2, 1, 512, 1, "STORE", *all_ways(mpi))
    told = messages(got)
    assert len(told) == 1 and "no room" in told[0], f"not exactly one message: {got}"


@case
def cache_without_room_for_a_copy(mpi, program):
    """A sealed checkpoint is opened for update, and there is no room for the private copy that it
    has to have before its first change."""
    got = same_as_plain(mpi, program, 40, 2, 4, 512, 3, "STORE", "update", SCR_CACHE_SIZE="9")
    told = messages(got)
    # A file of the third checkpoint and the records of the second, which is sealed again: either
    # is told once, and which of them met the full store depends on when the seal was.
    files = [line for line in told if "no room for all of checkpoint 3" in line]
    records = [line for line in told if "No space left on device" in line
               and "checkpoint 2 (written 2 times)" in line]
    assert told and len(files) <= 1 and len(records) <= 1, f"not one message each: {got}"
    assert len(told) == len(files) + len(records), f"another message: {got}"


@case
def room_that_was_set_aside(mpi, program):
    """The size of a file is known from the checkpoint before and room is scarce: it is reserved
    when it is opened, so that a store that is eaten up meanwhile does not matter. What is
    not used is given back, or the third checkpoint would find no room. Nothing is set aside for the
    records: if there is no room for these, the checkpoint goes to the prefix, which is told."""
    got = same_as_plain(mpi, program, 8, 1, 6, 1024, 2, "STORE", "write", SCR_CACHE_SIZE="1")
    told = messages(got)
    records = all("/.scr/" in line and "No space left on device" in line for line in told)
    assert records and len(told) <= 1, f"not silent: {got}"


@case
def prefix_that_refuses_what_is_written_at_the_end(mpi, program):
    """From the first sealed checkpoint on nothing can be made in it. The program goes on with its
    files in the cache; what could not be flushed is told, stays, and the next run finds it."""
    prefix_that_refuses(mpi, program, SCR_FLUSH="0",
                        SCR_CHECKPOINT_PATTERN="ckpt/state_{rank}.dat")


@case
def prefix_that_refuses_every_flush(mpi, program):
    """The same with a flush of each checkpoint, and a file on the prefix that matches nothing."""
    prefix_that_refuses(mpi, program, SCR_FLUSH="1", SCR_CHECKPOINT_PATTERN="ckpt/state_0.dat")


def prefix_that_refuses(mpi, program, **settings):
    if os.geteuid() != 0:
        return  # only root can forbid it to root and to everybody alike
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(2, "in_place", 80, 5, 0, 20, shim=False)
        mark, go_file = here.prefix / "mark", here.prefix / "mark.go"
        # The run stands still where its first checkpoint is sealed, before any flush.
        run = here.start(2, "in_place", 80, 5, 0, 20, SCR_TEST_PAUSE=f"seal.committed:{mark}",
                         **settings)
        try:
            hard().wait_for(mark.exists, run)
            subprocess.run(["chattr", "+i", here.prefix / "ckpt"], check=True)
            go_file.touch()
            got = finish(run)
        finally:
            go_file.touch()
            subprocess.run(["chattr", "-i", here.prefix / "ckpt"], check=False)
        assert (got.status, got.out) == (want.status, want.out), f"{want}\n{got}"
        told = messages(got)
        assert len(told) == 1, f"not exactly one message: {got}"
        for words in (str(here.prefix), "could not be written", "stays in the cache"):
            assert words in told[0], f"{words}: {got}"
        again = here.run(2, "in_place", 80, 5, 0, 0, **settings)
        assert again.line("restart") == "restart 80", f"{got}\n{again}"
        assert data_files(plain.tree()) == data_files(here.tree()), f"files differ: {again}"


@case
def checkpoint_that_nothing_can_write(mpi, program):
    """A write or an fsync fails, in the cache and then on the prefix: the program hears of it, and
    that checkpoint is given up on every rank with one message. A restart has the one before it,
    whole; so has the PFS."""
    for call in ("write", "fsync"):
        with place(mpi, program) as plain, place(mpi, program) as shimmed:
            bad = {"FAIL_CALL": call, "FAIL_WORDS": "/step_15/rank_1.dat"}
            tool = program("failing_disk.so")
            want = plain.run(2, "careless", 17, 5, 0, shim=False, LD_PRELOAD=tool, **bad)
            got = shimmed.run(2, "careless", 17, 5, 17, LD_PRELOAD=f"{support.SHIM}:{tool}", **bad)
            line = "ckpt/step_15/rank_1.dat failed: Input/output error"
            assert want.line(line) and got.line(line), f"{want}\n{got}"
            told = [text for text in messages(got) if "checkpoint 15 is not valid" in text]
            assert len(told) == len(messages(got)) == 1 and "rank 1: " in told[0], f"{got}"
            want = plain.run(2, "careless", 18, 5, 0, shim=False)
            got = shimmed.run(2, "careless", 18, 5, 0)
            assert got.line("restart") == "restart 10", f"{call}: {got}"
            assert got.line("checksum") == want.line("checksum"), f"{call}: {want}\n{got}"


@case
def flush_by_threads_that_can_write_nothing(mpi, program):
    """One rank can write neither its file to the prefix nor that it cannot. The run ends all the
    same, and the next one has the checkpoint, since the cache stays."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(2, "steady", 20, 5, shim=False)
        bad = {"FAIL_CALL": "fsync", "FAIL_WORDS": "/.rank_1.dat.scr- /.failed.1.scr."}
        tool = f"{support.SHIM}:{program('failing_disk.so')}"
        settings = {"SCR_FLUSH": "2", "SCR_FLUSH_ASYNC": "1"}
        got = here.run(2, "steady", 20, 5, LD_PRELOAD=tool, **bad, **settings)
        assert (got.status, got.out) == (want.status, want.out), f"{want}\n{got}"
        assert any("stays in the cache" in line for line in messages(got)), f"{got}"
        again = here.run(2, "steady", 20, 5, **settings)
        assert again.line("restart") == "restart 20", f"{got}\n{again}"
        newest = "ckpt/step_20/rank_1.dat"
        assert here.tree()[newest] == plain.tree()[newest], f"{got}\n{again}"
