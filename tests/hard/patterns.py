"""Patterns that are not what their writer meant: one message that names the pattern and says what
to do, and the program's own result is what it is without the shim."""

import re
import time

import nodes
from support import assert_same, assert_same_files, finish, place, same, told_but, wait_for

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def log_that_stays_open_by_stdio(mpi, program):
    """It is found, told once, and left alone: later checkpoints are sealed in time, and the next
    run knows it."""
    pattern = "ckpt/step_{id}/rank_{rank}.dat, ckpt/*.log"
    settings = {"SCR_CHECKPOINT_PATTERN": pattern, "SCR_DEBUG": "1", "SCR_FLUSH": "1"}
    with place(mpi, program) as plain, place(mpi, program) as here:
        for run in range(2):
            want = plain.run(2, "logs", 160, 20, shim=False)
            got = here.run(2, "logs", 160, 20, **settings)
            assert_same(want, got)
            assert_same_files(plain, here, got)
            told = [line for line in got.err.splitlines() if "never quiet" in line]
            if run == 0:
                assert len(told) == 1, f"not told once: {got}"
                for word in ("ckpt/run_", "SCR_CHECKPOINT_PATTERN", "SCR_IGNORE_PATTERN=ckpt/run_"):
                    assert word in told[0], f"no {word}: {got}"
            else:
                assert not told, f"told again: {got}"
            # Not all of them at the very end. The second run writes each once more.
            before = got.err.find("checkpoint 120 is on ")
            last = re.search("checkpoint 160 .*is sealed", got.err)
            assert last and 0 <= before < last.start(), f"{got}"


def busy_log(mpi, program, manner, ranks=2, meanwhile=None):
    """A log that a thread writes in that manner moves to the prefix while it is open. When its
    content is there, and its descriptor is not, the move waits until `meanwhile` is over."""
    settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/rank_{rank}.dat, ckpt/*.log"}
    with place(mpi, program) as here:
        mark = here.base / "copied"
        if meanwhile:
            settings["SCR_TEST_PAUSE"] = f"move.copied:{mark}"
        run = here.start(ranks, "busy_log", 160, 20, manner, **settings)
        if meanwhile:
            wait_for(mark.exists, run)
            meanwhile(here, run)
            (here.base / "copied.go").touch()
        got = finish(run)
        # MPICH's launcher mixes the lines of the ranks.
        assert got.out.count("moved") == ranks, f"{manner}: {got}"
        return got


@case
def log_that_a_thread_writes_while_it_moves_to_the_prefix(mpi, program):
    """What it writes meanwhile waits, and the move waits for what it is writing; nothing is lost
    between the old file and the new one."""
    for manner in ("lines", "stream", "piped"):
        got = busy_log(mpi, program, manner)
        assert got.out.count("whole") == 2, f"{manner}: {got}"


@case
def log_in_which_a_thread_seeks_while_it_moves_to_the_prefix(mpi, program):
    # The longer, the surer it is found without the wait; with it any time is right.
    got = busy_log(mpi, program, "counted", meanwhile=lambda *_: time.sleep(0.5))
    assert got.out.count("whole") == 2, f"{got}"


@case
def log_that_is_written_unseen_while_it_moves_to_the_prefix(mpi, program):
    """It is lost, which is told."""
    def two_lines(here, run):
        ticks = here.prefix / "ticks"
        before = ticks.stat().st_size if ticks.exists() else 0
        wait_for(lambda: ticks.exists() and ticks.stat().st_size >= before + 2, run)

    got = busy_log(mpi, program, "unseen", ranks=1, meanwhile=two_lines)
    assert "torn" in got.out and got.err.count("what it wrote then is lost") == 1, f"{got}"


@case
def ranks_that_change_a_file_in_place_though_none_was_to(mpi, program):
    """The rank that wrote what is complete has a private copy, the others write on the prefix. One
    after another they see what the others have changed; at the same time they do not: that is told,
    and the checkpoint is given up."""
    settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/state", "SCR_LEARN": "0"}
    for manner in ("baton", "back", "at-once", "anew"):
        with place(mpi, program) as here:
            got = here.run(2, "one_file_in_place", manner, **settings)
            assert got.status == 0 and got.line("complete") == "complete 1", f"{manner}: {got}"
            left = (here.prefix / "ckpt/state").read_text()
            told = told_but(got, "is written by several ranks")
            if manner in ("baton", "back") or (manner == "at-once" and not told):
                # (At the same time it may happen that nothing is lost: then nothing is told.)
                assert left == "changed." * 2 and not told, f"{manner}: {left}: {got}"
            else:
                assert len(told) == 1 and "no rank has all of it" in told[0], f"{manner}: {got}"


@case
def ranks_of_two_nodes_that_change_a_file_in_place_with_no_agreement(mpi, program):
    """The private copy of the one, and what the other one writes on the prefix. So it is told if
    the store is so full that the copy goes to the prefix, too, and replaces what is there."""
    settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/state", "SCR_LEARN": "0"}
    for store_mib in (None, 16):
        with place(mpi, program) as here:
            here.nodes = nodes.Nodes(here.base / "nodes", 2, 1, store_mib)
            eaten = [str(here.nodes.here / "eaten")] if store_mib else []
            got = here.run_on_nodes(2, "one_file_in_place", "unagreed", *eaten, **settings)
            assert got.status == 0 and got.line("complete") == "complete 1", f"{got}"
            told = [line for line in got.err.splitlines() if "no rank has all of it" in line]
            assert len(told) == 1 and "is given up" in told[0], f"{store_mib}: {got}"
            assert len(told_but(got, "is written by several ranks")) == 1, f"{store_mib}: {got}"


@case
def rank_that_is_stopped_while_it_changes_a_file_holds_up_nobody(mpi, program):
    """It has said what it is about to do, and is stopped before it does it: another rank of the
    node changes the same file, and others, and loses nothing."""
    settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/state", "SCR_CHECKPOINT_PATTERN_2": "ckpt/own.*",
                "SCR_LEARN": "0"}
    with place(mpi, program) as here:
        stopped, done = here.base / "stopped", here.base / "done"
        one = ["-n", "1"]
        run = [program("one_file_in_place"), "past", str(stopped), str(done)]
        pause = ["env", f"SCR_TEST_PAUSE=change.claimed:{stopped}"]
        command = [f"mpirun.{mpi}", *one, *pause, *run, ":", *one, *run]
        started = here.start(2, "one_file_in_place", command=command, **settings)
        wait_for(done.exists, started)
        stopped.with_name("stopped.go").touch()
        got = finish(started)
        assert got.status == 0 and got.line("complete") == "complete 1", f"{got}"
        left = (here.prefix / "ckpt/state").read_text()
        assert left == "changed." * 2, f"{left}: {got}"


@case
def rank_that_changes_a_file_while_another_one_brings_it_to_the_prefix(mpi, program):
    """It is done before the other one begins to write, which goes on with what it has left."""
    settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/state", "SCR_LEARN": "0"}
    with place(mpi, program) as here:
        stopped = here.base / "stopped"
        one = ["-n", "1"]
        run = [program("one_file_in_place"), "overtaking", str(stopped)]
        pause = ["env", f"SCR_TEST_PAUSE=file.staged:{stopped}"]
        command = [f"mpirun.{mpi}", *one, *run, ":", *one, *pause, *run]
        got = finish(here.start(2, "one_file_in_place", command=command, **settings))
        assert got.status == 0 and got.line("complete") == "complete 1", f"{got}"
        left = (here.prefix / "ckpt/state").read_text()
        told = told_but(got, "is written by several ranks")
        assert left == "changed." * 2 and not told, f"{left}: {got}"
