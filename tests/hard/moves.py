"""Checkpoints and their directories are renamed, removed, linked and pointed to: all ranks find
what they would find without the shim."""

import os
import select
import shutil
import signal
import stat

from support import (assert_same, assert_same_files, finish, lines, place, same, told_but,
                     wait_for)

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def one_rank_points_a_directory_at_the_next_checkpoint(mpi, program):
    same(mpi, program, 2, "repoint")


@case
def a_checkpoint_file_is_no_directory(mpi, program):
    """Nor for the kernel when it is in the cache."""
    for flush in ("0", "1"):
        same(mpi, program, 1, "below_file", SCR_FLUSH=flush)


@case
def listings_number_files_as_stat_does(mpi, program):
    for flush in ("0", "1"):
        for learn in "01":
            with place(mpi, program) as here:
                got = here.run_on_nodes(2, "numbers", SCR_FLUSH=flush, SCR_LEARN=learn,
                                        SCR_COPY_TYPE="XOR")
                assert got.status == 0 and not got.out.strip(), f"{got}"


@case
def links_and_renamed_directories(mpi, program):
    """What is cached reaches the prefix before it gets another name."""
    same(mpi, program, 1, "landing")
    same(mpi, program, 2, "landing", files=False, SCR_FLUSH="0")


@case
def a_deleted_file_makes_room_for_what_is_no_file(mpi, program):
    """Also one that waits for its real deletion, since its checkpoint is complete."""
    def kinds(top):
        every = sorted((top / "ckpt").rglob("*"))
        return [(str(one.relative_to(top)), stat.S_IFMT(one.lstat().st_mode)) for one in every]

    for words in ((), ("before",), ("between",), ("before", "between")):
        for learn in ("0", "1"):
            with place(mpi, program) as plain, place(mpi, program) as shimmed:
                want = plain.run(1, "becomes", *words, shim=False)
                got = shimmed.run(1, "becomes", *words, SCR_LEARN=learn, SCR_FLUSH="1",
                                  SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/**")
                assert_same(want, got)
                assert kinds(plain.prefix) == kinds(shimmed.prefix), f"{words} {learn} {got}"


@case
def renamed_by_rank_0_with_files_of_another_node(mpi, program):
    """Directories that it rotates, single files, links: while learning and from then on."""
    pattern = {"SCR_CHECKPOINT_PATTERN": "qnow/c{rank}", "SCR_CHECKPOINT_PATTERN_2": "p{id}/*"}
    with place(mpi, program) as plain:
        want = plain.run(2, "rotate", 4, shim=False)
        for learn in ("0", "1"):
            with place(mpi, program) as shimmed:
                got = shimmed.run_on_nodes(2, "rotate", 4, SCR_LEARN=learn, **pattern)
                assert got.status == 0 and lines(got) == lines(want), f"{want}\n{got}"
                told = told_but(got, "is read by ranks of other nodes in mid-run")
                assert not told, f"not silent: {got}"


@case
def files_of_other_nodes_are_seen_before_their_checkpoint_is_sealed(mpi, program):
    """Found, listed, read and deleted by rank 0 after the barrier that follows their writing, in
    checkpoints of which other nodes' files were never looked at before."""
    seen_by_rank_0(mpi, program, "ckpt/step_{id}/**")


@case
def a_directory_moves_with_files_of_other_nodes_that_are_not_sealed(mpi, program):
    """Both names match, or the last one only."""
    for pattern in ("ckpt/step_{id}.new/**, ckpt/step_{id}/**", "ckpt/step_{id}/**"):
        seen_by_rank_0(mpi, program, pattern, "move")


def seen_by_rank_0(mpi, program, pattern, *moves):
    with place(mpi, program) as plain:
        want = plain.run(2, "phases", 5, 3, *moves, shim=False)
        for learn in ("0", "1"):
            with place(mpi, program) as shimmed:
                got = shimmed.run_on_nodes(2, "phases", 5, 3, *moves, SCR_LEARN=learn,
                                           SCR_CHECKPOINT_PATTERN=pattern, SCR_FLUSH="1")
                assert got.status == 0 and lines(got) == lines(want), f"{want}\n{got}"
                told = told_but(got, "is read by ranks of other nodes in mid-run")
                assert not told, f"not silent: {got}"
                assert_same_files(plain, shimmed, got)


@case
def the_newest_of_two_files_in_turn_is_found_on_another_node(mpi, program):
    """Never looked at before: not an older one, and nothing that was deleted."""
    pattern = {"SCR_CHECKPOINT_PATTERN": "state.cpt, state_prev.cpt"}
    with place(mpi, program) as plain:
        want = plain.run(2, "keeps_previous", 9, 4, shim=False)
        for learn in ("0", "1"):
            with place(mpi, program) as shimmed:
                got = shimmed.run_on_nodes(2, "keeps_previous", 9, 4, SCR_LEARN=learn, **pattern)
                assert_same(want, got)
                told = told_but(got, "is read by ranks of other nodes in mid-run")
                assert not told, f"not silent: {got}"


LEVELS = {"SCR_CHECKPOINT_PATTERN": "ckpt/chk{id}/**", "SCR_FLUSH": "0", "SCR_DEBUG": "1",
          "SCR_COPY_TYPE": "PARTNER"}


NODES = 2


def ranks_on_node(mpi):
    """Open MPI's, of which there are more than cores, let one another run; MPICH's spin."""
    return 1 if mpi == "mpich" else 2


def start_levels(here, *words, **settings):
    return here.start_on_nodes(NODES, ranks_on_node(here.mpi), "levels", *words, **settings)


def plain_levels(plain, *words):
    return plain.run(NODES * ranks_on_node(plain.mpi), "levels", *words, shim=False)


def checkpoints(here):
    """The checkpoints of which the prefix has files, by their directories."""
    return sorted({path.split("/")[1] for path in here.tree()})


@case
def a_node_is_lost_after_a_directory_got_its_name(mpi, program):
    """The checkpoint was never on the prefix."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain_levels(plain, 60, 10)
        kill_at(here, 40)
        assert checkpoints(here) == ["chk00010"], f"{checkpoints(here)}"
        shutil.rmtree(here.nodes.node(1))
        here.nodes.node(1).mkdir()
        got = finish(start_levels(here, 60, 10, **LEVELS))
        assert got.line("restart") == "restart 40", f"{got}"
        assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"


def kill_at(here, step):
    """Runs `levels` until rank 0 waits there, and kills all ranks at once."""
    pause = here.prefix / "pause"
    run = start_levels(here, 60, 10, step, pause, **LEVELS)
    wait_for(pause.exists, run)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        end_rank(int(pid), here)
    pause.unlink()


def end_rank(pid, here):
    """Ends the process if it is a rank of that place; it is gone afterwards."""
    try:
        if os.readlink(f"/proc/{pid}/cwd") != str(here.prefix):
            return
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [])
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


@case
def checkpoint_that_the_prefix_has_a_part_of(mpi, program):
    """Directories move on, so that files of the newest checkpoint are on the prefix on their own;
    a node is lost before that checkpoint is known to be complete: none of it is seen."""
    for learn in "01":
        settings = {"SCR_CHECKPOINT_PATTERN": "q{id}/c{rank}", "SCR_LEARN": learn,
                    "SCR_FLUSH": "0", "SCR_COPY_TYPE": "XOR", "SCR_SET_SIZE": "4"}
        with place(mpi, program) as here:
            here.run_on_nodes(4, "rotate_dirs", "run", **settings)
            shutil.rmtree(here.nodes.node(2))
            here.nodes.node(2).mkdir()
            got = here.run_on_nodes(4, "rotate_dirs", "look", **settings)
            assert got.status == 0, f"{got}"
            # All of the last one, if it was left alone for long enough before rank 0 died.
            whole = got.line("q0") == "q0: 4 of 4, 4 listed, step 8"
            assert whole or got.line("q0") == "q0: 0 of 4, 0 listed", f"learn {learn}: {got}"
            # A word on q1 may come beside it: its files are on the prefix, its record is in doubt.
            newest = [line for line in got.err.splitlines() if "SCR: checkpoint 0" in line]
            assert whole != any("cannot be offered" in line for line in newest), f"{got}"
            assert got.line("q1") == "q1: 4 of 4, 4 listed, step 7", f"learn {learn}: {got}"


@case
def what_a_rank_does_to_names_is_one_step_for_the_others(mpi, program):
    """They look all the time: at files and directories that it renames, on the prefix and in the
    cache, before and after the seal; a name that it gives to one file after the other leads to one
    always; of all that rename one file, one succeeds."""
    for what in ("file", "out", "dir", "final", "replace", "contend"):
        for learn in "01":
            with place(mpi, program) as here:
                settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*", "SCR_LEARN": learn}
                calm = 3 if what == "contend" else 3 * int(learn)
                got = here.run(3, "one_step", what, 4, calm, **settings)
                seen = (got.status, got.out.strip())
                assert seen == (0, "neither 0 both 0 stale 0"), f"{what} {learn}: {got}"
                assert not told_but(got), f"not silent: {what} {learn}: {got}"
