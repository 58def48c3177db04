#!/usr/bin/python3
"""Heat on a ring; checkpoints by calls of SCR, a numpy file a rank. Restart: whatever SCR has, the
newest first, until all ranks can read one."""

import numpy
import scr

from heat_common import CELLS, Heat


def write_checkpoint(heat):
    with scr.output(f"step_{heat.step}", scr.FLAG_CHECKPOINT) as dataset:
        path = dataset.route(f"ckpt/step_{heat.step}/rank_{heat.rank}.npy")
        with open(path, "wb") as file:
            numpy.save(file, heat.cells)
            heat.pause("write")


def restart(heat):
    while name := scr.have_restart():
        try:
            with scr.restart() as dataset:
                cells = numpy.load(dataset.route(f"rank_{heat.rank}.npy"))
                assert cells.shape == (CELLS,), cells.shape
        except (OSError, ValueError, AssertionError, scr.Error):
            continue  # a rank could not read it: the next older one is offered to all
        heat.cells, heat.step = cells, int(name.rpartition("_")[2])
        return


if __name__ == "__main__":
    simulation = Heat()
    scr.init()
    restart(simulation)
    simulation.run(write_checkpoint, scr.should_exit)
    scr.finalize()
