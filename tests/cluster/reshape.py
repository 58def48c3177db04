#!/usr/bin/python3
"""A program that restarts with any number of ranks: part_<i> of ckpt/<step>/ is of the writer's
rank i, `header` has their number; the ranks of a restart share the parts out among them.

usage: reshape.py <steps> [<step to pause at> <mark>]
"""

import os
import pathlib
import sys
import time

from mpi4py import MPI

CELLS = 5000  # of all ranks together


def value(step, cell):
    return (step * 7919 + cell * 104729) % 1000003


def write(world, step):
    folder = pathlib.Path("ckpt") / str(step)
    folder.mkdir(parents=True, exist_ok=True)
    own = range(world.rank, CELLS, world.size)
    with open(folder / f"part_{world.rank}", "w", encoding="ascii") as file:
        file.writelines(f"{cell} {value(step, cell)}\n" for cell in own)
    if world.rank == 0:
        (folder / "header").write_text(str(world.size), encoding="ascii")
    world.barrier()


def read(world, step):
    """Number of parts; all cells must be there, once, with what was written."""
    folder = pathlib.Path("ckpt") / str(step)
    parts = int((folder / "header").read_text(encoding="ascii"))
    seen = []
    for part in range(world.rank, parts, world.size):
        for line in (folder / f"part_{part}").read_text(encoding="ascii").splitlines():
            cell, found = map(int, line.split())
            assert found == value(step, cell), f"{folder}/part_{part}: cell {cell}"
            seen.append(cell)
    everywhere = sorted(cell for cells in world.allgather(seen) for cell in cells)
    assert everywhere == list(range(CELLS)), f"{folder}: {len(everywhere)} cells"
    return parts


def main(steps, pause=0, mark=None):
    world = MPI.COMM_WORLD
    folder = pathlib.Path("ckpt")
    found = [int(name) for name in os.listdir(folder)] if folder.is_dir() else []
    newest = max((step for step in found if (folder / str(step) / "header").exists()), default=0)
    newest = world.bcast(newest)
    parts = read(world, newest) if newest else 0
    if world.rank == 0:
        print(f"going on from step {newest}", flush=True)
        print(f"parts {parts}", flush=True)
    for step in range(newest + 1, steps + 1):
        write(world, step)
        for _ in range(3):
            world.allreduce(step)
            time.sleep(0.005)
        if step == pause and world.rank == 0:
            pathlib.Path(mark).touch()
        while step == pause:
            time.sleep(1)  # until somebody ends this process
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *(int(word) for word in sys.argv[2:3]), *sys.argv[3:4]))
