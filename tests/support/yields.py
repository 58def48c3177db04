"""MPICH with more ranks than cores: a rank that waits has to give its core away, or what is
measured is how long time slices are."""

import os
import pathlib
import subprocess

import pool

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pool.once
def library():
    """Path of a library that makes MPICH do that, to be preloaded behind all others; made once."""
    source, place = ROOT / "tests" / "support" / "yielding.c", ROOT / "target" / "tmp"
    place.mkdir(parents=True, exist_ok=True)
    made, new = place / "libyielding.so", place / f"libyielding.{os.getpid()}.so"
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
    if mpi != "mpich":
        return environment
    preloaded = filter(None, (environment.get("LD_PRELOAD"), library()))
    return {**environment, "LD_PRELOAD": ":".join(preloaded)}
