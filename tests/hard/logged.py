"""The log of events: one for each thing that happens, and for nothing else."""

import collections
import re

from support import finish, kill_ranks_of, place

CASES = []
LOGGED = {"SCR_LOG_ENABLE": "1"}
FIELDS = re.compile(r'event=(\w+)(?:, dset=(\d+), name="([^"]*)")?(?:, secs=([\d.]+))?'
                    r'(?:, files=(\d+), bytes=(\d+))?(?:, note="(.*)")?$')


def case(function):
    CASES.append(function)
    return function


def hard():
    """What this module and hard.py share lives there."""
    import __main__
    return __main__


class Logged(collections.namedtuple("Logged", "event id name seconds files bytes note")):
    """A line of the log."""


def events(here, *wanted):
    """The log's events, or those that are wanted; the log begins anew."""
    path = here.prefix / ".scr/log"
    found = [Logged(*FIELDS.search(line).groups()) for line in path.read_text().splitlines()]
    path.unlink()
    return [one for one in found if not wanted or one.event in wanted]


def told(found):
    return [(one.event, one.id, one.note) for one in found]


def take_turns(phases):
    """Whether the program computes just while it writes nothing. The second checkpoint may begin
    before it is known that the first was complete."""
    computes, writes = False, set()
    for one in phases:
        if one.event == "COMPUTE_BEGIN" and not computes and not writes:
            computes = True
        elif one.event == "COMPUTE_END" and computes:
            computes = False
        elif one.event == "CHECKPOINT_BEGIN" and not computes and one.name not in writes:
            writes.add(one.name)
        elif one.event == "CHECKPOINT_END" and one.name in writes:
            writes.remove(one.name)
        else:
            return False
    return not computes and not writes


@case
def phases_and_the_window_are_logged(mpi, program):
    """Computing and writing take turns; what leaves the prefix is named."""
    for flush in ({}, {"SCR_FLUSH_ASYNC": "1", "SCR_CACHE_SIZE": "4"}):
        with place(mpi, program) as here:
            window = {"SCR_FLUSH": "1", "SCR_PREFIX_SIZE": "3", **LOGGED}
            got = here.run(2, "steady", 20, 5, **window, **flush)
            assert got.status == 0 and not got.err, f"{got}"
            found = events(here)
            text = "\n".join(map(str, found))
            phases = [one for one in found if one.event.split("_")[0] in ("COMPUTE", "CHECKPOINT")]
            ends = [one for one in phases if one.event == "CHECKPOINT_END"]
            assert [one.id for one in ends] == ["1", "2", "3", "4"], text
            assert take_turns(phases), text
            timed = [one for one in phases if one.event.endswith("END")]
            assert all(0 < float(one.seconds) < 60 for one in timed), text
            seals = [float(one.seconds) for one in found if one.event == "SEALED"]
            assert all(float(end.seconds) > seal for end, seal in zip(ends, seals)), text
            first = [one.event for one in found[:3]]
            assert first == ["START", "STARTED", "COMPUTE_BEGIN"] and found[1].seconds, text
            gone = [one for one in found if one.event == "DELETED"]
            assert [(one.id, one.name) for one in gone] == [("1", "checkpoint 5")], text
            assert "SCR_PREFIX_SIZE" in gone[0].note, text


@case
def what_a_start_does_is_logged(mpi, program):
    """A cache that is taken over or cleared, what goes to the prefix before the program runs, a
    prefix that is purged."""
    with place(mpi, program) as here:
        hard().kill_at_pause(here, here.prefix / "pause")
        here.run(3, "scan", **LOGGED)
        note = "the cache of a run with 2 ranks"
        found = events(here, "TAKEOVER", "PUBLISHED", "WITHHELD")
        assert [one.event for one in found][:2] == ["TAKEOVER", "PUBLISHED"], f"{found}"
        assert found[0].note == note and found[0].seconds, f"{found}"
        assert (found[-1].name, found[-1].note) == ("checkpoint 15", f"from {note}"), f"{found}"
        here.run(2, "scan", SCR_PREFIX_PURGE="1", **LOGGED)
        gone = [("DELETED", one.id, "SCR_PREFIX_PURGE=1") for one in reversed(found[1:])]
        assert told(events(here, "DELETED")) == gone, f"{found}"
    with place(mpi, program) as here:
        hard().kill_at_pause(here, here.prefix / "pause")
        here.run(3, "scan", SCR_PREFIX_SIZE="1", **LOGGED)
        found = events(here, "PUBLISHED", "DELETED")
        come = [one.id for one in found if one.event == "PUBLISHED"]
        gone = [one for one in found if one.event == "DELETED"]
        assert len(come) > 1 and [one.id for one in gone] == come[:-1], f"{found}"
        assert all("SCR_PREFIX_SIZE" in one.note for one in gone), f"{found}"
    with place(mpi, program) as here:
        hard().kill_at_pause(here, here.prefix / "pause")
        here.run(2, "scan", SCR_GLOBAL_RESTART="1", **LOGGED)
        found = events(here, "FLUSH_BEGIN", "FLUSH_END", "CLEARED")
        order = [one.event for one in found]
        assert order == [*["FLUSH_BEGIN", "FLUSH_END"] * 2, "CLEARED"], f"{found}"
        assert [one.id for one in found] == ["2", "2", "3", "3", None], f"{found}"
        here.run(2, "scan", SCR_CACHE_PURGE="1", **LOGGED)
        cleared = [("CLEARED", None, "the cache (SCR_CACHE_PURGE=1)"),
                   ("CLEARED", None, "the cache: the end of the run")]
        assert told(events(here, "CLEARED")) == cleared


@case
def the_end_and_what_the_index_forgets_are_logged(mpi, program):
    """The cache is cleared once all is on the prefix; what SCR_DROP_AFTER_CURRENT drops is told."""
    with place(mpi, program) as here:
        here.run(2, "steady", 20, 5, SCR_FLUSH="1", **LOGGED)
        found = events(here, "CLEARED", "END")
        assert told(found) == [("CLEARED", None, "the cache: the end of the run"),
                               ("END", None, None)], f"{found}"
        here.run(2, "scan", SCR_CURRENT="10", SCR_DROP_AFTER_CURRENT="1", **LOGGED)
        found = events(here, "FORGOTTEN", "DELETED")
        names = [(one.event, one.id, one.name) for one in found]
        assert names == [("FORGOTTEN", "4", "checkpoint 20"),
                         ("FORGOTTEN", "3", "checkpoint 15")], f"{found}"


@case
def what_no_agreement_comes_for_is_logged(mpi, program):
    """Files that are overdue; and at the next start a flush that a kill had interrupted."""
    with place(mpi, program) as here:
        go_file = here.prefix / "go"
        run = here.start(2, "no_collective", go_file, SCR_UNSEALED_SECONDS="1", **LOGGED)
        log = here.prefix / ".scr/log"
        told = lambda: log.exists() and log.read_text().count("event=PUBLISHED") >= 4
        hard().wait_for(told, run)
        go_file.touch()
        finish(run)
        why = "no blocking collective of all ranks was in sight"
        notes = [f"ckpt/step_{step}/rank_0.dat: {why}" for step in (5, 10, 15, 20)]
        found = events(here, "PUBLISHED")
        assert [one.note for one in found] == notes and int(found[0].bytes) > 0, f"{found}"
    with place(mpi, program) as here:
        mark = here.prefix / "mark"
        # One checkpoint, or a second one may be sealed before the first is flushed.
        run = here.start(2, "steady", 5, 5, SCR_FLUSH="1", SCR_TEST_PAUSE=f"flush.publish:{mark}")
        hard().wait_for(mark.exists, run)
        kill_ranks_of(here)
        finish(run)
        here.run(2, "scan", **LOGGED)
        found = events(here, "FLUSH_END")
        assert [(one.id, one.name) for one in found] == [("1", "checkpoint 5")], f"{found}"
        assert "earlier launch" in found[0].note, f"{found}"
