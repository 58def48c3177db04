"""Programs without ids that keep their last checkpoints under names that move."""

import shutil

from support import finish, kill_ranks_of, lines, messages, place, wait_for

CASES = []
STEPS = 8


def case(function):
    CASES.append(function)
    return function


@case
def the_newest_of_checkpoints_whose_names_move_survives_its_node(mpi, program):
    """All names are those of one moment, however many there are and however they are written."""
    for names, how, learn in ((3, "over", "1"), (3, "aside", "0"), (2, "aside", "1"),
                              (4, "over", "0"), (2, "copied", "1"), (3, "copied", "0")):
        pattern = ", ".join(["s.{rank}", *(f"s.{{rank}}.{older}" for older in range(1, names))])
        settings = {"SCR_CHECKPOINT_PATTERN": pattern, "SCR_COPY_TYPE": "PARTNER",
                    "SCR_LEARN": learn, "SCR_FLUSH": "0"}
        with place(mpi, program) as here:
            killed = here.run_on_nodes(2, "generations", names, STEPS, how, **settings)
            kept = list((here.base / "nodes").glob("node0/*/scr.*/scr.dataset.*"))
            # What the program takes files away from is of no use any more.
            assert len(kept) == (2 if how == "copied" else 1), f"{names} {how}: {kept}\n{killed}"
            lost = here.nodes.node(1)
            shutil.rmtree(lost)
            lost.mkdir(mode=0o700)
            got = here.run_on_nodes(2, "generations", names, 0, **settings)
            found = " ".join(str(STEPS - older) for older in range(names))
            want = [f"rank {rank}: {found}" for rank in range(2)]
            assert lines(got) == want, f"{names} {how}: {killed}\n{got}"


@case
def checkpoints_of_an_earlier_run_that_are_moved_do_not_keep_new_ones_from_the_cache(mpi, program):
    """The prefix has `s` and `s.1` of a run without the shim; the first doing is a rename."""
    for names, how, learn in ((2, "over", "0"), (3, "aside", "1")):
        pattern = ", ".join(["s.{rank}", *(f"s.{{rank}}.{older}" for older in range(1, names))])
        settings = {"SCR_CHECKPOINT_PATTERN": pattern, "SCR_COPY_TYPE": "PARTNER",
                    "SCR_LEARN": learn, "SCR_FLUSH": "0"}
        with place(mpi, program) as here:
            for rank in range(2):
                (here.prefix / f"s.{rank}").write_text("101\n")
                for older in range(1, names):
                    (here.prefix / f"s.{rank}.{older}").write_text(f"{101 - older}\n")
            killed = here.run_on_nodes(2, "generations", names, STEPS, how, **settings)
            there = [path.read_text() for path in here.prefix.glob("s.*")]
            assert f"{STEPS}\n" not in there, f"{names} {how}: {there}\n{killed}"
            lost = here.nodes.node(1)
            shutil.rmtree(lost)
            lost.mkdir(mode=0o700)
            got = here.run_on_nodes(2, "generations", names, 0, **settings)
            found = " ".join(str(STEPS - older) for older in range(names))
            want = [f"rank {rank}: {found}" for rank in range(2)]
            assert lines(got) == want, f"{names} {how}: {killed}\n{got}"


@case
def of_checkpoints_in_the_cache_alone_the_prefix_does_not_say_that_it_has_them(mpi, program):
    """When all caches are lost, that is told, and the prefix has files of one moment or none."""
    settings = {"SCR_CHECKPOINT_PATTERN": "s.{rank}, s.{rank}.1", "SCR_COPY_TYPE": "PARTNER",
                "SCR_FLUSH": "0", "SCR_RESTART_REQUIRED": "1"}
    for learn, found in (("0", "0 0"), ("1", "1 0")):
        with place(mpi, program) as here:
            killed = here.run_on_nodes(2, "generations", 2, STEPS, SCR_LEARN=learn, **settings)
            for node in range(2):
                shutil.rmtree(here.nodes.node(node))
                here.nodes.node(node).mkdir(mode=0o700)
            got = here.run_on_nodes(2, "generations", 2, 0, SCR_LEARN=learn, **settings)
            assert got.status != 0 and "rank" not in got.out, f"{learn}: {killed}\n{got}"
            assert "cannot be had again" in got.err, f"{learn}: {killed}\n{got}"
            anyway = {**settings, "SCR_RESTART_REQUIRED": "0"}
            got = here.run_on_nodes(2, "generations", 2, 0, SCR_LEARN=learn, **anyway)
            want = [f"rank {rank}: {found}" for rank in range(2)]
            assert lines(got) == want, f"{learn}: {killed}\n{got}"


@case
def a_file_that_is_changed_in_place_on_the_prefix_stays_in_sight(mpi, program):
    """It came to the prefix with the first checkpoint, and only newer ones are in the cache. What
    the program has done to it since is no damage."""
    settings = {"SCR_CHECKPOINT_PATTERN": "state_{rank}, side_{rank}", "SCR_FLUSH": "0"}
    with place(mpi, program) as here:
        killed = here.run(2, "rarely", STEPS, **settings)
        assert (here.prefix / "side_0").read_text().endswith(f" {STEPS}\n"), f"{killed}"
        assert not (here.prefix / "state_0").read_text().endswith(f" {STEPS - 1}\n"), f"{killed}"
        got = here.run(2, "rarely", 0, **settings)
        want = [f"rank {rank}: {name} of checkpoint {number:4}" for rank in range(2)
                for name, number in (("side", STEPS), ("state", STEPS - 1))]
        assert lines(got) == want and "hidden" not in got.err, f"{killed}\n{got}"


@case
def rewritten_every_few_milliseconds_by_the_default_open_of_fortran(mpi, program):
    """It cuts no file short, and settles at no moment: it is cached all the same, while the run
    lasts, and comes back whole."""
    for learn in ("1", "0"):
        settings = {"SCR_CHECKPOINT_PATTERN": "state.{rank}", "SCR_LEARN": learn, "SCR_FLUSH": "0"}
        with place(mpi, program) as here:
            run = here.start(2, "default_open", 4000, 5, **settings)
            wait_for(lambda: len(list(here.base.rglob("scr.dataset.*/state.?"))) >= 2, run)
            kill_ranks_of(here, "default_open")
            killed = finish(run)
            assert not messages(killed), f"{killed}"
            got = here.run(2, "default_open", 0, 5, **settings)
            found = [int(line.split()[-1]) for line in lines(got)]
            assert len(set(found)) == 1 and found[0] > int(learn), f"{learn}: {got}"
