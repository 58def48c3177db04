"""What is learned of a file that ranks of several nodes write: whether it could be cached."""

import subprocess

from support import DIST, assert_same, assert_same_files, finish, place, wait_for

CASES = []
ROMIO = {"OMPI_MCA_io": "romio321"}
# The ways of `shares`, and what is learned of each where the MPI-IO is ROMIO, and OMPIO.
WAYS = {
    "pieces": ("OF_NODES",) * 2,
    "posix-strides": ("OF_NODES",) * 2,
    "longer": ("OF_NODES",) * 2,
    "rushed": ("OF_NODES",) * 2,
    "rushed-all": ("SIZES",) * 2,
    "overlaps": ("WRITERS",) * 2,
    "mapped": ("UNSEEN",) * 2,
    "headed": ("UNSEEN",) * 2,
    "turns": ("SIZES",) * 2,
    "single": ("TRIES_APART",) * 2,
    "all": ("TRIES_APART",) * 2,
    "emptied": ("TRIES_APART",) * 2,
    "later": ("TRIES_APART",) * 2,
    "blocks": ("TRIES_APART",) * 2,
    "blocks-all": ("TRIES_APART",) * 2,
    "again": ("TRIES_APART",) * 2,
    "gaps": ("TRIES_APART",) * 2,
    "filled": ("TRIES_APART",) * 2,
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
                                             SCR_SHARED_CACHE="0",
                                             SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*"))
            text = learned(here)
            words = text.split()
            assert got.status == 0 and verdicts[mpi == "openmpi"] in words, f"{way}: {text}\n{got}"


def in_caches(here, step):
    """Nodes that have a part of the file of that step in their cache."""
    return sum(any(here.nodes.node(node).rglob(f"step_{step}/all.dat")) for node in range(4))


def as_without(mpi, program, way, each, steps=5, **settings):
    """Returns in how many caches a part of each checkpoint was found at the end of the last one."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(4 * each, "shares", way, steps, shim=False, **settings)
        assert want.status == 0, f"{way}: {want}"
        pause = here.prefix / "pause"
        settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*", **settings}
        run = here.start_on_nodes(4, each, "shares", way, steps, pause, SCR_LEARN="1",
                                  SCR_SHARED_CACHE="1", SCR_FLUSH="1", SCR_CACHE_SIZE="9",
                                  **settings)
        wait_for(pause.exists, run)
        found = [in_caches(here, step) for step in range(1, steps + 1)]
        pause.unlink()
        got = finish(run)
        assert_same(want, got)
        if way != "overlaps":  # there nobody knows who is last
            assert_same_files(plain, here, got)
        return found


@case
def files_of_several_nodes_are_cached(mpi, program):
    for way, verdicts in WAYS.items():
        for settings in [{}] + [ROMIO] * (mpi == "openmpi"):
            verdict = verdicts[mpi == "openmpi" and not settings]
            # What MPI-IO does when it is told to write each node's own is seen on the prefix first.
            seen = 2 if verdict.startswith("TRIES") else 1
            parts = 4 if verdict == "OF_NODES" or seen == 2 else 0
            found = as_without(mpi, program, way, 2, **settings)
            assert found == [0] * seen + [parts] * (5 - seen), f"{way} {settings}: {found}"


@case
def files_of_half_the_ranks_are_cached(mpi, program):
    """By their calls on the file these ranks know the order in which they have written, and how
    long it is; the others take no part in them."""
    for way in ("all", "again", "filled", "passed-on", "asked", "emptied"):
        for settings in [{}] + [ROMIO] * (mpi == "openmpi"):
            found = as_without(mpi, program, f"half-{way}", 2, **settings)
            assert found == [0] * 2 + [4] * 3, f"{way} {settings}: {found}"


@case
def files_that_get_their_name_when_they_are_complete_are_cached(mpi, program):
    """One rank renames the file, or its directory: each node's part gets the name in its cache. A
    pattern need not have the temporary name of the file; in the directory each rank may have a file
    of its own."""
    whole = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/all.dat"}
    for way, pattern in (("renamed", {}), ("renamed-directory", {}), ("half-renamed", {}),
                         ("renamed", whole), ("half-renamed", whole),
                         ("renamed-directory-beside", {})):
        for settings in [{}] + [ROMIO] * (mpi == "openmpi"):
            found = as_without(mpi, program, way, 2, 7, **pattern, **settings)
            assert found[3:] == [4] * 4, f"{way} {pattern} {settings}: {found}"


@case
def file_that_is_emptied_and_written_again_after_its_seal(mpi, program):
    for settings in [{}] + [ROMIO] * (mpi == "openmpi"):
        found = as_without(mpi, program, "clobbered", 1, 4, **settings)
        assert found[:2] == [0, 0], f"{settings}: {found}"


@case
def file_whose_header_lies_there_long_before_the_rest(mpi, program):
    """The header alone looks like a whole checkpoint once, on a busy machine more than once; that
    does not keep all later ones out of the caches."""
    for settings in [{}] + [ROMIO] * (mpi == "openmpi"):
        found = as_without(mpi, program, "late", 1, 7, **settings)
        assert found[:3] == [0] * 3 and 4 in found, f"{settings}: {found}"


@case
def file_that_one_rank_deletes_right_before_all_open_it(mpi, program):
    """In the second run an older file lies on the prefix."""
    for settings in [{}] + [ROMIO] * (mpi == "openmpi"):
        with place(mpi, program) as plain, place(mpi, program) as here:
            for _ in range(2):
                want = plain.run(4, "shares", "deleted", 4, shim=False, **settings)
                got = finish(here.start_on_nodes(4, 1, "shares", "deleted", 4, SCR_LEARN="1",
                                                 SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*",
                                                 SCR_CACHE_SIZE="9", **settings))
                assert want.status == got.status == 0, f"{want}\n{got}"
                assert_same_files(plain, here, got)
