"""Checkpoints that the ranks write together by MPI-IO."""

import os
import re

from support import assert_same, assert_same_files, finish, place, same

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def mpi_io_in_the_middle(mpi, program):
    same(mpi, program, 2, "mpiio_middle",
         SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/rank_{rank}.dat, ckpt/step_{id}/shared.mpi",
         SCR_LEARN="1")


@case
def mpi_io_after_a_header_that_one_rank_wrote(mpi, program):
    same(mpi, program, 3, "all_write", "header", SCR_FLUSH="1",
         SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*")


@case
def mpi_io_has_files_of_its_own(mpi, program):
    """MPI-IO's locks and shared file pointers match the pattern of a directory; ranks of other
    nodes look for them, so they are never in a cache, even if nothing is to be learned."""
    everything = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/**", "SCR_FLUSH": "1",
                  "OMPI_MCA_sharedfp": "lockedfile"}
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        want = plain.run(2, "all_write", "ordered", shim=False)
        got = shimmed.run_on_nodes(2, "all_write", "ordered", SCR_LEARN="0", **everything)
        assert_same(want, got)
        assert_same_files(plain, shimmed, got)


@case
def spoiled_between_two_runs(mpi, program):
    """The caches have a part of each checkpoint, the prefix the file that all ranks wrote. Between
    two runs somebody removes or cuts that of the newest: the older one is taken, and one line says
    why. A new time of modification alone proves nothing."""
    everything = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*", "SCR_FLUSH": "0",
                  "SCR_CACHE_SIZE": "2"}
    spoil = {"is missing": lambda path: path.unlink(),
             "has 100 bytes": lambda path: os.truncate(path, 100),
             "was written to after": lambda path: os.utime(path)}
    with place(mpi, program) as plain:
        want = plain.run(2, "part_shared", 20, shim=False)
    for word, change in spoil.items():
        with place(mpi, program) as here:
            killed = here.run_on_nodes(2, "part_shared", 20, 15, **everything)
            shared = here.prefix / "ckpt/step_15/shared.dat"
            assert shared.exists() and here.cached(), f"{here.tree()} {killed}"
            change(shared)
            got = here.run_on_nodes(2, "part_shared", 20, **everything)
            step = 15 if "written" in word else 10
            assert got.line("restart") == f"restart {step}", f"{word}: {got}"
            assert got.line("shared") == "shared whole", f"{word}: {got}"
            told = [line for line in got.err.splitlines() if str(shared) in line]
            assert len(told) == 1 and word in told[0], f"{word}: {got}"
            assert got.line("checksum") == want.line("checksum"), f"{word}: {want}\n{got}"


PATTERNS = ("collective", "independent", "view", "ordered", "preallocated", "header", "filled",
            "read", "nonblocking", "atomic", "split", "hdf5")


FORTRAN = {"writer": "fortran_files", "steps": 4}


def counted(mpi, program, pattern, io, writer="mpi_files", steps=20, **settings):
    """Runs it with the shim as without; returns how often the ranks agreed."""
    words = ("node_files", "hdf5", 4, 20) if pattern == "hdf5" else (writer, pattern, steps)
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(4, *words, shim=False, **io)
        got = finish(here.start_on_nodes(2, 2, *words, SCR_FLUSH="1",
                                         SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*", SCR_LEARN="1",
                                         SCR_DEBUG="1", **io, **settings))
        assert_same(want, got)
        assert_same_files(plain, here, got)
        told = [line for line in got.err.splitlines() if "different numbers" in line]
        assert not told, f"{pattern}: {got}"
        return int(re.search(r"(\d+) agreements", got.err).group(1))


def kinds_of_io(mpi):
    return [{"OMPI_MCA_io": "ompio"}, {"OMPI_MCA_io": "romio321"}] if mpi == "openmpi" else [{}]


@case
def calls_on_files_of_all_ranks_count_alike(mpi, program):
    """Each agreement compares the ranks' counts. SCR_SHARED=0 leaves these calls out."""
    for io in kinds_of_io(mpi):
        for pattern in PATTERNS:
            counted(mpi, program, pattern, io)
        without = counted(mpi, program, "preallocated", io, SCR_SHARED="0")
        with_files = counted(mpi, program, "preallocated", io)
        assert with_files >= without + 4 * 5, f"{io}: {with_files} agreements, else {without}"


@case
def calls_on_files_in_fortran_count_alike(mpi, program):
    for io in kinds_of_io(mpi):
        for pattern in PATTERNS:
            if pattern not in ("filled", "hdf5"):  # the calls of others, and a library's own
                counted(mpi, program, pattern, io, **FORTRAN)
        without = counted(mpi, program, "preallocated", io, SCR_SHARED="0", **FORTRAN)
        with_files = counted(mpi, program, "preallocated", io, **FORTRAN)
        assert with_files >= without + 4 * 5, f"{io}: {with_files} agreements, else {without}"


@case
def files_that_do_not_count_keep_nobody_waiting(mpi, program):
    """Files of some ranks, files that some ranks cannot open (OMPIO waits for ever then, with and
    without us), calls that fail."""
    for io in kinds_of_io(mpi):
        one = () if "ompio" in io.values() else ("missing-on-one",)
        for pattern in ("halves", "missing", "refused", *one):
            counted(mpi, program, pattern, io)


@case
def calls_on_files_count_where_several_threads_may_make_them(mpi, program):
    """Beside barriers of another thread, in any order with them; and what all ranks have written
    before such a call is known after it, though no other call says so."""
    for io in kinds_of_io(mpi):
        for settings in ({}, {"SCR_SHARED": "0"}):
            counted(mpi, program, "threads", io, **settings)
            counted(mpi, program, "asked", io, steps=30, **settings)
