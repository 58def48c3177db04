"""Quantum ESPRESSO's pw.x: stops by its time limit, goes on with restart_mode='restart'."""

import gzip
import pathlib
import re
import shutil

from application import DECKS, Application, Stage

PROGRAM = "pw.x"
PACKAGES = ("quantum-espresso", "quantum-espresso-data")
PSEUDO = "H_HSCV_PBE-1.0.UPF"
ENERGY = re.compile(r"^!? +(total energy|one-electron|hartree|xc contribution|ewald) .*= +(\S+) Ry")


def prepare(directory):
    for deck in (DECKS / "qe").iterdir():
        shutil.copy(deck, directory)
    found = next(pathlib.Path("/usr/share").rglob(f"{PSEUDO}*"))
    opened = gzip.open(found) if found.suffix == ".gz" else found.open("rb")
    with opened as source:
        (directory / PSEUDO).write_bytes(source.read())


def energies(output):
    """The converged total energy; the way there depends on when the first run was stopped."""
    lines = [line for line in output.splitlines() if line.startswith("!")]
    found = [ENERGY.match(line) for line in lines]
    return [round(float(one.group(2)), 6) for one in found if one]


def pw(deck):
    return ("pw.x", "-ndiag", "1", "-in", deck)


ESPRESSO = Application(
    name="Quantum ESPRESSO",
    program=PROGRAM,
    packages=PACKAGES,
    config="quantum-espresso.conf",
    prepare=prepare,
    stages=(Stage(4, pw("pw1.in"), status=None), Stage(4, pw("pw2.in"))),
    result=energies,
    newest=("out_qe/**/*",),
    varying=("out_qe/**/*",),  # where the time limit stopped it
)
