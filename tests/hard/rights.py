"""Files that the program has forbidden itself to write or read, by ranks whom rights bind: those
of an ordinary user, or of a root without the capabilities that are above them."""

from support import assert_same_files, finish, lines, place

CASES = []
# Nor can what is larger than that be written, which is less than our files of names ask for.
BOUND = ["prlimit", "--fsize=33554432", "setpriv", "--bounding-set=-all", "--inh-caps=-all"]


def case(function):
    CASES.append(function)
    return function


def run(here, *arguments, **settings):
    command = [f"mpirun.{here.mpi}", "-n", "2", *BOUND, here.program("rights"), *arguments]
    return finish(here.start(2, "rights", command=command, **settings))


@case
def files_whose_rights_bind_their_owner(mpi, program):
    """What may be done to them is the same as without us, and they are there after a kill."""
    for rights in ("0444", "0200", "0000"):
        with place(mpi, program) as plain, place(mpi, program) as here:
            for arguments in ([rights, "die"], [rights]):
                want = run(plain, *arguments, shim=False)
                got = run(here, *arguments, SCR_DEBUG="1")
                both = [[line for line in lines(outcome) if line.startswith("rank")]
                        for outcome in (want, got)]
                assert both[0] == both[1] and both[0], f"{rights}\n{want}\n{got}"
            assert "is in the cache" in got.err, f"{got}"
            assert_same_files(plain, here, got)
