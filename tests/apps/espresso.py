"""Quantum ESPRESSO's pw.x: stops by its time limit, goes on with restart_mode='restart'; molecular
dynamics, which write a checkpoint after each step of the atoms, killed."""

import gzip
import pathlib
import re
import shutil

import compare
from application import DECKS, Application, Stage, Strike

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


def trajectory(output):
    """The total energy of each step of the atoms, as far as it is converged."""
    found = [ENERGY.match(line) for line in output.splitlines() if line.startswith("!")]
    return [f"{float(one.group(2)):.5f}" for one in found if one]


def went_on(output):
    """Steps of the atoms before the first one of a restart."""
    found = re.search(r"Entering Dynamics: +iteration = +(\d+)", output)
    return str(int(found.group(1)) - 1) if found and int(found.group(1)) > 1 else None


def rewind(directory, _plain, steps):
    """A run of so many steps: the files of each are written over by the next."""
    deck = (directory / "md.in").read_text().replace("nstep=20", f"nstep={steps}")
    (directory / "rewind.in").write_text(deck)
    compare.run_stage(DYNAMICS, Stage(4, pw("rewind.in")), directory, {})


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
    # Written once, at the end: nothing tells them from output, and the end brings them to the
    # prefix with patterns and without.
    unlearned=("out_qe/**",),
)

DYNAMICS = Application(
    name="Quantum ESPRESSO dynamics",
    turn=1,  # `make test` loses a node of it, not a process
    program=PROGRAM,
    packages=PACKAGES,
    config="quantum-espresso-md.conf",
    prepare=prepare,
    stages=(Stage(4, pw("md.in")), Stage(4, pw("md2.in"))),
    result=trajectory,
    newest=("out_qe/**/*",),
    # Time stamps; and what a restart has not set to zero (the same garbage without us).
    varying=("out_qe/**/*.xml", "out_qe/h2.rdf.dat"),
    # Written once, at the end of the watched run.
    unlearned=(
        "out_qe/h2.rdf.dat", "out_qe/h2.xml", "out_qe/h2.save/wfc*.dat", "out_qe/h2.save/*.UPF",
    ),
    # It pauses inside each checkpoint, for longer on a busy machine: 50, 100, 200 and 400 ms of
    # settle time may be too short.
    amendments=4,
    strike=Strike(
        first=pw("md.in"), resume=pw("md2.in"), progress=re.compile("^!"), steps=20,
        went_on=went_on, rewind=rewind, newest=(),
    ),
)
