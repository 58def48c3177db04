#!/usr/bin/python3
"""A row of cells that all ranks advance together; a file a rank and checkpoint, by numpy, h5py or
netCDF4. The result does not depend on the number of ranks: a restart may have fewer or more.

usage: grid.py STEPS EVERY CELLS MICROSECONDS numpy|h5py|netcdf4
"""

import pathlib
import sys
import time

import numpy
from mpi4py import MPI

KIND = sys.argv[5]
if KIND == "h5py":
    import h5py
if KIND == "netcdf4":
    import netCDF4

WORLD = MPI.COMM_WORLD
ENDING = {"numpy": "npz", "h5py": "h5", "netcdf4": "nc"}[KIND]
MIX = numpy.uint64(0x9E3779B97F4A7C15)


def together(value, operation):
    """One number from all ranks, by a collective on buffers."""
    mine, every = numpy.array([value], dtype=numpy.uint64), numpy.zeros(1, dtype=numpy.uint64)
    WORLD.Allreduce(mine, every, operation)
    return every[0]


class Grid:
    """This rank's cells."""

    def __init__(self, total):
        self.total, self.step = total, 0
        self.first = total * WORLD.rank // WORLD.size
        self.end = total * (WORLD.rank + 1) // WORLD.size
        self.index = numpy.arange(self.first, self.end, dtype=numpy.uint64)
        self.cells = self.index * numpy.uint64(2654435761)

    def sum(self):
        mixed = (self.cells + self.index) * MIX
        mine = numpy.bitwise_xor.reduce(mixed ^ (mixed >> numpy.uint64(29)))
        return together(mine, MPI.BXOR)

    def advance(self):
        at = self.step * 7919 % self.total
        own = self.first <= at < self.end
        carry = together(self.cells[at - self.first] if own else 0, MPI.BXOR)
        self.cells = self.cells * numpy.uint64(6364136223846793005) + carry + self.index
        self.step += 1


def write_part(path, grid, total_sum):
    head = numpy.array([grid.step, grid.total, grid.first, total_sum], dtype=numpy.uint64)
    if KIND == "numpy":
        numpy.savez(path, head=head, cells=grid.cells)
    if KIND == "h5py":
        with h5py.File(path, "w") as file:
            file.create_dataset("cells", data=grid.cells)
            file.create_dataset("head", data=head)
    if KIND == "netcdf4":
        with netCDF4.Dataset(path, "w") as file:
            for name, values in (("cells", grid.cells), ("head", head)):
                file.createDimension(f"{name}_n", len(values))
                file.createVariable(name, "u8", (f"{name}_n",))[:] = values


def read_part(path):
    """Head and cells."""
    if KIND == "numpy":
        with numpy.load(path) as file:
            return file["head"], file["cells"]
    if KIND == "h5py":
        with h5py.File(path, "r") as file:
            return file["head"][:], file["cells"][:]
    with netCDF4.Dataset(path) as file:
        return file["head"][:].data, file["cells"][:].data


def load(grid, place):
    """Takes this rank's cells from all parts that have some of them; whether all were there."""
    found, wanted = 0, None
    try:
        for path in sorted(place.glob(f"part_*.{ENDING}")):
            head, cells = read_part(path)
            first, wanted = int(head[2]), head[3]
            low, high = max(first, grid.first), min(first + len(cells), grid.end)
            if high > low:
                part = cells[low - first:high - first]
                grid.cells[low - grid.first:high - grid.first] = part
                found += high - low
    except (OSError, KeyError, ValueError):
        found = -1
    good = found == grid.end - grid.first
    every = grid.sum()
    return bool(together(good and every == wanted, MPI.LAND))


def restart(total):
    """The grid of the newest checkpoint that is whole, or a new one."""
    names = [path.name for path in pathlib.Path("ckpt").glob("step_*")] if WORLD.rank == 0 else None
    names = WORLD.bcast(names, root=0)
    for step in sorted((int(name[5:]) for name in names), reverse=True):
        grid = Grid(total)
        if load(grid, pathlib.Path("ckpt") / f"step_{step}"):
            grid.step = step
            return grid
        if WORLD.rank == 0:
            print(f"unusable {step}")
    return Grid(total)


def main():
    steps, every, total, microseconds = map(int, sys.argv[1:5])
    grid = restart(total)
    if WORLD.rank == 0:
        print(f"from {grid.step}")
    while grid.step < steps:
        grid.advance()
        if WORLD.rank == 0:
            print(f"step {grid.step}", flush=True)
        if grid.step % every == 0:
            total_sum = grid.sum()
            place = pathlib.Path("ckpt") / f"step_{grid.step}"
            place.mkdir(parents=True, exist_ok=True)
            write_part(place / f"part_{WORLD.rank}.{ENDING}", grid, total_sum)
        time.sleep(microseconds / 1e6)
    total_sum = grid.sum()
    if WORLD.rank == 0:
        print(f"result {int(total_sum):016x}")


if __name__ == "__main__":
    main()
