"""More ranks than cores: a rank that waits has to give its core away, or what is measured is how
long time slices are."""

import os
import pathlib
import subprocess

import pool

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pool.once
def library(name):
    """Path of the library that is made of that source, to be preloaded behind all others; made
    once."""
    source, place = ROOT / "tests" / "support" / f"{name}.c", ROOT / "target" / "tmp"
    place.mkdir(parents=True, exist_ok=True)
    made, new = place / f"lib{name}.so", place / f"lib{name}.{os.getpid()}.so"
    subprocess.run(
        ["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", new, source, "-ldl"],
        check=True,
    )
    os.replace(new, made)
    return str(made)


def asked(environment, mpi, ranks):
    """The environment for so many ranks of `mpi`. Ranks that have a core each wait as Open MPI
    lets them by default, which tests ask to yield by a parameter."""
    if ranks <= len(os.sched_getaffinity(0)):
        return {**environment, "OMPI_MCA_mpi_yield_when_idle": "0"}
    return beside_others(environment, mpi)


def beside_others(environment, mpi):
    """The same for any number of ranks, of a run that does not have the machine to itself."""
    return with_preloaded(environment, *(["yielding"] if mpi == "mpich" else []))


def resting(environment, mpi):
    """The same where other runs want the cores that waiting ranks would share by turns."""
    return with_preloaded(beside_others(environment, mpi), "resting")


def with_preloaded(environment, *names):
    behind = filter(None, (environment.get("LD_PRELOAD"), *map(library, names)))
    return {**environment, "LD_PRELOAD": ":".join(behind)} if names else environment
