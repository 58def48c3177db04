"""Checkpoints as Python's libraries write them: each file under a name that is drawn, renamed when
it is complete. What is checkpointed is a number that all ranks compute together.

usage: renamed.py HOW STEPS EVERY
"""

import os
import pathlib
import sys
import tempfile
import time
import uuid

import numpy
from mpi4py import MPI

HOW, STEPS, EVERY = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
WORLD = MPI.COMM_WORLD
CHUNKS = 3
CALM_CALLS, CALM_SECONDS = 100, 0.001


def together(value, operation=MPI.SUM):
    mine, every = numpy.array([value], dtype=numpy.int64), numpy.zeros(1, dtype=numpy.int64)
    WORLD.Allreduce(mine, every, operation)
    return int(every[0])


def write(path, data):
    if HOW == "zarr2":
        temporary = path.parent / f"{path.name}.{uuid.uuid4().hex}.partial"
    elif HOW == "zarr3":
        temporary = path.with_suffix(f".{uuid.uuid4().hex}.partial")
    elif HOW == "uuid":
        temporary = path.parent / f"{path.name}-{uuid.uuid4()}"
    elif HOW == "tempfile":
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
        return
    elif HOW == "open":
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False, prefix=".new-") as file:
            file.write(data)
            os.replace(file.name, path)
        return
    with open(temporary, "xb") as file:
        file.write(data)
    temporary.replace(path)


def place(step):
    return pathlib.Path("ckpt") / f"step_{step}"


def files(step):
    """This rank's, and what each has."""
    where = place(step)
    chunks = [where / f"c{WORLD.rank}.{chunk}.bin" for chunk in range(CHUNKS)]
    return [*chunks, *([where / "zarr.json"] if WORLD.rank == 0 else [])]


def restart():
    for step in range(STEPS - STEPS % EVERY, 0, -EVERY):
        found = [int(path.read_text()) for path in files(step) if path.exists()]
        whole = len(found) == len(files(step)) and len(set(found)) == 1
        if together(int(whole), MPI.MIN):
            return step, found[0]
    return 0, 1


def main():
    step, value = restart()
    if WORLD.rank == 0:
        print(f"restart {step}")
    while step < STEPS:
        step += 1
        value = together(value * (WORLD.rank + 3) % 1_000_003)
        if step % EVERY:
            continue
        place(step).mkdir(parents=True, exist_ok=True)
        WORLD.Barrier()
        for path in files(step):
            write(path, str(value).encode())
        for _ in range(CALM_CALLS):
            WORLD.Barrier()
            time.sleep(CALM_SECONDS)
    if WORLD.rank == 0:
        print(f"checksum {value}", flush=True)


main()
