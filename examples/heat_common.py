"""What the two Python examples share: arguments, the simulation itself, and the pause."""

import argparse
import os
import time
import zlib

import numpy
from mpi4py import MPI

CELLS = 20000


class Heat:
    """Heat on a ring of cells, distributed over the ranks."""

    def __init__(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("--steps", type=int, default=60)
        parser.add_argument("--every", type=int, default=10)
        parser.add_argument("--delay", type=int, default=0)
        parser.add_argument("--from", dest="start", type=int, default=-1)
        parser.add_argument("--pause", nargs=3, default=("", "-1", ""))
        self.options = parser.parse_args()
        self.world = MPI.COMM_WORLD
        self.rank, self.size = self.world.rank, self.world.size
        self.step = 0
        self.total = 0.0
        self.cells = (self.rank * 31.0 + numpy.arange(CELLS) * 7) % 101

    def advance(self):
        left, right = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        cells = self.cells
        before = self.world.sendrecv(cells[-1], right, 1, source=left, recvtag=1)
        after = self.world.sendrecv(cells[0], left, 2, source=right, recvtag=2)
        lower = numpy.concatenate(([before], cells[:-1]))
        upper = numpy.concatenate((cells[1:], [after]))
        self.cells = 0.25 * lower + 0.5 * cells + 0.25 * upper
        self.cells[self.step % 13 :: 13] += 0.01
        largest = numpy.empty(1)
        self.world.Allreduce(numpy.array([self.cells.sum()]), largest, MPI.MAX)
        self.total = float(largest[0])
        self.step += 1
        time.sleep(self.options.delay / 1000)

    def pause(self, where):
        """Rank 0 makes the file and waits until somebody removes it."""
        place, step, file = self.options.pause
        if self.rank != 0 or where != place or self.step != int(step):
            return
        with open(file, "w", encoding="ascii"):
            pass
        while os.path.exists(file):
            time.sleep(0.005)

    def run(self, write_checkpoint, is_to_stop=lambda: False):
        if self.rank == 0:
            going_on = f"going on from step {self.step}"
            print(going_on if self.step else "starting at step 0", flush=True)
        while self.step < self.options.steps:
            self.advance()
            stopping = False
            if self.step % self.options.every == 0:
                write_checkpoint(self)
                stopping = is_to_stop()
            self.pause("step")
            if stopping:
                break
        sums = self.world.gather(zlib.crc32(self.cells.tobytes()), root=0)
        if self.rank == 0:
            checksum = zlib.crc32(numpy.array(sums, dtype=numpy.uint32).tobytes())
            print(f"step {self.step} total {self.total:.6f} checksum {checksum:08x}", flush=True)
