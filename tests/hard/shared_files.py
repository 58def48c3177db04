"""What is learned of a file that ranks of several nodes write: whether it could be cached."""

import subprocess

from support import DIST, finish, place

CASES = []
# The ways of `shares`, and what is learned of each where the MPI-IO is ROMIO, and OMPIO.
WAYS = {
    "pieces": ("OF_NODES",) * 2,
    "posix-strides": ("OF_NODES",) * 2,
    "overlaps": ("WRITERS",) * 2,
    "mapped": ("UNSEEN",) * 2,
    "turns": ("SIZES",) * 2,
    "single": ("OF_NODES_APART",) * 2,
    "all": ("OF_NODES_APART",) * 2,
    "later": ("OF_NODES_APART",) * 2,
    "blocks": ("OF_NODES_APART",) * 2,
    "blocks-all": ("OF_NODES_APART",) * 2,
    "filled": ("OF_NODES_APART",) * 2,
    "strides": ("TOO_FINE",) * 2,
    "read-back": ("READERS",) * 2,
}


def case(function):
    CASES.append(function)
    return function


def learned(here):
    """The words in which the prefix keeps what was learned of the one name."""
    file = here.prefix / ".scr" / "learned.scr"
    text = subprocess.run([DIST / "bin" / "scr", "print", file], capture_output=True, text=True,
                          check=True).stdout
    return text


@case
def verdicts_on_files_of_several_nodes(mpi, program):
    for way, verdicts in WAYS.items():
        with place(mpi, program) as here:
            got = finish(here.start_on_nodes(4, 1, "shares", way, SCR_LEARN="1",
                                             SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*"))
            text = learned(here)
            words = text.split()
            assert got.status == 0 and verdicts[mpi == "openmpi"] in words, f"{way}: {text}\n{got}"
