"""LAMMPS: restart files of every kind it has, dumps, data files, a piped gzip, MPI-IO."""

import re
import shutil

from application import DECKS, Application, Stage, Strike

THERMO = re.compile(r"^ +\d+( +-?[0-9.e+-]+){5} *$")
PROGRAM = "lmp"
PACKAGES = ("lammps",)


def prepare(directory):
    for deck in (DECKS / "lammps").iterdir():
        shutil.copy(deck, directory)


def thermo(output):
    """The lines with step, temperature, energies and pressure."""
    return [line.split() for line in output.splitlines() if THERMO.match(line)]


def went_on(output):
    """The step that a restart begins with."""
    lines = thermo(output)
    return lines[0][0] if lines else None


def rewind(directory, plain, step):
    """Leaves the restart files of `step` only."""
    (directory / "ckpt").mkdir()
    for path in (plain / "ckpt").glob(f"r.{step}.*"):
        shutil.copy(path, directory / "ckpt")


def lmp(deck):
    return ("lmp", "-in", deck)


LAMMPS = Application(
    name="LAMMPS",
    program=PROGRAM,
    packages=PACKAGES,
    config="lammps.conf",
    prepare=prepare,
    stages=(
        Stage(4, lmp("in.write")), Stage(4, lmp("in.gz")), Stage(4, lmp("in.read")),
        Stage(2, lmp("in.read2")),
    ),
    result=thermo,
    newest=(
        "ckpt/r.20.*", "ckpt/s.40", "ckpt/[ab].*.rst", "ckpt/m.80.mpiio", "ckpt/w.*", "ckpt/*.data",
        "ckpt/dump.*", "ckpt/z*",
    ),
    varying=("log.lammps",),
    once=True,
    watch=Stage(4, lmp("in.learn")),
    strike=Strike(
        first=lmp("in.long"), resume=lmp("in.resume"), progress=THERMO, steps=41,
        went_on=went_on, rewind=rewind, newest=("ckpt/r.200.*",),
    ),
)
