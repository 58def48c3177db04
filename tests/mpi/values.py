#!/usr/bin/env python3
"""The constants that the engine takes for those of an MPI, against the headers of each MPI whose
compiler is here (values.rs). Each has a target directory of its own: mpi-sys does not notice
another MPICC. The last lines are cargo's.

usage: values.py [COMPILER ...]
"""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILERS = ("mpicc.openmpi", "mpicc.mpich")
TEST = [os.environ.get("CARGO", "cargo"), "test", "-p", "scr-mpi-values", "--test", "values"]


def main(wanted):
    failed = False
    for compiler in wanted or COMPILERS:
        path = shutil.which(compiler)
        if not path:
            print(f"skipped: there is no {compiler}")
            failed = failed or bool(wanted)
            continue
        target = ROOT / "target" / path.strip("/").replace("/", "-")
        print(compiler, flush=True)
        done = subprocess.run([*TEST, "--target-dir", target], cwd=ROOT, check=False,
                              env={**os.environ, "MPICC": path})
        failed = failed or done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
