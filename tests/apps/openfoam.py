"""OpenFOAM's icoFoam on the cavity tutorial: a directory a time, three ways to write it."""

import pathlib
import re
import shutil
import subprocess

from application import ROOT, Application, Stage, Strike

PROGRAM = "icoFoam"
PACKAGES = ("openfoam", "openfoam-examples")
PROJECT = pathlib.Path("/usr/share/openfoam")
THREADED = ROOT / "target" / "apps" / "openfoam-threaded"
TUTORIAL = pathlib.Path(
    "/usr/share/doc/openfoam-examples/examples/incompressible/icoFoam/cavity/cavity"
)
TIME = re.compile(r"^Time = ([0-9.e-]+)$")
RESIDUAL = re.compile(r"^(Time = |DICPCG|smoothSolver|time step continuity|Courant)")
CONTROL = {
    "endTime": "0.2", "writeInterval": "5", "writeFormat": "binary", "purgeWrite": "2",
    "startFrom": "latestTime",
}
DECOMPOSE = """FoamFile { version 2.0; format ascii; class dictionary; object decomposeParDict; }
numberOfSubdomains 4; method simple; simpleCoeffs { n (2 2 1); delta 0.001; }
"""


def environment(threaded):
    """The project's directory; one with a buffer for the threads of the collated handler."""
    return {"WM_PROJECT_DIR": str(THREADED if threaded else PROJECT)}


def make_threaded():
    """The project's settings with `maxThreadFileBufferSize` above zero."""
    if THREADED.exists():
        return
    shutil.copytree(PROJECT / "etc", THREADED / "etc", symlinks=False)
    control = THREADED / "etc" / "controlDict"
    text, found = re.subn(r"(maxThreadFileBufferSize) +0;", r"\1 2e9;", control.read_text())
    assert found == 1, "controlDict has no maxThreadFileBufferSize"
    control.write_text(text)


def prepare(handler):
    def into(directory):
        shutil.copytree(TUTORIAL, directory, dirs_exist_ok=True)
        for path in directory.rglob("*.gz"):
            subprocess.run(["gunzip", path], check=True)
        control = directory / "system" / "controlDict"
        text = control.read_text()
        for key, value in CONTROL.items():
            text = re.sub(rf"^{key} .*;", f"{key} {value};", text, flags=re.M)
            assert f"{key} {value};" in text, f"controlDict has no {key}"
        control.write_text(text)
        (directory / "system" / "decomposeParDict").write_text(DECOMPOSE)
        make_threaded()
        for words in (["blockMesh"], ["decomposePar", *handler]):
            subprocess.run(
                words, cwd=directory, check=True, stdout=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin", **environment(False)},
            )

    return into


def residuals(output):
    return [line for line in output.splitlines() if RESIDUAL.match(line)]


def went_on(output):
    """The time before the first one computed; times are written as OpenFOAM writes them."""
    found = re.search(TIME.pattern, output, re.M)
    return f"{round(float(found.group(1)) - 0.005, 6):g}" if found else None


def rewind(directory, plain, time):
    """Copies that time's directories of the undisturbed run."""
    for path in plain.glob(f"processor*/{time}"):
        shutil.copytree(path, directory / path.relative_to(plain))


def keep_all(directory):
    control = directory / "system" / "controlDict"
    control.write_text(control.read_text().replace("purgeWrite 2;", "purgeWrite 0;"))


def icofoam(handler):
    return ("icoFoam", "-parallel", *handler)


def application(turn, name, handler=(), threaded=False):
    return Application(
        name=f"OpenFOAM {name}",
        program=PROGRAM,
        packages=PACKAGES,
        config="openfoam.conf",
        prepare=prepare(handler),
        stages=(Stage(4, icofoam(handler)),),
        result=residuals,
        newest=("processor*/0.2/**/*",),
        environment=environment(threaded),
        turn=turn,
        strike=Strike(
            first=icofoam(handler), resume=icofoam(handler), progress=TIME, steps=40,
            went_on=went_on, rewind=rewind, newest=("processor*/0.2/**/*",), keep_all=keep_all,
        ),
    )


COLLATED = ("-fileHandler", "collated")
OPENFOAM = (
    application(0, "uncollated"), application(1, "collated", COLLATED),
    application(2, "collated threaded", COLLATED, threaded=True),
)
