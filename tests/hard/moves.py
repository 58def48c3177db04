"""Checkpoints and their directories are renamed, removed, linked and pointed to: all ranks find
what they would find without the shim."""

import os

from support import assert_same, assert_same_files, lines, place, same

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
def links_and_renamed_directories(mpi, program):
    """What is cached reaches the prefix before it gets another name."""
    same(mpi, program, 1, "landing")
    same(mpi, program, 2, "landing", files=False, SCR_FLUSH="0")


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
                assert not got.err.strip(), f"not silent: {got}"


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
                assert not got.err.strip(), f"not silent: {got}"
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
                assert not got.err.strip(), f"not silent: {got}"


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
