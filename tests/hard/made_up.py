"""An MPI that somebody has made up, of one process, with the handles of MPICH: it is tried at the
start, and served only if it does what it is to do. And one that does not begin by MPI_Init."""

import subprocess

import support
from support import data_files, finish, messages, place

CASES = []
SOURCE = support.PROGRAMS / "alone" / "odd_mpi.c"
# What it does otherwise, and what is said of it.
ODD = {
    "level": "MPI_Query_thread says 77",
    "compare": "MPI_IDENT is 201",
    "split": "MPI_Comm_split without a color",
    "split error": "MPI_Comm_split is 5, not 0",
    "max": "MPI_MAX is",
    "reduce": "what MPI_Allreduce gives",
    "status": "MPI_SOURCE is",
}


def case(function):
    CASES.append(function)
    return function


def built(here, *options):
    """The program `steady` with that MPI."""
    words = subprocess.run(["mpicc.mpich", "-show"], text=True, check=True,
                           capture_output=True).stdout.split()
    headers = [word for word in words if word.startswith("-I")]
    library, made = here.base / "libodd.so", here.base / "steady"
    subprocess.run(["gcc", "-Wall", "-Wextra", "-O1", "-shared", "-fPIC", *options, "-o", library,
                    SOURCE], check=True)
    subprocess.run(["gcc", "-O1", *headers, "-o", made, support.PROGRAMS / "steady.c", library,
                    f"-Wl,-rpath,{here.base}"], check=True)
    return [str(made), "20", "5", "-1"]


def run(here, command, **settings):
    return finish(here.start(1, "steady", command=command, **settings))


@case
def made_up_mpi_that_is_right(mpi, program):
    """Nothing but what it does counts: it is served."""
    with place(mpi, program) as here:
        got = run(here, built(here), SCR_FLUSH="0", SCR_DEBUG="1")
        assert got.status == 0 and got.err.count(" is sealed as dataset") == 4, f"{got}"


@case
def made_up_mpi_that_is_odd(mpi, program):
    """The program runs as without SCR, and one line has the cause."""
    with place(mpi, program) as here:
        want = run(here, built(here), shim=False)
    unmarked = {"ODD": ""}, ["-DWITHOUT_A_MARK"], "it has no mark of Open MPI"
    for settings, options, said in (*(({"ODD": odd}, [], ODD[odd]) for odd in ODD), unmarked):
        with place(mpi, program) as here:
            got = run(here, built(here, *options), **settings)
            assert (got.status, got.out) == (want.status, want.out), f"{want}\n{got}"
            assert len(messages(got)) == 1 and said in got.err, f"{got}"
            assert 'this MPI ("Odd MPI 9000 of nobody") cannot be served' in got.err, f"{got}"
            assert got.err.endswith(" (SCR-1201)\n"), f"{got}"
            assert not here.cached() and len(data_files(here.tree())) == 4, f"{got}"


@case
def made_up_mpi_where_a_restart_is_required(mpi, program):
    """The run ends rather than that it begins anew."""
    with place(mpi, program) as here:
        command = built(here)
        assert run(here, command, SCR_FLUSH="0").status == 0
        for odd in ("reduce", "split"):
            got = run(here, command, ODD=odd, SCR_RESTART_REQUIRED="1")
            assert got.status == 1 and not got.out, f"{got}"
            assert len(messages(got)) == 1 and ODD[odd] in got.err, f"{got}"
            assert "SCR_RESTART_REQUIRED=1: the run ends before" in got.err, f"{got}"


@case
def begun_by_a_session(mpi, program):
    """The program runs as without SCR, and one line says so."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want, got = plain.run(4, "sessions", shim=False), here.run(4, "sessions")
        assert want.status == 0 and want.line("checksum"), f"{want}"
        assert (got.status, got.out) == (want.status, want.out), f"{want}\n{got}"
        assert len(messages(got)) == 1 and "MPI_Session_init" in got.err, f"{got}"
        assert not here.cached() and data_files(here.tree()) == data_files(plain.tree()), f"{got}"


@case
def session_of_a_library_before_mpi_init(mpi, program):
    """Nothing is told, and the run is served; without MPI_Init it ends where that is not to be."""
    with place(mpi, program) as here:
        for required in ("0", "1"):
            got = here.run(4, "sessions", "library", SCR_LEARN="0", SCR_RESTART_REQUIRED=required)
            assert got.status == 0 and not messages(got), f"{got}"
            assert (here.prefix / ".scr/index.scr").exists(), f"{got}"
        got = here.run(4, "sessions", SCR_RESTART_REQUIRED="1")
        assert got.status != 0 and not got.line("checksum"), f"{got}"
        assert len(messages(got)) == 1 and "SCR_RESTART_REQUIRED=1: the run" in got.err, f"{got}"
