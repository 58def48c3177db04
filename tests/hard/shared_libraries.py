"""Files that ranks of several nodes write together by HDF5: byte for byte as without SCR, and in
the caches where what the library does allows it."""

import os
import pathlib
import shutil
import signal

from shared_files import ROMIO, learned
from support import (assert_same, assert_same_files, finish, lines, messages, nodes, place,
                     ranks_of, wait_for)

CASES = []
NODES, STEPS = 4, 5
SETTINGS = {"SCR_LEARN": "1", "SCR_SHARED_CACHE": "1", "SCR_CACHE_SIZE": "9",
            "SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*"}
AGAIN_SETTINGS = {"SCR_CHECKPOINT_PATTERN": "ckpt/all_*"}
# Where ROMIO sieves it fills gaps that nobody has written with what its memory has.
NO_SIEVING = "romio_cb_write disable\nromio_ds_write disable\n"


def case(function):
    CASES.append(function)
    return function


def in_caches(here, step):
    """Nodes that have a part of the file of that step in their cache."""
    return sum(any(here.nodes.node(node).rglob(f"step_{step}/all.*")) for node in range(NODES))


def in_caches_again(here, name):
    """How many checkpoints have a file of that name in each cache."""
    return [sum(1 for _ in here.nodes.node(node).rglob(name)) for node in range(NODES)]


def as_without(mpi, program, way, each, **settings):
    """Returns in how many caches a part of each checkpoint was found at the end of the last one,
    and what was learned."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        if "zip" in way:
            (plain.base / "hints").write_text(NO_SIEVING)
            settings = settings | {"ROMIO_HINTS": str(plain.base / "hints")}
        want = plain.run(NODES * each, "hdf5_files", way, STEPS, shim=False, **settings)
        assert want.status == 0, f"{way}: {want}"
        pause = here.prefix / "pause"
        run = here.start_on_nodes(NODES, each, "hdf5_files", way, STEPS, STEPS, pause,
                                  **SETTINGS | {"SCR_FLUSH": "1"} | settings)
        wait_for(pause.exists, run)
        found = [in_caches(here, step) for step in range(1, STEPS + 1)]
        pause.unlink()
        got = finish(run)
        assert_same(want, got)
        assert_same_files(plain, here, got)
        # Of files that never are in the caches the last line tells.
        untold = "\n".join(line for line in got.err.splitlines() if "SCR-1016" not in line)
        assert untold.strip() == want.err.strip(), f"{way}: {got}"
        assert ("SCR-1016" in got.err) == (sum(found) == 0), f"{way} {found}: {got}"
        return found, learned(here)


def read_where(here, name):
    """Where the ranks have the file open, one of each."""
    ranks = [pathlib.Path(f"/proc/{rank}/fd") for rank in ranks_of(here, "hdf5_files")]
    found = [os.readlink(link) for rank in ranks for link in list(rank.iterdir())]
    return ["prefix" if here.prefix in pathlib.Path(it).parents else "cache"
            for it in found if it.endswith(name)]


def goes_on(mpi, program, way, each, lost, at=None, **settings):
    """A rank is killed, and with a number of a node that one's cache is gone, too. The checkpoint
    from which the run goes on was in the caches alone, and it is read `at` this place."""
    ranks, settings = NODES * each, SETTINGS | settings
    with place(mpi, program) as plain, place(mpi, program) as here:
        io = {name: value for name, value in settings.items() if not name.startswith("SCR_")}
        want = plain.run(ranks, "hdf5_files", way, STEPS, shim=False, **io)
        assert want.status == 0, f"{way}: {want}"
        pause = here.prefix / "pause"
        run = here.start_on_nodes(NODES, each, "hdf5_files", way, STEPS, STEPS - 1, pause,
                                  SCR_FLUSH="0", **settings)
        wait_for(pause.exists, run)
        found = ranks_of(here, "hdf5_files")
        assert len(found) == ranks, f"ranks not found: {found}"
        os.kill(found[-1], signal.SIGKILL)
        finish(run)
        pause.unlink()
        newest = here.prefix / f"ckpt/step_{STEPS - 1}/all.h5"
        assert not newest.exists(), f"{here.tree()}"
        if lost is not None:
            shutil.rmtree(here.nodes.node(lost))
            here.nodes.node(lost).mkdir(mode=0o700)
        run = here.start_on_nodes(NODES, each, "hdf5_files", way, STEPS, SCR_FLUSH="1",
                                  HOLD=str(pause), **settings)
        wait_for(pause.exists, run)
        found = read_where(here, newest.name)
        pause.unlink()
        got = finish(run)
        # A thread of ours may be comparing what it offers with its checksum.
        read = len(found) >= ranks and set(found) == {at}
        assert at is None or read, f"{way} {lost}: read at {found}\n{got}"
        assert got.status == 0 and got.line("restart") == f"restart {STEPS - 1}", f"{got}"
        assert ("rebuilt" in got.err) == (lost is not None), f"{got}"
        assert_same_files(plain, here, got)
        return got


# Ranks on each node, and the nodes that have a part.
WAYS = {
    "single": (1, NODES),
    "together-flush": (2, NODES),
    "together-chunks": (1, NODES),
    "together-chunks-cut": (2, NODES),
    "together-zip": (1, NODES),
    "together-zip-cut": (1, 0),  # who has a chunk reads what others have of it
    "together-metadata": (1, NODES),
    "single-back": (1, NODES),
    "together-back": (1, 0),  # one rank reads for others, but not of OMPIO
    "single-anew": (1, 0),  # the first rank reads what all have written
    "together-fill": (2, NODES),
    "half-single": (2, NODES),
    "half-together-flush": (2, NODES),
    "half-together-chunks": (2, NODES),
    "half-together-fill": (2, NODES),
}


@case
def hdf5_files_of_several_nodes(mpi, program):
    for way, (each, nodes) in WAYS.items():
        for settings in [{}] + [ROMIO] * (mpi == "openmpi"):
            found, text = as_without(mpi, program, way, each, **settings)
            is_ompio = mpi == "openmpi" and not settings
            there = NODES if way == "together-back" and is_ompio else nodes
            expected = [0, 0] + [there] * (STEPS - 2)
            assert found == expected, f"{way} {each} {settings}: cached {found}\n{text}"


@case
def hdf5_files_of_several_nodes_after_a_failure(mpi, program):
    goes_on(mpi, program, "together-chunks", 1, None, "cache")
    goes_on(mpi, program, "single", 2, 2, "cache", SCR_COPY_TYPE="XOR")
    if mpi == "openmpi":
        goes_on(mpi, program, "together-metadata", 1, 1, "cache", SCR_COPY_TYPE="PARTNER", **ROMIO)


@case
def hdf5_files_of_several_nodes_without_room(mpi, program):
    """No node can take its part: the files that would be cached go to the prefix, and it is told of
    the first of them."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(NODES, "hdf5_files", "together", STEPS, shim=False)
        here.nodes = nodes.Nodes(here.base / "nodes", NODES, 1)
        (here.prefix / ".scrconf").write_text(f"STORE={here.nodes.here} CAPACITY=1MB\n")
        got = finish(here.start_on_nodes(NODES, 1, "hdf5_files", "together", STEPS,
                                         **SETTINGS | {"SCR_FLUSH": "1"}))
        (here.prefix / ".scrconf").unlink()
        assert (want.status, lines(want)) == (got.status, lines(got)), f"{want}\n{got}"
        assert_same_files(plain, here, got)
        told = messages(got)
        assert len(told) == 1 and "no room for all of checkpoint 3" in told[0], f"{got}"


# The way, the checkpoints, and how many of the names are cached then: the first one of a name goes
# to the prefix, and the second one, for which MPI-IO is told how to write.
AGAIN = [("single-again1", 6, {"all_a.h5": 4}),
         ("single-again1-truncated", 6, {"all_a.h5": 4}),
         ("together-chunks-again1", 5, {"all_a.h5": 3}),
         ("single-again2", 8, {"all_a.h5": 2, "all_b.h5": 2})]


@case
def hdf5_files_that_are_written_again_under_their_names(mpi, program):
    """HDF5 opens the older file, asks how long it is, and empties it."""
    for way, steps, cached in AGAIN:
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(NODES, "hdf5_files", way, steps, shim=False)
            assert want.status == 0, f"{way}: {want}"
            pause = here.prefix / "pause"
            run = here.start_on_nodes(NODES, 1, "hdf5_files", way, steps, steps, pause,
                                      **SETTINGS | AGAIN_SETTINGS | {"SCR_FLUSH": "1"})
            wait_for(pause.exists, run)
            found = {name: in_caches_again(here, name) for name in cached}
            pause.unlink()
            got = finish(run)
            assert_same(want, got)
            assert_same_files(plain, here, got)
            assert got.err.strip() == "", f"{way}: {got}"
            expected = {name: [count] * NODES for name, count in cached.items()}
            assert found == expected, f"{way}: {found}\n{learned(here)}"


@case
def hdf5_files_under_their_names_that_stay_on_the_prefix(mpi, program):
    """One rank copies what lies there before all write it anew: it reads what others have written.
    One rank makes the file by itself: others may read its header too early, and mostly do not by
    OMPIO. Or all ranks are of one node. No checkpoint is given up."""
    for way, nodes in (("single-again1-kept", NODES), ("single-again1-serial", NODES),
                       ("single-again1", 1)):
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(NODES, "hdf5_files", way, 7, shim=False)
            got = finish(here.start_on_nodes(nodes, NODES // nodes, "hdf5_files", way, 7,
                                             **SETTINGS | AGAIN_SETTINGS | {"SCR_FLUSH": "0"}))
            assert_same(want, got)
            assert_same_files(plain, here, got)
            others = [text for text in messages(got)
                      if "SCR-2008" not in text and "SCR-1016" not in text]
            assert others == [], f"{way} on {nodes}: {got}"


@case
def hdf5_files_under_their_names_after_a_failure(mpi, program):
    """A rank is killed, and a node's cache is gone: the newest was in the caches alone. Of two
    names the second one completes a checkpoint; before it the first is not known to be all."""
    for way, steps, lost, scheme, left in (("single-again1", 6, 1, "XOR", 5),
                                           ("together-again1", 5, None, "SINGLE", 4),
                                           ("single-again2", 8, 3, "PARTNER", 6)):
        settings = SETTINGS | AGAIN_SETTINGS | {"SCR_COPY_TYPE": scheme}
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(NODES, "hdf5_files", way, steps, shim=False)
            assert want.status == 0, f"{way}: {want}"
            pause = here.prefix / "pause"
            run = here.start_on_nodes(NODES, 1, "hdf5_files", way, steps, steps - 1, pause,
                                      SCR_FLUSH="0", **settings)
            wait_for(pause.exists, run)
            os.kill(ranks_of(here, "hdf5_files")[-1], signal.SIGKILL)
            finish(run)
            pause.unlink()
            if lost is not None:
                shutil.rmtree(here.nodes.node(lost))
                here.nodes.node(lost).mkdir(mode=0o700)
            got = finish(here.start_on_nodes(NODES, 1, "hdf5_files", way, steps, SCR_FLUSH="1",
                                             **settings))
            assert got.status == 0 and got.line("restart") == f"restart {left}", f"{got}"
            assert ("rebuilt" in got.err) == (lost is not None), f"{got}"
            assert_same_files(plain, here, got)
