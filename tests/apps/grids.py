"""Small programs, one for each way to write and read checkpoints, on 4 ranks, then 2, then 6."""

import dataclasses
import re
import subprocess
import zlib

from application import HERE, ROOT, Application, Stage, Strike

SOURCES = HERE / "programs"
PYTHON_PROGRAM = str(ROOT / "tests/apps/programs/grid.py")
BUILT = ROOT / "target" / "apps" / "programs"
PYTHON_MPICH = ROOT / "target" / "python-mpich"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
PROGRESS = re.compile(r"^step \d+$")
STAGES, SMALL, LARGE = ((4, 20), (2, 30), (6, 40)), 65536, 300000  # ranks, steps; cells
LONG, EVERY, MICROSECONDS = 60, 5, 10000  # what is killed

HDF5 = {mpi: ("-I/usr/include/hdf5/" + mpi, f"-L{LIBRARIES}/hdf5/{mpi}", "-lhdf5")
        for mpi in ("openmpi", "mpich")}
NETCDF = {"openmpi": (f"-I{LIBRARIES}/netcdf/mpi/include", "-lnetcdf_mpi")}


def build(program, mpi, options):
    """Compiles the program unless it is newer than its sources; returns its path."""
    made = BUILT / mpi / program
    sources = [SOURCES / "grid.c", SOURCES / f"{program}.c", SOURCES / "grid.h"]
    newest = max(source.stat().st_mtime for source in sources)
    if not made.exists() or made.stat().st_mtime < newest:
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [f"mpicc.{mpi}", "-O1", "-Wall", "-Wextra", "-o", made, *sources[:2], *options],
            check=True,
        )


def result(output):
    """What must be equal: where it began, what it read, how it ended."""
    words = ("from", "unusable", "looked", "result")
    return [line for line in output.splitlines() if line.startswith(words)]


def ending(output):
    """The sum over all cells at the end; None if it did not come to it."""
    return next((line for line in output.splitlines() if line.startswith("result")), None)


def went_on(output):
    """The step of the checkpoint that a run began with."""
    found = re.search(r"^from ([1-9]\d*)$", output, re.M)
    return found and found.group(1)


def grid(name, config, command, mpi, cells=SMALL, mode="", cached=True, **more):
    """An application; `command` without its arguments."""
    def words(steps, pause):
        arguments = (steps, EVERY, cells, pause, mode)
        return (*command, *(str(word) for word in arguments if word != ""))

    killed = words(LONG, MICROSECONDS)
    return Application(
        name=f"{name} {mpi}", config=config, mpi=mpi, result=result,
        stages=tuple(Stage(ranks, words(steps, 0)) for ranks, steps in STAGES),
        newest=("ckpt/step_40*", "ckpt/step_40/*"),
        strike=Strike(
            first=killed, resume=killed, progress=PROGRESS, steps=LONG, went_on=went_on,
            newest=("ckpt/step_60*", "ckpt/step_60/*"), result=ending, cached=cached,
        ),
        **more,
    )


def in_c(name, config, program, mpi, options=(), packages=(), probe=None, **more):
    """One of the C programs."""
    return grid(
        name, config, (str(BUILT / mpi / program),), mpi, program=probe or f"mpicc.{mpi}",
        packages=packages, prepare=lambda directory: build(program, mpi, options), **more,
    )


def in_python(kind, mpi):
    """The Python program; Debian's mpi4py is for Open MPI."""
    module = {"numpy": "numpy", "h5py": "h5py", "netcdf4": "netCDF4"}[kind]
    return grid(
        f"mpi4py {kind}", "mpi4py.conf", ("/usr/bin/python3", PYTHON_PROGRAM), mpi,
        mode=kind, program=f"/usr/lib/python3/dist-packages/{module}",
        packages=("python3-mpi4py", f"python3-{kind}"), prepare=lambda directory: None,
        environment={"PYTHONPATH": str(PYTHON_MPICH)} if mpi == "mpich" else {},
    )


def shared(glob):
    """Settings of a program whose file is written by several ranks: it stays on the prefix."""
    return {"shared": (glob,), "cached": False}


def of(mpi):
    """All of them for one MPI."""
    parts, one_file = "parts.conf", "one-file.conf"
    hdf5 = f"libhdf5-{mpi}-dev"
    yield in_c("MPI-IO", one_file, "mpiio", mpi, **shared("ckpt/step_*.mpi"))
    if mpi == "openmpi":
        yield in_c("MPI-IO by ROMIO", one_file, "mpiio", mpi, **shared("ckpt/step_*.mpi"),
                   environment={"OMPI_MCA_io": "romio321"})
        yield in_c("netCDF parallel", "netcdf-parallel.conf", "netcdf", mpi, NETCDF[mpi],
                   ("libnetcdf-mpi-dev",), f"{LIBRARIES}/libnetcdf_mpi.so",
                   **shared("ckpt/step_*.nc"))
    yield in_c("HDF5 parallel", "hdf5-parallel.conf", "hdf5", mpi, HDF5[mpi], (hdf5,),
               f"{LIBRARIES}/hdf5/{mpi}/libhdf5.so", **shared("ckpt/step_*.h5"))
    yield in_c("two write a file", one_file, "one_file", mpi, mode="two",
               **shared("ckpt/step_*/half_*"))
    yield in_c("baton over a file", one_file, "one_file", mpi, mode="baton",
               **shared("ckpt/step_*/all"))
    yield in_c("one file for all", one_file, "one_file", mpi, mode="root", cells=LARGE)
    yield in_c("rank 0 looks", parts, "parts", mpi, mode="look", cached=False)
    yield in_c("rank 0 looks late", parts, "parts", mpi, mode="look_late", cached=False)
    yield in_c("rank 0 reads all", parts, "parts", mpi, mode="root_reads", cells=LARGE)
    # What libraries do to a rank's own file does not depend on the MPI.
    for kind in ("numpy", "h5py", "netcdf4") if mpi == "openmpi" else ("numpy",):
        yield in_python(kind, mpi)


ABOVE_HDF5 = ("mpi4py h5py", "mpi4py netcdf4")


def both():
    """Those for which there is one on each MPI are told so: they share the deaths, and `make test`
    deals the other cases, too, but for those of MPI-IO: each MPI has one of its own. So it does
    with two libraries above HDF5."""
    every = [*of("openmpi"), *of("mpich")]
    kinds = [one.kind for one in every]

    def marked(one):
        if one.kind in ABOVE_HDF5:
            return dataclasses.replace(one, turn=ABOVE_HDF5.index(one.kind))
        if kinds.count(one.kind) < 2:
            return one
        turn = zlib.crc32(one.kind.encode()) + ("openmpi", "mpich").index(one.mpi)
        own_way = one.kind in ("MPI-IO", "HDF5 parallel")
        return dataclasses.replace(one, both=True, turn=turn, own_way=own_way)

    return tuple(map(marked, every))


GRIDS = both()
