"""The checkpoint directory is a symbolic link."""

import os
import pathlib
import shutil
import tempfile

from support import finish, kill_ranks_of, lines, place, wait_for

CASES = []
SCHEME = {"SCR_COPY_TYPE": "XOR", "SCR_FLUSH": "0"}


def case(function):
    CASES.append(function)
    return function


def link(here, inside):
    """Makes the link; returns where it leads: inside of the prefix, or on another file system."""
    far = here.prefix / "real" if inside else pathlib.Path(tempfile.mkdtemp(dir=here.base))
    far.mkdir(exist_ok=True)
    # A relative one and an absolute one.
    os.symlink("real" if inside else far, here.prefix / "ckpt")
    return far


def same_through_link(mpi, program, ranks, word, inside, settings):
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        link(plain, inside)
        want = plain.run(ranks, "linked", word, shim=False)
        far = link(shimmed, inside)
        got = shimmed.run(ranks, "linked", word, **settings)
        assert want.status == got.status == 0 and lines(want) == lines(got), f"{want}\n{got}"
        assert (shimmed.prefix / "ckpt").is_symlink(), f"{got}"
        assert plain.tree() == shimmed.tree(), f"{plain.tree()} {shimmed.tree()} {got}"
        assert sorted(os.listdir(far)) == [f"step_{step}" for step in range(1, 6)], f"{got}"
        return got


@case
def checkpoint_directory_behind_a_link(mpi, program):
    """Whichever way the program goes, the files are in the cache, and then where they belong."""
    for inside in (False, True):
        for learn in "01":
            got = same_through_link(mpi, program, 2, "found", inside,
                                    {"SCR_FLUSH": "1", "SCR_LEARN": learn, "SCR_DEBUG": "1"})
            for step in range(1, 6):
                assert f"checkpoint {step} is sealed" in got.err, f"{step}: {got}"
            assert "symbolic link" not in got.err, f"{got}"


@case
def node_lost_with_checkpoints_behind_a_link(mpi, program):
    for inside in (False, True):
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(2, "steady", 40, 5, shim=False)
            far, pause = link(here, inside), here.prefix / "pause"
            run = here.start_on_nodes(2, 1, "steady", 40, 5, 17, pause, **SCHEME)
            wait_for(pause.exists, run)
            # The ranks first: those of Open MPI outlive its launcher for a while and would go on.
            kill_ranks_of(here)
            finish(run)
            pause.unlink()
            files = [path for path in far.rglob("*") if path.is_file()]
            assert not files, f"not in the cache: {files}"
            shutil.rmtree(here.nodes.node(1))
            here.nodes.node(1).mkdir()
            got = here.run_on_nodes(2, "steady", 40, 5, **SCHEME)
            assert got.line("restart") == "restart 15" and "rebuilt by XOR" in got.err, f"{got}"
            assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"
            assert sorted(os.listdir(far / "step_40")) == ["rank_0.dat", "rank_1.dat"], f"{got}"
            for node in range(2):
                shutil.rmtree(here.nodes.node(node))
                here.nodes.node(node).mkdir()
            got = here.run_on_nodes(2, "steady", 40, 5, **SCHEME)
            assert got.line("restart") == "restart 40", f"not from the prefix: {got}"


@case
def link_that_is_not_followed_is_told(mpi, program):
    """One that the program makes or replaces itself; one that no pattern names."""
    for word, pattern in (("late", None), ("replaced", None), ("found", "*/step_{id}/*.dat")):
        settings = {"SCR_FLUSH": "1", "SCR_LEARN": "0"}
        settings.update({"SCR_CHECKPOINT_PATTERN": pattern} if pattern else {})
        with place(mpi, program) as plain, place(mpi, program) as shimmed:
            outcomes = []
            for here, shim in ((plain, False), (shimmed, True)):
                if word != "late":
                    link(here, False)
                other = pathlib.Path(tempfile.mkdtemp(dir=here.base))
                outcomes.append(here.run(2, "linked", word, other, shim=shim, **settings))
            want, got = outcomes
            assert (want.status, lines(want)) == (got.status, lines(got)), f"{want}\n{got}"
            assert plain.tree().keys() <= shimmed.tree().keys(), f"{shimmed.tree()} {got}"
            told = [line for line in got.err.splitlines() if "symbolic link" in line]
            words = ["replaces the symbolic link ckpt"] if word == "replaced" else \
                ["ckpt is a symbolic link to", "not protected", "before the run begins"]
            assert len(told) == 1 and all(it in told[0] for it in words), f"{word}: {got}"
