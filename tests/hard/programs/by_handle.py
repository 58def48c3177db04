"""Steps of a program that takes MPI's functions from a handle, a checkpoint every five. Arguments:
the library, local or global, steps, and the step after whose checkpoint, and a calm time, rank 0 is
killed."""

import ctypes
import os
import pathlib
import signal
import sys
import time

library, manner, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
killed = int(sys.argv[4]) if len(sys.argv) > 4 else 0
mode = {"local": os.RTLD_NOW | os.RTLD_LOCAL, "global": os.RTLD_NOW | os.RTLD_GLOBAL}[manner]
mpi = ctypes.CDLL(library, mode)
if "mpich" in library:
    world, byte, least, xor = map(ctypes.c_int, (0x44000000, 0x4c00013b, 0x58000002, 0x5800000a))
else:
    world, byte, least, xor = (
        ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{one}")))
        for one in ("comm_world", "uint8_t", "op_min", "op_bxor"))


def of_all(own, operation):
    out, into = (ctypes.c_ubyte * 1)(own), (ctypes.c_ubyte * 1)()
    assert mpi.MPI_Allreduce(out, into, 1, byte, operation, world) == 0
    return into[0]


def file_of(step):
    return pathlib.Path(f"ckpt/step_{step}/rank_{rank}.dat")


assert mpi.MPI_Init(None, None) == 0
number = ctypes.c_int()
assert mpi.MPI_Comm_rank(world, ctypes.byref(number)) == 0
rank = number.value
first = next((s for s in range(steps, 0, -5) if of_all(file_of(s).exists(), least)), 0)
state = int(file_of(first).read_text()) if first else rank
if rank == 0:
    print(f"restart {first}", flush=True)
for step in range(first + 1, steps + 1):
    state = (state * 31 + step) % 251
    state += of_all(state, xor)
    if step % 5 == 0:
        file_of(step).parent.mkdir(parents=True, exist_ok=True)
        file_of(step).write_text(str(state))
    if step == killed:
        for _ in range(60):
            mpi.MPI_Barrier(world)
            time.sleep(0.005)
        if rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
total = of_all(state % 251, xor)
if rank == 0:
    print(f"checksum {total}", flush=True)
assert mpi.MPI_Finalize() == 0
