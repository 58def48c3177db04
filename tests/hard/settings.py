"""Settings that change what a run does: each case fails if its parameter is ignored."""

from logged import LOGGED, events, told
from support import data_files, finish, kill_ranks_of, place

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
    """A hash file (manual 1.1, section 3.4) with one value under each key; without a checksum."""
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
def single_file_half_written(mpi, program):
    """A kill while a helper thread brings one file to the prefix: the next start removes it."""
    with place(mpi, program) as here:
        mark = here.prefix / "mark"
        run = here.start(2, "no_collective", "ring", here.prefix / "go", SCR_LEARN="0",
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


def hard():
    """The runner, which has some of the same needs."""
    import hard as runner
    return runner


def kill_at_pause(here, **settings):
    """Leaves checkpoints in the cache only: `steady` is killed at step 17."""
    hard().kill_at_pause(here, here.prefix / "pause", **settings)
