"""Every sample x scheme x moment: a run that is killed, and one that goes on from what it left."""

import dataclasses
import functools
import pathlib
import re
import shutil
import tempfile
import threading

from cluster import SHIM, WORK, Cluster
from samples import SAMPLES, Sample, environment

RANKS, NODES = 4, 4
STEPS, EVERY, DELAY_MS = 50, 10, 4
LENGTH = ("--steps", STEPS, "--every", EVERY, "--delay", DELAY_MS)
CHECKSUM = re.compile(r"checksum ([0-9A-Fa-f]+)")

# The moment, what the run is told, and the newest checkpoint that must still be there. The first
# checkpoint of a run goes to the prefix, watched; the second is the first one in the cache.
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


@functools.cache
def _lock(_key):
    return threading.Lock()


@functools.cache
def _undisturbed(sample, mpi, ranks):
    with Cluster(NODES) as cluster, Prefix() as directory:
        words = sample.words(mpi, *LENGTH)
        outcome = cluster.start(mpi, ranks, words, directory, environment(mpi)).finish()
        assert outcome.status == 0, f"without the shim: {outcome}"
        return checksum(outcome), newest_files(sample, directory)


def undisturbed(sample, mpi, ranks):
    """Checksum and newest checkpoint's files of a run without the shim."""
    with _lock((sample, mpi, ranks)):
        return _undisturbed(sample, mpi, ranks)


class Prefix:
    """An empty prefix directory that all nodes see, gone afterwards."""

    def __enter__(self):
        WORK.mkdir(parents=True, exist_ok=True)
        self.path = pathlib.Path(tempfile.mkdtemp(dir=WORK))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def checksum(outcome):
    found = CHECKSUM.search(outcome.out)
    assert found, f"no checksum: {outcome}"
    return found.group(1)


def newest_files(sample, directory):
    """Path to content of the last checkpoint's files."""
    if sample.name == "heat_h5py":
        return {}  # HDF5 writes times into its files
    paths = sorted(directory.glob(sample.newest.format(step=STEPS)))
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def shimmed(case, directory, **settings):
    """The environment of a run under the shim."""
    return environment(
        case.mpi, LD_PRELOAD=str(SHIM), SCR_CONF_FILE=str(case.sample.config()),
        SCR_PREFIX=str(directory), SCR_COPY_TYPE=case.scheme, **settings,
    )


def start_first(case, cluster, directory):
    """Starts the run that will be killed, and waits until it is at its moment."""
    mark = directory / "paused"
    arguments, settings = [*LENGTH], {}
    if case.moment == "between":
        arguments += ["--pause", "step", 35, mark]
    elif case.moment == "writing":
        arguments += ["--pause", "write", 40, mark]
    else:
        settings = {"SCR_TEST_PAUSE": f"{case.point}:{mark}", "SCR_FLUSH": "2"}
    words = case.sample.words(case.mpi, *arguments)
    run = cluster.start(case.mpi, RANKS, words, directory, shimmed(case, directory, **settings))
    run.wait_for_file(mark)
    return run, mark


def strike(case, cluster):
    """Ends a process or a node; while rank 0 writes, the one that it is on."""
    node = "node1" if case.moment == "writing" else "node3"
    if case.scheme == "SINGLE":
        cluster.kill_process(node, case.sample.process())
    else:
        cluster.kill(node)


def least_step(case):
    """The newest checkpoint that must still be there."""
    return 30 if case.moment in ("between", "writing") else EVERY


def restart_step(outcome):
    line = outcome.line("going on from step")
    return int(line.split()[-1]) if line else 0


def run_case(case):
    """One cell of the matrix; raises AssertionError."""
    sum_wanted, files_wanted = undisturbed(case.sample, case.mpi, RANKS)
    with Cluster(NODES, spare=1) as cluster, Prefix() as directory:
        run, mark = start_first(case, cluster, directory)
        strike(case, cluster)
        first = run.finish()
        assert first.status != 0, f"the killed run ended well: {first}"
        cluster.epilogue()
        mark.unlink(missing_ok=True)

        arguments = [*LENGTH] + (["--from", least_step(case)] if case.sample.told else [])
        words = case.sample.words(case.mpi, *arguments)
        second = cluster.start(case.mpi, RANKS, words, directory, shimmed(case, directory)).finish()
        both = f"\n--- the killed run: {first}\n--- the restart: {second}"
        assert second.status == 0, f"the restart fails{both}"
        step = restart_step(second)
        assert step >= least_step(case), f"went on from step {step}, not {least_step(case)}{both}"
        assert checksum(second) == sum_wanted, f"checksum is not {sum_wanted}{both}"
        files = newest_files(case.sample, directory)
        assert files == files_wanted, f"last checkpoint differs: {sorted(files)}{both}"
