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
def one_rank_removes_the_files_of_all_and_all_write_them_anew(mpi, program):
    for flush in ("0", "1"):
        same(mpi, program, 3, "cleanup", "rewrite", SCR_FLUSH=flush,
             SCR_CHECKPOINT_PATTERN="ckpt/step_0/rank_{rank}.dat")


@case
def one_rank_removes_the_checkpoints_of_all_at_the_end(mpi, program):
    same(mpi, program, 3, "cleanup", "end")


@case
def one_rank_points_a_directory_at_the_next_checkpoint(mpi, program):
    same(mpi, program, 2, "repoint")


@case
def old_checkpoints_go_and_a_link_points_to_the_newest(mpi, program):
    """Rank 0 finds the directory empty that the others have emptied; the link costs no caching: the
    last but one is not on the prefix."""
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        want = plain.run(3, "keeps_two", shim=False)
        got = shimmed.run(3, "keeps_two", SCR_LEARN="1",
                          SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/**, ckpt/latest")
        assert_same(want, got)
        assert os.readlink(shimmed.prefix / "ckpt/latest") == "step_6"
        newest = [path for path in plain.tree() if "/step_6/" in path]
        assert sorted(shimmed.tree("ckpt")) == newest, f"{sorted(shimmed.tree())}{got}"


@case
def directory_that_moves_away_and_comes_back(mpi, program):
    """With files that are cached, and older generations of them; then another takes its place."""
    pattern = {"SCR_CHECKPOINT_PATTERN": "save/rank_{rank}.dat", "SCR_FLUSH": "1"}
    for generations in (1, 3):
        with place(mpi, program) as plain, place(mpi, program) as shimmed:
            want = plain.run(2, "dir_back", generations, shim=False)
            got = shimmed.run(2, "dir_back", generations, **pattern)
            assert_same(want, got)
            seen = [(one.prefix / "seen").read_text() for one in (plain, shimmed)]
            assert seen[0] == seen[1], f"{seen[0]}\n--- under the shim\n{seen[1]}{got}"
            assert plain.tree("save") == shimmed.tree("save"), f"{shimmed.tree('save')}{got}"


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


@case
def what_was_removed_after_a_newer_checkpoint_was_complete_stays_removed(mpi, program):
    """The program is killed right after it has removed older ones, that the prefix has: of its own
    run, and of the one before."""
    for who in ("one", "each"):
        for before, written in ((0, 3), (3, 0)):
            with place(mpi, program) as here:
                calm = {"SCR_FLUSH": "1", "SCR_CACHE_SIZE": "1"}
                if before:
                    here.run(2, "steady", 15, 5, **calm)
                killed = here.run(2, "purge", written, who, **calm)
                seen = here.run(2, "scan", **calm)
                newest = "step_15" if before else "step_3"
                want = [f"{newest} rank_0.dat rank_1.dat"]
                assert seen.out.splitlines() == want, f"{who} {before}: {killed}\n{seen}"


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
def directories_that_get_their_name_when_all_have_written_are_cached(mpi, program):
    """From the first checkpoint on after the one that shows it, or, where it is watched who writes
    what, after one more; from the first of the next run."""
    with place(mpi, program) as plain:
        want = plain_levels(plain, 60, 10)
        newest = [path for path in plain.tree() if "/chk00060/" in path]
        for learn, uncached in (("0", ["chk00010"]), ("1", ["chk00010", "chk00020"])):
            with place(mpi, program) as here:
                got = finish(start_levels(here, 60, 10, SCR_LEARN=learn, **LEVELS))
                assert_same(want, got)
                assert checkpoints(here) == [*uncached, "chk00060"], f"{checkpoints(here)} {got}"
                assert got.err.count(" is sealed as ") == 6 - 1, f"{got}"
                found = here.tree()
                wrong = [path for path in newest if found.get(path) != plain.tree()[path]]
                count = 3 + 2 * NODES * ranks_on_node(mpi)
                assert len(newest) == count and not wrong, f"{wrong} {got}"
                shutil.rmtree(here.prefix / "ckpt")
                got = finish(start_levels(here, 60, 10, SCR_LEARN=learn, **LEVELS))
                assert_same(want, got)
                assert checkpoints(here) == ["chk00060"], f"{checkpoints(here)} {got}"


@case
def a_node_is_lost_after_a_directory_got_its_name(mpi, program):
    """The checkpoint was never on the prefix."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain_levels(plain, 60, 10)
        kill_at(here, 40, "calm")
        assert checkpoints(here) == ["chk00010"], f"{checkpoints(here)}"
        shutil.rmtree(here.nodes.node(1))
        here.nodes.node(1).mkdir()
        got = finish(start_levels(here, 60, 10, **LEVELS))
        assert got.line("restart") == "restart 40", f"{got}"
        assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"


@case
def killed_while_a_directory_gets_its_name(mpi, program):
    """Before, and right after: the restart finds the old checkpoint or the new one, whole."""
    with place(mpi, program) as plain:
        want = plain_levels(plain, 60, 10)
        for step, where, last in ((10, "renamed", 10), (20, "written", 10), (20, "renamed", 10),
                                  (40, "renamed", 30)):
            with place(mpi, program) as here:
                kill_at(here, step, where)
                got = finish(start_levels(here, 60, 10, **LEVELS))
                assert got.status == 0, f"{step} {where}: {got}"
                began = int(got.line("restart").split()[1])
                assert began in (last, step), f"{step} {where}: {got}"
                assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"


@case
def all_is_lost_while_a_directory_gets_its_name(mpi, program):
    """Nothing is left of the checkpoint: its name must not be, either."""
    with place(mpi, program) as here:
        kill_at(here, 20, "renamed")
        for number in (0, 1):
            shutil.rmtree(here.nodes.node(number))
            here.nodes.node(number).mkdir()
        got = finish(start_levels(here, 30, 10, **LEVELS))
        assert got.status == 0 and got.line("restart") == "restart 10", f"{got}"


@case
def a_directory_that_never_gets_its_name_is_no_checkpoint(mpi, program):
    """It is on the prefix as it would be without us, and nothing else waits for it: neither the
    next checkpoint nor, where it is the last, the end."""
    for steps in (60, 40):
        with place(mpi, program) as plain, place(mpi, program) as here:
            words = (steps, 10, 40, "none", "left")
            want = plain_levels(plain, *words)
            got = finish(start_levels(here, *words, **LEVELS))
            assert_same(want, got)
            last = "chk00060" if steps == 60 else "chk00030"
            there = sorted(["chk00010", "chk00040.temp", last])
            assert checkpoints(here) == there, f"{checkpoints(here)} {got}"
            wrong = {path for path, found in here.tree().items() if plain.tree()[path] != found}
            assert not wrong, f"{wrong} {got}"


@case
def a_directory_of_which_the_prefix_has_files_gets_its_name(mpi, program):
    """Because no pattern matches them: the others are there, too, when it gets its name, whoever is
    killed; a restart finds the old checkpoint or the new one, whole."""
    mixed = {**LEVELS, "SCR_CHECKPOINT_PATTERN": "ckpt/chk{id}/Level_*/*"}
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain_levels(plain, 60, 10)
        got = finish(start_levels(here, 60, 10, **mixed))
        assert_same(want, got)
        assert_same_files(plain, here, got)
        for step in (20, 40):
            with place(mpi, program) as here:
                kill_at(here, step, "renamed", **mixed)
                got = finish(start_levels(here, 60, 10, **mixed))
                began = ("restart %d" % (step - 10), "restart %d" % step)
                assert got.status == 0 and got.line("restart") in began, f"{step}: {got}"
                assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"


def kill_at(here, step, where, **settings):
    """Runs `levels` until rank 0 waits there, and kills all ranks at once."""
    pause = here.prefix / "pause"
    settings = {**LEVELS, **settings}
    run = start_levels(here, 60, 10, step, pause, where, **settings)
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
            assert "dataset" in got.err and "cannot be offered" in got.err, f"{got}"
            assert got.line("q0") == "q0: 0 of 4, 0 listed", f"learn {learn}: {got}"
            assert got.line("q1") == "q1: 4 of 4, 4 listed, step 7", f"learn {learn}: {got}"
