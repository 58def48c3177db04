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

import calls

MODULES = [importlib.import_module(name) for name in
           ("states", "writing", "restarting", "old_way", "settings_of", "doors", "languages",
            "installed", "memory")]


def main(arguments):
    turns = "--turns" in arguments
    mpis = [a for a in arguments if a in ("openmpi", "mpich")] or ["openmpi", "mpich"]
    wanted = [a for a in arguments if a not in ("openmpi", "mpich", "--turns")]
    cases = [case for module in MODULES for case in module.CASES]
    passed, failed = 0, []
    with tempfile.TemporaryDirectory(prefix="scr-api-build-") as scratch:
        program = {mpi: calls.build(mpi, pathlib.Path(scratch) / mpi) for mpi in mpis}
        for mpi in mpis:
            for number, case in enumerate(cases):
                if turns and mpis[number % len(mpis)] != mpi:
                    continue
                if wanted and case.__name__ not in wanted:
                    continue
                begun = time.monotonic()
                here = calls.Here(mpi, program[mpi])
                try:
                    case(here)
                    passed, verdict = passed + 1, "ok"
                except Exception:
                    failed.append(f"{mpi} {case.__name__}")
                    verdict = "FAILED\n" + traceback.format_exc()
                finally:
                    here.remove()
                took = f"{time.monotonic() - begun:6.1f} s"
                print(f"{mpi:8} {case.__name__:45} {took}  {verdict}", flush=True)
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
