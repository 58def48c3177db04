"""Several simulations in one job on the same node, at the same time and one after another: each is
killed, and finds its own checkpoints again; no command sees those of another."""

import contextlib
import shutil

from afresh import SCR, begins, tool
from support import finish, kill_ranks_of, messages, place, wait_for

CASES = []
STEPS = 60
INTERVALS = (5, 7, 11, 13, 17)  # the checkpoints that one has are no other one's
JOB = {"SCR_JOB_ID": "7"}


def case(function):
    CASES.append(function)
    return function


class Simulation:
    """One that writes a checkpoint every so many steps, as no other one does."""

    def __init__(self, here, every):
        self.here, self.every, self.pause = here, every, here.prefix / "pause"
        self.newest = 3 * every

    def start(self, *more, before=()):
        words = [*before, *self.here.command(2, "steady", (STEPS, self.every, *more))]
        return self.here.start(2, "steady", command=words, SCR_FLUSH="0", **JOB)

    def start_and_pause(self, before=()):
        return self.start(self.newest + 1, self.pause, before=before)

    def wait_for_pause(self, run):
        wait_for(self.pause.exists, run)

    def kill(self, run):
        kill_ranks_of(self.here)
        got = finish(run)
        self.pause.unlink(missing_ok=True)
        assert not messages(got), f"{got}"
        begins(got, 0)

    def has_gone_on(self, run, want):
        got = finish(run)
        begins(got, self.newest, want)
        told = messages(got)
        assert len(told) == 1 and f"checkpoint {self.newest} is in the cache" in told[0], f"{got}"

    def undisturbed(self, mpi, program):
        with place(mpi, program) as plain:
            return plain.run(2, "steady", STEPS, self.every, shim=False)

    def sees_its_own_alone(self, others):
        """By what commands tell of the caches."""
        listed = tool(self.here, "ls", **JOB)
        assert listed.status == 0 and f"step_{self.newest}/" in listed.out, f"{listed}"
        checked = tool(self.here, "verify", **JOB)
        assert checked.status == 0, f"{checked}"
        for other in others:
            seen = listed.out + listed.err + checked.out + checked.err
            assert f"step_{other.newest}/" not in seen and str(other.here.prefix) not in seen, seen


@contextlib.contextmanager
def ensemble(mpi, program, count):
    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(place(mpi, program)) for _ in range(count)]
        for here in places[1:]:
            shutil.rmtree(here.base)
            here.base = places[0].base
        yield [Simulation(here, every) for here, every in zip(places, INTERVALS)]


def others_of(all_of_them, one):
    return [other for other in all_of_them if other is not one]


def at_the_same_time(mpi, program, count):
    with ensemble(mpi, program, count) as sims:
        wanted = [one.undisturbed(mpi, program) for one in sims]
        runs = [one.start_and_pause() for one in sims]
        for one, run in zip(sims, runs):
            one.wait_for_pause(run)
        for one in sims:
            one.sees_its_own_alone(others_of(sims, one))
        for one, run in zip(sims, runs):
            one.kill(run)
        for one in sims:
            one.sees_its_own_alone(others_of(sims, one))
            assert not one.here.tree(), "all is in the cache"
        runs = [one.start() for one in sims]
        for one, run, want in zip(sims, runs, wanted):
            one.has_gone_on(run, want)


def one_after_another(mpi, program, count):
    """The last one by `scr run`, which saves what it leaves; then the first one is saved."""
    with ensemble(mpi, program, count) as sims:
        wanted = [one.undisturbed(mpi, program) for one in sims]
        first, last = sims[0], sims[-1]
        for one in sims[:-1]:
            run = one.start_and_pause()
            one.wait_for_pause(run)
            one.kill(run)
        run = last.start_and_pause(before=[SCR, "run", "--runs", "1", "--"])
        last.wait_for_pause(run)
        kill_ranks_of(last.here)
        got = finish(run)
        last.pause.unlink()
        assert f"checkpoint.{last.newest} is on the prefix now" in got.out + got.err, f"{got}"
        assert not any(one.here.tree() for one in sims[:-1])
        saved = tool(first.here, "scavenge", **JOB)
        assert saved.out == f"checkpoint.{first.newest} is on the prefix now\n", f"{saved}"
        assert not any(one.here.tree() for one in sims[1:-1])
        for one, want in zip(reversed(sims), reversed(wanted)):
            got = finish(one.start())
            begins(got, one.newest, want)


@case
def two_simulations_at_the_same_time(mpi, program):
    at_the_same_time(mpi, program, 2)


@case
def five_simulations_at_the_same_time(mpi, program):
    at_the_same_time(mpi, program, 5)


@case
def two_simulations_one_after_another(mpi, program):
    one_after_another(mpi, program, 2)


@case
def five_simulations_one_after_another(mpi, program):
    one_after_another(mpi, program, 5)
