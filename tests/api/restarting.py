"""What a run may begin from: the cache after a crash, what a lost node had, the prefix."""

import os
import shutil
import signal

import calls
from calls import finish, index, wait_for

CASES = []
READ = ["have", "restart", "read:f%r", "complete_restart:1"]


def case(function):
    CASES.append(function)
    return function


def checkpoints(*names, flags=1, bytes=1000):
    words = ("output:{0}:{1}", "write:{0}/f%r:{2}", "complete_output:1")
    return [word.format(name, flags, bytes) for name in names for word in words]


def crash(here, ranks, *words, shim=False, **settings):
    """The last rank dies after these words."""
    got = here.run(ranks, "says", "init", *words, "barrier", f"{ranks - 1}@kill", "barrier",
                   shim=shim, **settings)
    assert got.status != 0, got
    return got


@case
def read_what_was_just_written(here):
    got = here.says(2, "init", *checkpoints("one"), *READ, *checkpoints("two"), *READ, "finalize")
    got.good()
    assert [got.all("have", at)[1] for at in (0, 1)] == ["1 one", "1 two"], got
    assert got.of("read:f%r", 1)[1] == (0, "'two/f1 of 1' 1000"), got


@case
def killed_and_restarted(here):
    """The newest is in the cache, was never flushed, and numbers go on."""
    crash(here, 2, *checkpoints("a", "b", "c"), "start", "write:half/f%r:10")
    got = here.says(2, "init", *READ, "start", "write:d/f%r:10", "complete:1", "have", "finalize")
    assert got.all("have") == (0, "1 c") and got.all("have", 1) == (0, "1 scr.dataset.4"), got
    assert got.of("read:f%r")[1] == (0, "'c/f1 of 1' 1000"), got
    assert " 4 " in index(here), index(here)


@case
def invalid_on_one_rank_offers_the_next_older(here):
    """From the cache to older ones there, then to the prefix; each is offered once, and by later
    runs only if the user says so."""
    crash(here, 2, *checkpoints("p", "q", "b", "c"), SCR_FLUSH="2", SCR_CACHE_SIZE="2")
    loop = ["have", "restart", "read:f%r", "complete_restart:v@1"]
    got = here.says(2, "init", *loop * 4, "have", "finalize", SCR_FLUSH="2", SCR_CACHE_SIZE="2")
    offered = [got.all("have", at)[1] for at in range(3)]
    assert offered[:2] == ["1 c", "1 b"], f"{offered} {got}"
    assert offered[2] == "1 q", f"{offered} {got}"
    assert got.all("have", 4) == (0, "0 -"), got
    crash(here, 2, "have")
    again = crash(here, 2, "have", SCR_CURRENT="c")
    assert "0 have 0 1 c" in again.out, again


@case
def from_the_prefix(here):
    """After a run that ended, with the cache gone; also without a copy in the cache."""
    here.says(2, "init", *checkpoints("a", "b", "c"), "finalize", SCR_FLUSH="1").good()
    got = here.says(2, "init", *READ, "route:f%r", "finalize")
    assert got.all("have") == (0, "1 c"), got
    assert got.of("read:f%r")[0] == (0, "'c/f0 of 0' 1000"), got
    bypass = here.says(2, "init", "have", "restart", "route:f%r", "complete_restart:v@0", "have",
                       "restart", "read:f%r", "complete_restart:1", "finalize",
                       SCR_FETCH_BYPASS="1")
    assert bypass.of("route:f%r")[1] == (0, f"{here.prefix}/c/f1"), bypass
    assert bypass.all("have", 1) == (0, "1 b"), bypass
    assert bypass.of("read:f%r")[1] == (0, "'b/f1 of 1' 1000"), bypass


@case
def finished_flush_of_a_program_that_died(here):
    """Threads had written it; the program never came to its next call."""
    crash(here, 2, *checkpoints("a"), SCR_FLUSH="1", SCR_FLUSH_ASYNC="1")
    got = here.says(2, "init", *READ, "finalize", SCR_FLUSH="1", SCR_FLUSH_ASYNC="1")
    assert got.all("have") == (0, "1 a"), got


@case
def another_number_of_ranks(here):
    """They find files by their names, whoever wrote them."""
    crash(here, 3, *checkpoints("a"), *checkpoints("b", flags=3))
    got = here.says(2, "init", "have", "restart", "read:f0", "read:f1", "read:f2", "read:b/f2",
                    "complete_restart:1", *checkpoints("c"), "have", "finalize")
    assert got.all("have") == (0, "1 b"), got
    for rank in range(3):
        assert got.all(f"read:f{rank}") == (0, f"'b/f{rank} of {rank}' 1000"), got
    assert got.all("read:b/f2")[0] == 0 and got.all("have", 1) == (0, "1 c"), got


@case
def current_drop_and_delete(here):
    here.says(2, "init", *checkpoints("a", "b", "c", "d"), "finalize", SCR_FLUSH="1").good()
    got = here.says(2, "init", "current:b", *READ, *checkpoints("e"), "have", "finalize",
                    SCR_FLUSH="1")
    assert got.all("have") == (0, "1 b") and got.all("have", 1) == (0, "1 e"), got
    assert got.of("read:f%r")[0] == (0, "'b/f0 of 0' 1000"), got
    last = here.says(2, "init", "drop:e", "have", "delete:d", "have", "delete:nothing", "finalize")
    assert last.all("drop:e")[0] == 0 and last.all("delete:d")[0] == 0, last
    assert last.all("delete:nothing")[0] == 1 and "no checkpoint nothing" in last.got.err, last
    # Whatever `scr index list` shows can be dropped: output, too.
    here.says(2, "init", "output:plot:2", "write:p%r:10", "complete_output:1", "drop:plot",
              "finalize").good()
    assert " plot " not in index(here) and (here.prefix / "p0").exists(), index(here)
    listed = index(here)
    assert " e " not in listed and " d " not in listed, listed
    assert (here.prefix / "e/f0").exists() and not (here.prefix / "d/f0").exists(), listed


@case
def chosen_by_the_user(here):
    """SCR_CURRENT names it."""
    here.says(2, "init", *checkpoints("a", "b"), "finalize", SCR_FLUSH="1").good()
    got = here.says(2, "init", *READ, "finalize", SCR_CURRENT="a")
    assert got.all("have") == (0, "1 a"), got
    assert got.of("read:f%r")[1] == (0, "'a/f1 of 1' 1000"), got


@case
def lost_node(here):
    """XOR on four nodes: what a lost one had is rebuilt before SCR_Init returns."""
    on = {"SCR_COPY_TYPE": "XOR", "shim": False}
    got = finish(here.start_on_nodes(4, 1, "says", "init", *checkpoints("a", "b"), "barrier",
                                     "3@kill", "barrier", **on))
    assert got.status != 0, got
    shutil.rmtree(here.nodes.node(3))
    here.nodes.node(3).mkdir()
    got = finish(here.start_on_nodes(4, 1, "says", "init", *READ, "finalize", **on))
    answers = calls.Answers(got)
    assert got.status == 0 and answers.all("have") == (0, "1 b"), got
    assert answers.of("read:f%r")[3] == (0, "'b/f3 of 3' 1000"), got
    assert "rebuilt by XOR: ranks 3" in got.err, got


@case
def heat_killed_and_restarted(here):
    """The example goes on from its cache, and comes to the same result."""
    steps = ["--steps", "40", "--every", "5"]
    want = here.run(2, "heat_scr", *steps, shim=False)
    assert want.status == 0 and "SCR:" not in want.err, want
    with_pause = calls.Here(here.mpi, here.program)
    try:
        pause = with_pause.prefix / "pause"
        run = with_pause.start(2, "heat_scr", *steps, "--pause", "step", "17", str(pause),
                               shim=False)
        wait_for(pause.exists, run)
        os.killpg(run.pid, signal.SIGKILL)
        finish(run)
        got = with_pause.run(2, "heat_scr", *steps, shim=False)
        assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"
        assert "going on from step 15" in got.out, got
    finally:
        with_pause.remove()
