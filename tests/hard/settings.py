"""Settings that change what a run does: each case fails if its parameter is ignored."""

import os
import re
import shutil
import time

from logged import LOGGED, events, told
from support import data_files, finish, kill_ranks_of, place, told_but

CASES = []


def case(function):
    CASES.append(function)
    return function


def ends(here):
    """What the log has of why a run ended."""
    return events(here, "WITHHELD", "HALT", "EXIT", "END")


def datasets(here):
    """Names of the datasets that have a summary on the prefix."""
    return sorted(path.parent.name for path in here.prefix.glob(".scr/scr.dataset.*/summary.scr"))


def steps_on_prefix(here):
    return sorted({path.split("/")[1] for path in here.tree()})


def write_tree_file(here, path, pairs):
    """A hash file (000 section 3.4) with one value under each key; without a checksum."""
    def text(word):
        return word.encode() + b"\0"

    def tree(entries):
        packed = b"".join(text(key) + tree(below) for key, below in entries)
        return len(entries).to_bytes(4, "big") + packed

    body = tree([(key, [(str(value), [])]) for key, value in pairs])
    size = 20 + len(body)
    head = (0x951FC3F5).to_bytes(4, "big") + (1).to_bytes(2, "big") + (1).to_bytes(2, "big")
    target = here.prefix / ".scr" / path
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(head + size.to_bytes(8, "big") + (0).to_bytes(4, "big") + body)


@case
def switched_off_by_the_file(mpi, program):
    """SCR_ENABLE=0 in a config file: nothing is cached, made, or said."""
    with place(mpi, program) as here:
        (here.prefix / ".scrconf").write_text("SCR_ENABLE=0\n")
        got = here.run(2, "steady", 10, 5)
        assert got.status == 0 and not got.err and "step_10" in steps_on_prefix(here), f"{got}"
        made = [*os.listdir(here.base), *here.prefix.glob(".scr")]
        assert not made, f"{made} {got}"


@case
def learned_dataset_enters_the_index(mpi, program):
    """A dataset that never was in the cache is known at a restart like any other."""
    with place(mpi, program) as here:
        got = here.run(2, "steady", 20, 5, SCR_LEARN="1", SCR_FLUSH="0")
        assert "step_5" in steps_on_prefix(here), f"nothing was learned: {here.tree()} {got}"
        same = len(datasets(here)) == len(steps_on_prefix(here))
        assert same, f"{datasets(here)}, but {steps_on_prefix(here)} {got}"


@case
def halt_after_a_number_of_checkpoints(mpi, program):
    """CheckpointsLeft: every rank ends at the same sync point, the newest checkpoint is flushed."""
    with place(mpi, program) as here, place(mpi, program) as plain:
        want = plain.run(2, "steady", 800, 5, shim=False)
        write_tree_file(here, "halt.scr", [("CheckpointsLeft", 2)])
        got = here.run(2, "steady", 800, 5, SCR_FLUSH="0", SCR_HALT_STATUS="7")
        assert got.status == 7 and got.line("checksum") is None, f"{got}"
        assert got.err.count("SCR:") == 1 and "SCR_NO_CHECKPOINTS_LEFT" in got.err, f"{got}"
        assert steps_on_prefix(here), f"nothing was flushed: {got}"
        again = here.run(2, "steady", 800, 5, SCR_FLUSH="0")
        assert again.status == 0 and not again.line("restart").endswith(" 0"), f"{again}"
        assert again.line("checksum") == want.line("checksum"), f"{want}\n{again}"


@case
def halt_at_the_start(mpi, program):
    """A time that has passed ends the run before the program computes; without the wish, not."""
    with place(mpi, program) as here:
        end = str(int(time.time()) + 60)
        got = here.run(2, "steady", 20, 5, SCR_END_TIME=end, SCR_HALT_SECONDS="3600")
        assert got.status == 0 and got.out == "" and "SCR_EXIT_BEFORE" in got.err, f"{got}"
        went = here.run(2, "steady", 20, 5, SCR_END_TIME=end)
        assert went.line("checksum") and not went.err, f"{went}"
        write_tree_file(here, "halt.scr", [("ExitBefore", int(time.time()))])
        asked = here.run(2, "steady", 20, 5)
        assert asked.out == "" and "SCR_EXIT_BEFORE" in asked.err, f"{asked}"


@case
def halt_that_only_flushes(mpi, program):
    """SCR_HALT_EXIT=0: flushed and told of, and the program goes on to its end."""
    with place(mpi, program) as here:
        write_tree_file(here, "halt.scr", [("ExitReason", "maintenance")])
        got = here.run(2, "steady", 40, 5, SCR_FLUSH="0", SCR_HALT_EXIT="0")
        assert got.line("checksum") and got.err.count("maintenance") == 1, f"{got}"
        stopped = here.run(2, "steady", 80, 5)
        assert stopped.out == "" and "maintenance" in stopped.err, f"{stopped}"


@case
def output_leaves_the_cache_once_it_is_on_the_prefix(mpi, program):
    """Unless it is a checkpoint, too: then those are kept that a restart may need."""
    pattern = "ckpt/step_{id}/rank_{rank}.dat"
    for checkpoint, kept in ((None, []), (pattern, ["10", "15"])):
        with place(mpi, program) as here:
            pause = here.prefix / "pause"
            run = here.start(2, "steady", 40, 5, 17, pause, SCR_FLUSH="0",
                             SCR_OUTPUT_PATTERN=pattern, SCR_CHECKPOINT_PATTERN=checkpoint)
            hard().wait_for(pause.exists, run)
            cached = sorted({re.search(r"step_(\d+)", path).group(1) for path in here.cached()})
            assert cached == kept, f"{here.cached()}"
            assert steps_on_prefix(here) == ["step_10", "step_15", "step_5"], f"{here.tree()}"
            pause.unlink()
            got = finish(run)
            assert got.status == 0 and not got.err, f"{got}"


@case
def flush_in_the_background(mpi, program):
    """SCR_FLUSH_ASYNC: on the prefix, with its summary, while the program makes no MPI call; at the
    end the same files as without us."""
    with place(mpi, program) as here, place(mpi, program) as plain:
        want = plain.run(2, "steady", 40, 5, shim=False)
        pause = here.prefix / "pause"
        run = here.start(2, "steady", 40, 5, 17, pause, SCR_FLUSH="1", SCR_FLUSH_ASYNC="1")
        hard().wait_for(pause.exists, run)
        there = lambda: "step_15" in steps_on_prefix(here) and len(datasets(here)) == 3
        hard().wait_for(there, run)
        pause.unlink()
        got = finish(run)
        assert got.status == 0 and not got.err, f"{got}"
        assert got.line("checksum") == want.line("checksum"), f"{want}\n{got}"
        assert data_files(here.tree()) == data_files(plain.tree()), f"files differ: {got}"
        assert len(datasets(here)) == 8, f"{datasets(here)} {got}"


@case
def flush_in_the_background_goes_on_after_a_kill(mpi, program):
    """One that was under way at the kill goes on at the next start; nothing half is left."""
    with place(mpi, program) as here:
        pause = here.prefix / "pause"
        slow = {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1", "SCR_FLUSH_ASYNC_BW": "10"}
        hard().kill_at_pause(here, pause, **slow)
        assert not data_files(here.tree()) or not datasets(here), f"not slow: {here.tree()}"
        got = here.run(2, "steady", 40, 5, SCR_FLUSH="1", SCR_FLUSH_ASYNC="1")
        assert got.status == 0 and got.line("restart") == "restart 15", f"{got}"
        left = [str(path) for path in here.prefix.rglob("*.scr-*")]
        assert not left and not list(here.prefix.glob(".scr/journal/*")), f"{left} {got}"
        assert "step_15" in steps_on_prefix(here), f"{here.tree()} {got}"


@case
def marks_of_what_was_waited_for_are_settled_at_the_start(mpi, program):
    """Threads of an earlier launch had begun to publish a dataset; nobody goes on with that."""
    with place(mpi, program) as here:
        marks = here.prefix / ".scr/background/7"
        marks.mkdir(parents=True)
        (marks / "done.0.scr").write_bytes(b"cut short")
        got = here.run(2, "steady", 20, 5)
        assert not marks.exists() and not got.err, f"{here.tree('.scr')} {got}"


@case
def single_file_half_written(mpi, program):
    """A kill while a helper thread brings one file to the prefix: the next start removes it."""
    with place(mpi, program) as here:
        mark = here.prefix / "mark"
        run = here.start(2, "no_collective", here.prefix / "go", SCR_LEARN="0",
                         SCR_UNSEALED_SECONDS="1", SCR_TEST_PAUSE=f"file.staged:{mark}")
        hard().wait_for(mark.exists, run)
        staged = lambda: list(here.prefix.rglob(".*.scr-*"))
        assert staged() and list(here.prefix.glob(".scr/staged/*")), f"{here.tree()}"
        kill_ranks_of(here, "no_collective")
        finish(run)
        seen = here.run(2, "scan")
        left = staged() + list(here.prefix.glob(".scr/staged/*"))
        assert seen.status == 0 and not left, f"{left} {seen}"


@case
def prefix_window(mpi, program):
    """SCR_PREFIX_SIZE: only the newest checkpoints stay on the prefix; the index agrees."""
    with place(mpi, program) as here:
        got = here.run(2, "steady", 40, 5, SCR_FLUSH="1", SCR_PREFIX_SIZE="3")
        assert got.status == 0 and not got.err, f"{got}"
        assert steps_on_prefix(here) == ["step_30", "step_35", "step_40"], f"{here.tree()} {got}"
        assert len(datasets(here)) == 3, f"{datasets(here)}"


@case
def purges(mpi, program):
    """SCR_CACHE_PURGE and SCR_PREFIX_PURGE: the run begins anew, the old files are gone."""
    with place(mpi, program) as here:
        here.run(2, "steady", 20, 5, SCR_FLUSH="1")
        got = here.run(2, "steady", 10, 5, SCR_FLUSH="0", SCR_PREFIX_PURGE="1")
        assert got.line("restart") == "restart 0" and got.err.count("SCR:") == 1, f"{got}"
        assert not {"step_15", "step_20"} & set(steps_on_prefix(here)), f"{here.tree()}"
    with place(mpi, program) as here:
        kill_at_pause(here)
        got = here.run(2, "steady", 40, 5, SCR_FLUSH="0", SCR_CACHE_PURGE="1")
        assert got.line("restart") == "restart 0" and not got.err, f"{got}"


@case
def cache_of_another_launch(mpi, program):
    """It is left as it is, and the message says how to use it and how to be rid of it."""
    other = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*", "SCR_FLUSH": "0"}
    with place(mpi, program) as here:
        kill_at_pause(here)
        cached = here.cached()
        got = here.run(2, "scan", **other)
        said = [line for line in got.err.splitlines() if "SCR:" in line]
        assert len(said) == 1 and here.cached() == cached, f"{here.cached()} {got}"
        for word in ("belongs to another launch", "SCR_FLUSH_ON_RESTART", "SCR_CACHE_PURGE"):
            assert word in said[0], f"{word}: {got}"
        got = here.run(2, "scan", SCR_CACHE_PURGE="1", **other)
        told = told_but(got, "no checkpoint was protected: the program wrote no file")
        assert not told and not here.cached(), f"{here.cached()} {got}"


@case
def published_before_the_program_runs(mpi, program):
    """What only the cache has is on the prefix before the program goes on, if so wished."""
    for setting in ("SCR_FLUSH_ON_RESTART", "SCR_GLOBAL_RESTART", "SCR_DISTRIBUTE"):
        with place(mpi, program) as here:
            kill_at_pause(here)
            assert not data_files(here.tree()), f"{here.tree()}"
            value = {setting: "0" if setting == "SCR_DISTRIBUTE" else "1"}
            seen = here.run(2, "scan", SCR_DEBUG="1", **value)
            assert "15 is written to" in seen.err, f"{setting}: {seen}"
            kept = setting == "SCR_FLUSH_ON_RESTART"
            assert ("15 is in the cache" in seen.err) == kept, f"{setting}: {seen}"
            both = ["step_10", "step_15"]
            assert steps_on_prefix(here) == both, f"{setting}: {here.tree()} {seen}"
            got = here.run(2, "steady", 40, 5, **value)
            assert got.line("restart") == "restart 15", f"{setting}: {got}"


@case
def forgotten_after_current(mpi, program):
    """SCR_DROP_AFTER_CURRENT takes newer ones out of the index for good."""
    with place(mpi, program) as here:
        here.run(2, "steady", 20, 5, SCR_FLUSH="1")
        here.run(2, "scan", SCR_CURRENT="10")
        assert len(datasets(here)) == 4, f"{datasets(here)}"
        here.run(2, "scan", SCR_CURRENT="10", SCR_DROP_AFTER_CURRENT="1")
        assert len(datasets(here)) == 2, f"{datasets(here)}"


@case
def what_the_run_has_left_stays_hidden(mpi, program):
    """Taken back to an older checkpoint, it flushes others: those between do not come back."""
    with place(mpi, program) as here:
        here.run(2, "steady", 20, 5, SCR_FLUSH="1")
        back = here.run(2, "steady", 11, 1, SCR_FLUSH="1", SCR_CURRENT="10")
        assert back.line("restart") == "restart 10", f"{back}"
        seen = here.run(2, "scan")
        steps = [line.split()[0] for line in seen.out.splitlines()]
        assert steps == ["step_5", "step_10", "step_11"] and not seen.err, f"{seen}"


@case
def back_to_a_checkpoint_that_only_the_cache_has(mpi, program):
    """Nothing older is on the prefix: later starts begin there, too, before anything came to the
    prefix, after it came there itself, and after the next one did."""
    for then in ("killed", "ended", "went on"):
        with place(mpi, program) as here:
            kill_at_pause(here, SCR_FLUSH="3")
            assert steps_on_prefix(here) == ["step_15"], f"{here.tree()}"
            back = {"SCR_CURRENT": "10"}
            if then == "killed":
                for path in list(here.base.rglob("scr.dataset.3")):
                    shutil.rmtree(path)
                kill_at_pause(here, EVERY="30", SCR_FLUSH_ASYNC_BW="1", **back)
            elif then == "ended":
                here.run(2, "scan", **back)
            else:
                here.run(2, "steady", 11, 1, SCR_FLUSH="1", **back)
            seen = here.run(2, "scan")
            steps = [line.split()[0] for line in seen.out.splitlines()]
            newest = "step_11" if then == "went on" else "step_10"
            assert "step_15" not in steps and steps[-1] == newest, f"{then}: {seen}"


@case
def back_to_an_older_checkpoint_of_those_that_only_the_cache_has(mpi, program):
    """Killed before its first new checkpoint, the run does not come back to what it has left, with
    another number of ranks neither; the user can, and what follows comes back."""
    before = ["step_5", "step_10"]

    def seen(here, ranks=2, **settings):
        got = here.run(ranks, "scan", **settings)
        return [line.split()[0] for line in got.out.splitlines()], got

    for ranks in (2, 3):
        with place(mpi, program) as here:
            kill_at_pause(here)
            kill_at_pause(here, EVERY="30", SCR_CURRENT="10")
            steps, got = seen(here, ranks)
            assert steps and steps[-1] == "step_10" and "step_15" not in steps, f"{ranks}: {got}"
            assert "newer ones are hidden from the program: checkpoint.15." in got.err, f"{got}"
    with place(mpi, program) as here:
        kill_at_pause(here)
        kill_at_pause(here, EVERY="30", SCR_CURRENT="10")
        kill_at_pause(here, EVERY="30", SCR_CURRENT="checkpoint.15")
        steps, got = seen(here)
        assert steps == [*before, "step_15"] and "hidden" not in got.err, f"{got}"
    with place(mpi, program) as here:
        kill_at_pause(here)
        kill_at_pause(here, EVERY="30", SCR_CURRENT="10")
        kill_at_pause(here)  # It comes to a step 15 of its own.
        steps, got = seen(here)
        assert steps[-1] == "step_15" and "hidden" not in got.err, f"{got}"


@case
def a_lost_checkpoint_ends_the_run_if_so_wished(mpi, program):
    """SCR_RESTART_REQUIRED=1: not from an older checkpoint; without it from the older one."""
    with place(mpi, program) as here:
        here.run(2, "steady", 20, 5, SCR_FLUSH="1")
        (here.prefix / "ckpt/step_20/rank_0.dat").write_bytes(b"short")
        got = here.run(2, "steady", 40, 5, SCR_RESTART_REQUIRED="1")
        assert got.status != 0 and not got.line("restart"), f"{got}"
        assert "SCR_RESTART_REQUIRED" in got.err and "ckpt" in got.err, f"{got}"
        left = here.run(2, "scan", SCR_FETCH="0")
        assert "step_20" in left.out and not left.err, f"{left}"
        told = lambda seen: seen.err.count("SCR:") == 1 and "checkpoint.20" in seen.err
        for bypass in "01":  # The older one is current now, wherever it is read.
            again = here.run(2, "scan", SCR_FETCH_BYPASS=bypass)
            assert "step_20" not in again.out and told(again), f"{again}"
        went = here.run(2, "steady", 40, 5)
        assert went.status == 0 and went.line("restart") == "restart 15", f"{went}"


@case
def a_checkpoint_of_which_no_node_is_left_is_told_of(mpi, program):
    """Nobody has a record of it; the flush file on the prefix tells that it was complete."""
    with place(mpi, program) as here:
        known = here.prefix / ".scr/flush.scr"
        is_told = lambda: known.exists() and b"checkpoint.15\0" in known.read_bytes()
        hard().kill_at_pause(here, here.prefix / "pause", is_told)
        for path in here.base.iterdir():
            shutil.rmtree(path)
        ended = here.run(2, "steady", 40, 5, SCR_RESTART_REQUIRED="1", **LOGGED)
        assert ended.status != 0 and not ended.line("restart"), f"{ended}"
        assert "checkpoint.15" in ended.err and "SCR_RESTART_REQUIRED" in ended.err, f"{ended}"
        found = ends(here)
        assert [one.event for one in found] == ["WITHHELD", "HALT", "EXIT"], f"{found}"
        assert (found[0].id, found[0].name) == ("3", "checkpoint.15"), f"{found}"
        assert "no node" in found[0].note and "SCR_RESTART_REQUIRED" in found[1].note, f"{found}"
        went = here.run(2, "steady", 40, 5)
        assert went.status == 0 and went.line("restart") == "restart 0", f"{went}"
        assert went.err.count("SCR:") == 1 and "checkpoint.15" in went.err, f"{went}"
        seen = here.run(2, "scan")
        assert not seen.err, f"{seen}"


@case
def empty_directories_of_what_is_lost_go(mpi, program):
    """Also where the program reads the newest that is left on the prefix; others stay."""
    with place(mpi, program) as here:
        known = here.prefix / ".scr/flush.scr"
        there = lambda: ("step_10" in steps_on_prefix(here) and known.exists()
                         and b"checkpoint.15\0" in known.read_bytes())
        hard().kill_at_pause(here, here.prefix / "pause", there, SCR_FLUSH="2")
        for path in here.base.iterdir():
            shutil.rmtree(path)
        (here.prefix / "ckpt/other").mkdir()
        assert (here.prefix / "ckpt/step_15").is_dir()
        got = here.run(2, "scan", SCR_FETCH_BYPASS="1")
        assert got.err.count("SCR:") == 1 and "checkpoint.15 (dataset 3)" in got.err, f"{got}"
        assert f"goes on from checkpoint.10, which {here.prefix} has" in got.err, f"{got}"
        there = sorted(path.name for path in (here.prefix / "ckpt").iterdir())
        assert there == ["other", "step_10", "step_5"], f"{there}"


@case
def what_a_node_has_waits_until_the_node_is_back(mpi, program):
    """A launch without it cannot have the checkpoint, and ends well: the rest of it stays."""
    with place(mpi, program) as here:
        pause = here.prefix / "pause"
        hard().kill_at_pause(here, pause, on_nodes=True, SCR_COPY_TYPE="SINGLE")
        node, away = here.nodes.node(1), here.base / "away"
        node.rename(away)
        node.mkdir(mode=0o700)
        got = here.run_on_nodes(2, "scan")
        assert got.status == 0 and "step_15 " not in got.out, f"{got}"
        assert "no rank" not in got.err, f"{got}"
        # Both ranks on the other node: the message names the one that is left out.
        both = here.nodes.command([f"mpirun.{here.mpi}", "-n", "2"], [here.program("scan")])
        alone = here.nodes.wrapper.with_name("asnode0")
        alone.write_text(here.nodes.wrapper.read_text().replace("/ 1))", "/ 2))"))
        alone.chmod(0o755)
        both = [str(alone) if word == str(here.nodes.wrapper) else word for word in both]
        bases = {key: str(here.nodes.here) for key in ("SCR_CNTL_BASE", "SCR_CACHE_BASE")}
        for _ in range(2):
            got = finish(here.start(2, "scan", command=both, **bases))
            assert got.status == 0 and "step_15 " not in got.out, f"{got}"
            told = [line for line in got.err.splitlines() if "no rank" in line]
            assert len(told) == 1 and "checkpoint 15 (dataset 3)" in told[0], f"{got}"
            assert "rank 1 ran on node1, where this launch has no rank" in told[0], f"{got}"
        shutil.rmtree(node)
        away.rename(node)
        got = here.run_on_nodes(2, "scan")
        assert "step_15 rank_0.dat rank_1.dat" in got.out, f"{got}"


@case
def a_hanging_run_is_killed(mpi, program):
    """SCR_WATCHDOG: no checkpoint for that long; without it the run would wait for ever."""
    with place(mpi, program) as here:
        pause = here.prefix / "pause"
        got = here.run(2, "steady", 40, 5, 17, pause, SCR_WATCHDOG="1", SCR_WATCHDOG_TIMEOUT="10",
                       **LOGGED)
        assert got.status != 0 and "SCR_WATCHDOG" in got.err, f"{got}"
        why = "SCR_WATCHDOG_TIMEOUT: no checkpoint was completed for 10 s"
        assert told(ends(here)) == [("HALT", None, why), ("EXIT", None, None)], f"{got}"
        pause.unlink(missing_ok=True)
        again = here.run(2, "steady", 40, 5)
        assert again.status == 0 and again.line("restart") == "restart 15", f"{again}"


@case
def damage_in_the_cache_is_told_of(mpi, program):
    """SCR_CRC_ON_DELETE looks at what leaves the cache."""
    with place(mpi, program) as here:
        pause = here.prefix / "pause"
        run = here.start(2, "steady", 60, 5, 17, pause, SCR_FLUSH="0", SCR_CRC_ON_DELETE="1")
        hard().wait_for(pause.exists, run)
        damaged = [path for path in here.base.rglob("rank_1.dat") if "step_15" in str(path)]
        damaged[0].write_bytes(b"x" * damaged[0].stat().st_size)
        pause.unlink()
        got = finish(run)
        assert got.status == 0 and got.err.count("SCR:") == 1, f"{got}"
        assert "step_15/rank_1.dat" in got.err and "rank 1" in got.err, f"{got}"


def hard():
    """The runner, which has some of the same needs."""
    import hard as runner
    return runner


def kill_at_pause(here, **settings):
    """Leaves checkpoints in the cache only: `steady` is killed at step 17."""
    hard().kill_at_pause(here, here.prefix / "pause", **settings)
