#!/usr/bin/env python3
"""Programs that call SCR themselves, under real mpirun: checkpoints, output, restarts, every call
in every state, and the same under the shim. The last line is `N passed, N failed`.

usage: api.py [--turns] [openmpi|mpich] [case ...]
"""

import importlib
import pathlib
import sys
import tempfile
import time
import traceback

import calls  # finds the next one
import pool

MODULES = [importlib.import_module(name) for name in
           ("states", "writing", "restarting", "old_way", "settings_of", "doors", "languages",
            "installed", "memory")]
# Without --turns only: the address sanitizer sees most of it, the other case the rest.
THOROUGH = ("valgrind",)
LONG = ("valgrind", "valgrind_under_the_shim", "built_with_cmake", "address_sanitizer")


def attempt(mpi, case, program):
    """Runs a case and prints its verdict; returns its name if it has failed."""
    begun = time.monotonic()
    here = calls.Here(mpi, program)
    try:
        case(here)
        failed, verdict = None, "ok"
    except Exception:
        failed, verdict = f"{mpi} {case.__name__}", "FAILED\n" + traceback.format_exc()
    finally:
        here.remove()
    took = f"{time.monotonic() - begun:6.1f} s"
    print(f"{mpi:8} {case.__name__:45} {took}  {verdict}", flush=True)
    return failed


def main(arguments):
    turns = "--turns" in arguments
    mpis = [a for a in arguments if a in ("openmpi", "mpich")] or ["openmpi", "mpich"]
    wanted = [a for a in arguments if a not in ("openmpi", "mpich", "--turns")]
    cases = [case for module in MODULES for case in module.CASES]
    with tempfile.TemporaryDirectory(prefix="scr-api-build-") as scratch:
        program = {mpi: calls.build(mpi, pathlib.Path(scratch) / mpi) for mpi in mpis}
        items = [(mpi, case, program[mpi]) for mpi in mpis for number, case in enumerate(cases)
                 if (not turns or mpis[number % len(mpis)] == mpi)
                 and not (turns and case.__name__ in THOROUGH)
                 and (not wanted or case.__name__ in wanted)]
        items = pool.ordered(items, lambda item: item[1].__name__, LONG)
        found = pool.run_all(items, lambda item: 2, lambda item: attempt(*item))
    failed = [name for name in found if name]
    for name in failed:
        print(f"failed: {name}")
    print(f"{len(items) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not items else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
