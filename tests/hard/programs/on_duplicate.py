"""Steps on a duplicate of the world, a checkpoint every five. Arguments: steps, and the step after
whose checkpoint, and a calm time, rank 0 is killed."""

import os
import pathlib
import signal
import sys
import time

from mpi4py import MPI

assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
comm = MPI.COMM_WORLD.Dup()
steps, killed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0


def file_of(step):
    return pathlib.Path(f"ckpt/step_{step}/rank_{comm.rank}.dat")


def all_of(own):
    least = bytearray(1)
    comm.Allreduce([bytes([own]), MPI.UNSIGNED_CHAR], [least, MPI.UNSIGNED_CHAR], op=MPI.MIN)
    return least[0]


first = next((s for s in range(steps, 0, -5) if all_of(file_of(s).exists())), 0)
state = int(file_of(first).read_text()) if first else comm.rank
if comm.rank == 0:
    print(f"restart {first}", flush=True)
for step in range(first + 1, steps + 1):
    state = (state * 31 + step) % 251
    everyone = bytearray(1)
    comm.Allreduce([bytes([state]), MPI.BYTE], [everyone, MPI.BYTE], op=MPI.BXOR)
    state += everyone[0]
    if step % 5 == 0:
        file_of(step).parent.mkdir(parents=True, exist_ok=True)
        file_of(step).write_text(str(state))
    if step == killed:
        for _ in range(60):
            comm.Barrier()
            time.sleep(0.005)
        if comm.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
total = bytearray(1)
comm.Allreduce([bytes([state % 251]), MPI.BYTE], [total, MPI.BYTE], op=MPI.BXOR)
if comm.rank == 0:
    print(f"checksum {total[0]}", flush=True)
