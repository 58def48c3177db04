#!/usr/bin/python3
"""Heat on a ring; rank 0 gathers all cells and writes one HDF5 file a checkpoint: heat.<step>.h5.
The other ranks write nothing. Rank 0 lists the directory at the restart."""

import os
import re

import h5py

from heat_common import CELLS, Heat


def write_checkpoint(heat):
    everything = heat.world.gather(heat.cells, root=0)
    if heat.rank != 0:
        return
    with h5py.File(f"heat.{heat.step}.h5", "w") as file:
        file.attrs["step"] = heat.step
        for rank, cells in enumerate(everything):
            file.create_dataset(f"rank_{rank}", data=cells)
            if rank == 0:
                heat.pause("write")
        file.attrs["complete"] = True


def newest():
    """Step and cells of every rank of the newest complete file, or None."""
    steps = sorted((int(match.group(1)) for match in map(re.compile(r"heat\.(\d+)\.h5$").match,
                                                       os.listdir(".")) if match), reverse=True)
    for step in steps:
        try:
            with h5py.File(f"heat.{step}.h5", "r") as file:
                if file.attrs.get("complete"):
                    ranks = sum(1 for key in file if key.startswith("rank_"))
                    return step, [file[f"rank_{rank}"][:] for rank in range(ranks)]
        except OSError:
            continue
    return None


def restart(heat):
    found = newest() if heat.rank == 0 else None
    step = heat.world.bcast(found[0] if found else 0, root=0)
    if step == 0:
        return
    heat.cells = heat.world.scatter(found[1] if found else None, root=0)
    assert heat.cells.shape == (CELLS,), heat.cells.shape
    heat.step = step


if __name__ == "__main__":
    simulation = Heat()
    restart(simulation)
    simulation.run(write_checkpoint)
