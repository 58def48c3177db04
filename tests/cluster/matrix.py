"""Every sample x scheme x moment: a run that is killed, and one that goes on from what it left."""

import dataclasses

from samples import SAMPLES, Sample
from scene import EVERY, LENGTH, Scene

# The moment, what the run is told, and the newest checkpoint that must still be there. The first
# checkpoint of a run goes to the prefix, watched; the second or third is the first in the cache.
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
    """All cases; unless `everything`, one point of the seal and of the flush each, in turn."""
    turn = 0
    for sample in SAMPLES:
        for scheme in SCHEMES:
            for moment in MOMENTS:
                points = {"seal": SEAL_POINTS, "flush": FLUSH_POINTS}.get(moment, ("",))
                chosen = points if everything else (points[turn % len(points)],)
                for point in chosen:
                    yield Case(sample, mpi, scheme, moment, point)
            turn += 1


def start_first(case, scene):
    """Starts the run that will be killed, and waits until it is at its moment."""
    arguments, settings = [], {}
    if case.moment == "between":
        arguments = ["--pause", "step", 35, scene.mark]
    elif case.moment == "writing":
        arguments = ["--pause", "write", 40, scene.mark]
    else:
        settings = {"SCR_TEST_PAUSE": f"{case.point}:{scene.mark}", "SCR_FLUSH": "2"}
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


def least_step(case):
    """The newest checkpoint that must still be there."""
    return 30 if case.moment in ("between", "writing") else EVERY


def run_case(case):
    """One cell of the matrix; raises AssertionError."""
    with Scene(case.sample, case.mpi, spare=1, SCR_COPY_TYPE=case.scheme) as scene:
        run = start_first(case, scene)
        strike(case, scene)
        scene.ended(run)
        told = ["--from", least_step(case)] if case.sample.told else []
        scene.restart(*told, least=least_step(case))
