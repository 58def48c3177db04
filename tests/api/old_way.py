"""Programs without the restart calls: between SCR_Init and their first SCR_Start_checkpoint they
read the files of their newest checkpoint, by the names that they have given to SCR_Route_file."""

import shutil

import calls
from calls import finish, index
from restarting import checkpoints, crash

CASES = []
SETTINGS = ("SCR_FLUSH_ON_RESTART", "SCR_GLOBAL_RESTART")
# The same names in two checkpoints: the newest is what is read.
SAME = checkpoints("a") + ["start", "write:ck/f%r:100", "complete:1", "start", "write:ck/f%r:200",
                           "complete:1"]
KEEP = {"SCR_CACHE_SIZE": "3"}
READ = ["read:ck/f%r", "read:a/f%r"]
GOES_ON = ["start", "write:ck/f%r:300", "complete:1", "have", "finalize"]


def case(function):
    CASES.append(function)
    return function


def reads_all(got, ranks=2):
    """What `SAME` has left, on every rank; and numbers go on."""
    for rank in range(ranks):
        assert got.of("read:ck/f%r")[rank] == (0, f"'ck/f{rank} of {rank}' 200"), got
        assert got.of("read:a/f%r")[rank] == (0, f"'a/f{rank} of {rank}' 1000"), got
    assert got.all("complete:1")[0] == 0 and got.all("have") == (0, "1 scr.dataset.4"), got


@case
def old_way_from_the_cache(here):
    """What only the cache has is on the prefix when SCR_Init returns; the same under the shim."""
    for setting in SETTINGS:
        for shim in (False, True):
            place = calls.Here(here.mpi, here.program)
            try:
                crash(place, 2, *SAME, shim=shim, **KEEP)
                assert not (place.prefix / "ck/f0").exists()
                got = place.says(2, "init", *READ, *GOES_ON, shim=shim, **KEEP,
                                 **{setting: "1"})
                reads_all(got)
                listed = index(place)
                assert " a " in listed and " scr.dataset.4 " in listed, f"{setting} {listed}"
            finally:
                place.remove()


@case
def old_way_under_the_shim(here):
    """It shows what the cache has, and needs no setting: as it was left, or with a node's part
    rebuilt."""
    crash(here, 2, *SAME, **KEEP)
    got = here.says(2, "init", *READ, *GOES_ON, shim=True, **KEEP)
    reads_all(got)
    place = calls.Here(here.mpi, here.program)
    try:
        on = {"SCR_COPY_TYPE": "XOR", "SCR_FLUSH": "0", **KEEP}
        lose_a_node(place, **on)
        got = finish(place.start_on_nodes(4, 1, "says", "init", *READ, *GOES_ON, shim=True, **on))
        assert got.status == 0, got
        reads_all(calls.Answers(got), 4)
    finally:
        place.remove()


def lose_a_node(place, **on):
    """A run of four nodes dies; the last of them loses all that it had."""
    got = finish(place.start_on_nodes(4, 1, "says", "init", *SAME, "barrier", "3@kill", "barrier",
                                      shim=False, **on))
    assert got.status != 0, got
    shutil.rmtree(place.nodes.node(3))
    place.nodes.node(3).mkdir()


@case
def old_way_with_a_lost_cache(here):
    """The prefix has what was flushed, and is read as it is."""
    crash(here, 2, *SAME, SCR_FLUSH="1")
    for setting in (*SETTINGS, "SCR_FETCH_BYPASS"):
        for shim in (False, True):
            shutil.rmtree(here.base)
            here.base.mkdir()
            got = here.says(2, "init", *READ, "finalize", shim=shim, **{setting: "1"}).good()
            for rank in (0, 1):
                assert got.of("read:ck/f%r")[rank] == (0, f"'ck/f{rank} of {rank}' 200"), got
                assert got.of("read:a/f%r")[rank] == (0, f"'a/f{rank} of {rank}' 1000"), got
    reads_all(here.says(2, "init", *READ, *GOES_ON))


@case
def old_way_with_a_lost_node(here):
    """XOR on four nodes: what is rebuilt is on the prefix, too, when SCR_Init returns."""
    for setting in SETTINGS:
        place = calls.Here(here.mpi, here.program)
        try:
            on = {"SCR_COPY_TYPE": "XOR", **KEEP}
            lose_a_node(place, **on)
            got = finish(place.start_on_nodes(4, 1, "says", "init", *READ, *GOES_ON, shim=False,
                                              **on, **{setting: "1"}))
            assert got.status == 0, got
            reads_all(calls.Answers(got), 4)
        finally:
            place.remove()
