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


@case
def what_no_agreement_comes_for_is_logged(mpi, program):
    """Files that are overdue; and at the next start a flush that a kill had interrupted."""
    with place(mpi, program) as here:
        go_file = here.prefix / "go"
        run = here.start(2, "no_collective", "ring", go_file, SCR_UNSEALED_SECONDS="1", **LOGGED)
        log = here.prefix / ".scr/log"
        told = lambda: log.exists() and log.read_text().count("event=PUBLISHED") >= 2
        hard().wait_for(told, run)
        go_file.touch()
        finish(run)
        why = "no agreement of the ranks was in sight"
        notes = [f"ckpt/step_{step}/rank_0.dat: {why}" for step in (5, 10)]
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
