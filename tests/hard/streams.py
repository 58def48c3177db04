"""Collective calls on communicators of the program's own, where several threads may make them."""

import pathlib

from support import assert_same, assert_same_files, messages, place

CASES = []
MANNERS = ("alone", "backward", "made", "crossed", "sits", "mixed")
# Debian's mpi4py is for Open MPI.
PYTHON = ("/usr/bin/python3", pathlib.Path(__file__).parent / "programs" / "on_duplicate.py")
LIBRARIES = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}


def case(function):
    CASES.append(function)
    return function


def killed_after_three(mpi, program, *words, command=None):
    """The restart goes on from the third checkpoint."""
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        ask = {"command": command(20)} if command else {}
        want = plain.run(2, *words, 20, 5, shim=False, **ask)
        assert want.status == 0, f"{want}"
        ask = {"command": command(20, 15)} if command else {}
        killed = shimmed.run(2, *words, 20, 5, 15, **ask)
        assert killed.status != 0 and not messages(killed), f"{killed}"
        ask = {"command": command(20)} if command else {}
        got = shimmed.run(2, *words, 20, 5, **ask)
        assert got.line("restart") == "restart 15", f"{words}: {got}"
        assert got.line("checksum") == want.line("checksum"), f"{words}: {want}\n{got}"


@case
def killed_on_a_duplicate_of_the_world(mpi, program):
    for how in MANNERS:
        killed_after_three(mpi, program, "on_duplicates", how)


@case
def several_threads_on_several_duplicates(mpi, program):
    """Nothing hangs, nothing is told, with more ranks than cores and checkpoints all the time."""
    for how in ("crossed", "sits", "mixed"):
        with place(mpi, program) as plain, place(mpi, program) as shimmed:
            want = plain.run(3, "on_duplicates", how, 90, 3, shim=False)
            got = shimmed.run(3, "on_duplicates", how, 90, 3, SCR_FLUSH="1")
            assert_same(want, got)
            assert_same_files(plain, shimmed, got)
            assert not messages(got), f"{how}: {got}"


@case
def killed_on_a_duplicate_of_mpi4py(mpi, program):
    if mpi != "openmpi":
        return
    def command(*arguments):
        return ["mpirun.openmpi", "-n", "2", *map(str, PYTHON), *map(str, arguments)]
    killed_after_three(mpi, program, "python", command=command)


@case
def killed_with_the_functions_of_a_handle(mpi, program):
    """Python's ctypes, Julia: what is looked up in the library itself is ours all the same."""
    script = (PYTHON[0], PYTHON[1].with_name("by_handle.py"))
    for manner in ("local", "global"):
        def command(*arguments):
            words = (f"mpirun.{mpi}", "-n", "4", *script, LIBRARIES[mpi], manner, *arguments)
            return list(map(str, words))
        killed_after_three(mpi, program, "python", command=command)
