"""What a test program is: its input, its runs, its files, and what may differ between two runs."""

import dataclasses
import pathlib
import re
import shutil
import subprocess
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DECKS = HERE / "decks"


@dataclasses.dataclass(frozen=True)
class Stage:
    """One mpirun."""

    ranks: int
    words: tuple
    status: int = 0


@dataclasses.dataclass(frozen=True)
class Strike:
    """A run that is killed, and the one that goes on from what it left."""

    first: tuple  # words of the run that is killed
    resume: tuple  # words of the restart
    progress: re.Pattern  # a line of the first run's output, one for each step of its work
    steps: int  # such lines in an undisturbed run
    went_on: typing.Callable  # output of the restart -> the checkpoint it went on from, or None
    newest: tuple  # globs of the newest dataset at the end, if it is the same after any restart
    # (directory, undisturbed, checkpoint) -> nothing; the checkpoint becomes the newest one there.
    # None: the program ends with the same result and files wherever it went on from.
    rewind: typing.Callable = None
    keep_all: typing.Callable = lambda directory: None  # an undisturbed run keeps all checkpoints
    result: typing.Callable = None  # as the application's, where where it went on from is no part
    cached: bool = True  # its checkpoints are; else they stay on the prefix


@dataclasses.dataclass(frozen=True)
class Application:
    """A program, its standing runs and what is compared."""

    name: str
    program: str  # what tells that it is installed: a program, or the path of a file
    packages: tuple  # Debian packages that bring it
    config: str
    stages: tuple
    prepare: typing.Callable  # directory -> nothing
    result: typing.Callable  # output of a stage -> the lines that must be equal
    mpi: str = "openmpi"
    newest: tuple = ()  # globs of the newest dataset of every series
    varying: tuple = ()  # globs of files with time stamps or run times of the program's own
    environment: dict = dataclasses.field(default_factory=dict)
    strike: Strike = None
    shared: tuple = ()  # globs of files that several ranks write
    both: bool = False  # there is one for each MPI
    # Of programs that are alike this one's number: in `make test` they take turns with the cases.
    turn: int = None
    own_way: bool = True  # it writes as none of those does
    once: bool = False  # it writes files of each kind so rarely that learning caches none of them
    amendments: int = 2  # of one series in a run, at most
    watch: Stage = None  # a longer run for `scr learn`; else it is the first stage
    unlearned: tuple = ()  # patterns of the configuration's files that a watched run cannot tell
    learned_more: tuple = ()  # patterns of files that `scr learn` proposes besides

    @property
    def kind(self):
        """The name without the MPI."""
        return self.name.removesuffix(f" {self.mpi}")

    def configuration(self):
        """The example configuration for users of this program."""
        return ROOT / "config" / self.config


def missing(application):
    """Installs Debian packages if the program is not there; returns whether it still is not."""
    def absent():
        name = application.program
        return not pathlib.Path(name).exists() if "/" in name else shutil.which(name) is None

    if absent():
        packages = application.packages
        apt_get = ["apt-get", "-qq", "-o", "Acquire::Retries=5"]
        command = [*apt_get, "install", "-y", "--no-install-recommends", *packages]
        subprocess.run([*apt_get, "update"], check=False)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    return absent()


def files(directory):
    """Path below `directory` to content, without what SCR keeps there.

    Some programs write the directory's own path into their files; it counts as equal.
    """
    paths = (path for path in sorted(directory.rglob("*")) if path.is_file())
    named = ((str(path.relative_to(directory)), path) for path in paths)
    own = str(directory).encode()
    return {
        name: path.read_bytes().replace(own, b"(here)") for name, path in named
        if not name.startswith(".scr")
    }
