"""A cluster, a prefix, a sample: runs under the shim, ends, restarts, and what they must give."""

import functools
import pathlib
import re
import shutil
import tempfile
import threading

from cluster import SHIM, WORK, Cluster
from samples import environment

NODES = 4
STEPS, EVERY, DELAY_MS = 50, 10, 4
LENGTH = ("--steps", STEPS, "--every", EVERY, "--delay", DELAY_MS)
SPARSE = ("--steps", STEPS, "--every", 20, "--delay", DELAY_MS)
CHECKSUM = re.compile(r"checksum ([0-9A-Fa-f]+)")


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
    """Checksum and newest checkpoint's files of a run without the shim; run once."""
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


def restart_step(outcome):
    """The step that the program says it went on from; 0 from the start."""
    line = outcome.line("going on from step")
    return int(line.split()[-1]) if line else 0


class Scene:
    """A context: cluster and prefix are gone afterwards. `settings` hold for all runs."""

    def __init__(self, sample, mpi, ranks=4, nodes=NODES, spare=0, shm=None, **settings):
        self.sample, self.mpi, self.ranks, self.settings = sample, mpi, ranks, settings
        self.sum_wanted, self.files_wanted = undisturbed(sample, mpi, ranks)
        self.cluster = Cluster(nodes, spare, shm)
        self._prefix = Prefix()
        self.story = ""

    def __enter__(self):
        self.directory = self._prefix.__enter__()
        self.mark = self.directory / "paused"
        return self

    def __exit__(self, *_):
        self.cluster.__exit__()
        self._prefix.__exit__()

    def environment(self, **settings):
        """Of a run under the shim."""
        usual = {
            "LD_PRELOAD": str(SHIM), "SCR_CONF_FILE": str(self.sample.config()),
            "SCR_PREFIX": str(self.directory),
        }
        return environment(self.mpi, **{**usual, **self.settings, **settings})

    def start(self, *arguments, nodes=(), **settings):
        """Starts the sample under the shim; returns its Run."""
        words = self.sample.words(self.mpi, *arguments)
        env = self.environment(**settings)
        return self.cluster.start(self.mpi, self.ranks, words, self.directory, env, nodes)

    def pause_at(self, step, **settings):
        """Starts the sample and waits until it has done `step` steps; returns its Run."""
        run = self.start(*LENGTH, "--pause", "step", step, self.mark, **settings)
        run.wait_for_file(self.mark)
        return run

    def ended(self, run):
        """Waits for the end of a run that was struck, and cleans up as a batch system does."""
        outcome = run.finish()
        self.story += f"\n--- a killed run: {outcome}"
        assert outcome.status != 0, f"the killed run ended well{self.story}"
        self.cluster.epilogue()
        self.mark.unlink(missing_ok=True)
        return outcome

    def restart(self, *arguments, least, most=STEPS, nodes=(), **settings):
        """Runs to the end; the result must be that of an undisturbed run. Returns the Outcome."""
        outcome = self.start(*LENGTH, *arguments, nodes=nodes, **settings).finish()
        self.story += f"\n--- the restart: {outcome}"
        assert outcome.status == 0, f"the restart fails{self.story}"
        step = restart_step(outcome)
        assert least <= step <= most, f"went on from {step}, not {least} to {most}{self.story}"
        found = checksum(outcome)
        assert found == self.sum_wanted, f"checksum is not {self.sum_wanted}{self.story}"
        files = newest_files(self.sample, self.directory)
        assert files == self.files_wanted, f"last files differ: {sorted(files)}{self.story}"
        return outcome

    def leftovers(self):
        """Staged files and journals on the prefix."""
        staged = [path for path in self.directory.rglob(".*.scr-*") if path.is_file()]
        return staged + list(self.directory.glob(".scr/journal/*"))

    def expect(self, outcome, *words):
        """SCR must have said a line that has all the words."""
        lines = [line for line in outcome.err.splitlines() if line.startswith("SCR: ")]
        found = any(all(word in line for word in words) for line in lines)
        assert found, f"no message with {words}{self.story}"
