"""MPICH with more ranks than cores: a rank that waits has to give its core away, or what is
measured is how long time slices are."""

import functools
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
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
    """The environment for so many ranks of `mpi` (Open MPI is asked to yield by a parameter)."""
    if mpi != "mpich" or ranks <= len(os.sched_getaffinity(0)):
        return environment
    preloaded = filter(None, (environment.get("LD_PRELOAD"), library()))
    return {**environment, "LD_PRELOAD": ":".join(preloaded)}
