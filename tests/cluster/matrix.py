"""Every sample x scheme x moment: a run that is killed, and one that goes on from what it left."""

import dataclasses
import re

from samples import SAMPLES, Sample
from scene import DELAY_MS, EVERY, LENGTH, Scene

# Seal and flush are those of the cache: the runs learn nothing, so that all of their checkpoints go
# there, and the first of them has been sealed when the run stops.
SEAL_POINTS = ("seal.encode", "seal.prepared", "seal.committed")
FLUSH_POINTS = ("flush.staged", "flush.publish")
MOMENTS = ("between", "writing", "seal", "flush")
SCHEMES = ("SINGLE", "PARTNER", "XOR")


@dataclasses.dataclass(frozen=True)
class Case:
    sample: Sample
    mpi: str
    scheme: str
    moment: str
    point: str  # of the seal or flush; "" else

    def name(self):
        where = self.point or self.moment
        return f"{self.mpi} {self.sample.name} {self.scheme} {where}"


def cases(mpi, everything):
    """All cases; unless `everything`, one point of the seal and of the flush each, such that each
    scheme meets every point."""
    for row, sample in enumerate(SAMPLES):
        for column, scheme in enumerate(SCHEMES):
            for moment in MOMENTS:
                points = {"seal": SEAL_POINTS, "flush": FLUSH_POINTS}.get(moment, ("",))
                chosen = points if everything else (points[(row + column) % len(points)],)
                for point in chosen:
                    yield Case(sample, mpi, scheme, moment, point)


def start_first(case, scene):
    """Starts the run that will be killed, and waits until it is at its moment."""
    # Two series that are new take turns: with less than the settle time between two checkpoints the
    # second series' first one would be sealed, and numbered, after the first series' second one.
    arguments = ["--delay", 2 * DELAY_MS] if case.sample.toggles else []
    settings = {}
    if case.moment == "between":
        arguments += ["--pause", "step", 35, scene.mark]
    elif case.moment == "writing":
        arguments += ["--pause", "write", 40, scene.mark]
    else:
        # The third seal: two checkpoints are sealed then, or one that was sealed twice.
        arrival, every = {"seal": (3, 0), "flush": (1, 2)}[case.moment]
        settings = {
            "SCR_TEST_PAUSE": f"{case.point}@{arrival}:{scene.mark}", "SCR_LEARN": "0",
            "SCR_FLUSH": str(every),
        }
    run = scene.start(*LENGTH, *arguments, **settings)
    run.wait_for_file(scene.mark)
    return run


def strike(case, scene):
    """Ends a process or a node; while rank 0 writes, the one that it is on."""
    node = "node1" if case.moment == "writing" else "node3"
    if case.scheme == "SINGLE":
        scene.cluster.kill_process(node, case.sample.process())
    else:
        scene.cluster.kill(node)


def least_step(case, scene):
    """The newest checkpoint that must still be there: the cache has it, the prefix does not."""
    confirmed = "ls -d /dev/shm/*/scr.*/*/scr.dataset.*/.scr/CONFIRMED"
    listing = scene.cluster.on("node1", "sh", "-c", confirmed, check=False).out
    newest = max(map(int, re.findall(r"scr\.dataset\.(\d+)/", listing)), default=0)
    # The third of the runs that learn; a flush is that of a series' second one.
    least = {"between": 3, "writing": 3, "seal": 1, "flush": 2}[case.moment]
    assert newest >= least, f"confirmed: {listing}"
    assert not (scene.directory / f".scr/scr.dataset.{newest}").exists(), f"on the prefix: {newest}"
    step = newest * EVERY  # ids are given in the order of writing
    learns = case.moment in ("between", "writing")
    if not (learns and case.sample.toggles):  # what was learned from is on the prefix
        named = case.sample.newest.format(step=step if learns else "*")
        final = [path for path in scene.directory.glob(named) if not path.name.startswith(".")]
        assert not final, f"on the prefix under their own names: {final}"
    staged = [path for path in scene.leftovers() if ".scr-" in path.name]
    assert bool(staged) == (case.moment == "flush"), f"staged: {staged}"
    return step


def run_case(case):
    """One cell of the matrix; raises AssertionError."""
    with Scene(case.sample, case.mpi, spare=1, SCR_COPY_TYPE=case.scheme) as scene:
        run = start_first(case, scene)
        least = least_step(case, scene)
        strike(case, scene)
        scene.ended(run)
        told = ["--from", least] if case.sample.told else []
        scene.restart(*told, least=least)
        assert not scene.leftovers(), f"{scene.leftovers()}{scene.story}"
