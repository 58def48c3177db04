"""Files that the ranks of a node write together: cached from the second checkpoint on, protected,
and in the end as without SCR. Two ranks on each of four nodes."""

import os
import shutil
import signal

from support import (assert_same, assert_same_files, finish, messages, place, ranks_of,
                     wait_for)

CASES = []
NODES, EACH, STEPS = 4, 2, 30
RANKS = NODES * EACH
PATTERN = "ckpt/step_{id}/*"
ROMIO = {"OMPI_MCA_io": "romio321"}


def case(function):
    CASES.append(function)
    return function


def start(here, manner, *pause, **settings):
    words = [manner, EACH, STEPS, *pause]
    return here.start_on_nodes(NODES, EACH, "node_files", *words,
                               **{"SCR_CHECKPOINT_PATTERN": PATTERN, "SCR_LEARN": "1",
                                  "SCR_CACHE_SIZE": "9"} | settings)


def cached(here, step):
    """Which nodes have the file of their ranks of this checkpoint in their cache."""
    return [number for number in range(NODES)
            if any(here.nodes.node(number).rglob(f"step_{step}/node_{number}.dat"))]


def is_known(here, step):
    """Whether node 0 knows that this checkpoint is complete."""
    folders = [file.parents[2] / ".scr" for file in
               here.nodes.node(0).rglob(f"step_{step}/node_0.dat")]
    return any((folder / mark).exists() for folder in folders for mark in ("CONFIRMED", "TRUSTED"))


def as_without(mpi, program, manner, **settings):
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(RANKS, "node_files", manner, EACH, STEPS, shim=False, **settings)
        assert want.status == 0, f"{manner}: {want}"
        pause = here.prefix / "pause"
        run = start(here, manner, 17, pause, SCR_FLUSH="1", **settings)
        wait_for(pause.exists, run)
        found = {step: cached(here, step) for step in (5, 10, 15)}
        pause.unlink()
        got = finish(run)
        every = list(range(NODES))
        assert found == {5: [], 10: every, 15: every}, f"{manner}: cached {found}\n{got}"
        assert_same(want, got)
        assert got.err.strip() == want.err.strip(), f"{manner}: {got}"
        assert_same_files(plain, here, got)


@case
def files_of_a_node_by_mpi_io(mpi, program):
    as_without(mpi, program, "mpiio")
    as_without(mpi, program, "hdf5")
    if mpi == "openmpi":
        as_without(mpi, program, "mpiio", **ROMIO)
        as_without(mpi, program, "hdf5", **ROMIO)


@case
def files_of_a_node_by_turns(mpi, program):
    for manner in ("subfile", "append", "baton"):
        as_without(mpi, program, manner)


@case
def files_of_a_node_at_once(mpi, program):
    for manner in ("pwrite", "mapping", "threads", "dup", "fork"):
        as_without(mpi, program, manner)


@case
def files_of_a_node_that_is_lost(mpi, program):
    """Ranks crash, then a node's cache is gone, too: it is rebuilt, and the run goes on from there.
    None of the newer checkpoints was on the prefix."""
    schemes = {"PARTNER": "subfile", "XOR": "hdf5", "RS": "mapping"}
    for scheme, manner in schemes.items():
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(RANKS, "node_files", manner, EACH, STEPS, shim=False)
            pause = here.prefix / "pause"
            everything = {"SCR_COPY_TYPE": scheme, "SCR_FLUSH": "0"}
            for lost in (None, 2):
                at = 17 if lost is None else 22
                run = start(here, manner, at, pause, **everything)
                wait_for(lambda at=at: pause.exists() and is_known(here, at // 5 * 5), run)
                ranks = ranks_of(here, "node_files")
                assert len(ranks) == RANKS, f"ranks not found: {ranks}"
                os.kill(ranks[-1], signal.SIGKILL)
                got = finish(run)
                first = "restart 0" if lost is None else "restart 15"
                assert got.line("restart") == first, f"{scheme}: {got}"
                pause.unlink()
                if lost is not None:
                    shutil.rmtree(here.nodes.node(lost))
                    here.nodes.node(lost).mkdir(mode=0o700)
            assert not (here.prefix / "ckpt/step_20/node_0.dat").exists(), f"{here.tree()}"
            got = finish(start(here, manner, **everything | {"SCR_FLUSH": "1"}))
            assert "rebuilt" in got.err and got.line("restart") == "restart 20", f"{scheme}: {got}"
            assert got.line("checksum") == want.line("checksum"), f"{scheme}: {want}\n{got}"
            assert_same_files(plain, here, got)


@case
def file_of_a_node_that_is_written_again_where_it_lies(mpi, program):
    """It stays on the prefix: each rank would change a copy of its own, and see how long the older
    one was."""
    for how in ("emptied", "changed"):
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(4, "under_one_name", how, 5, shim=False)
            got = finish(here.start_on_nodes(1, 4, "under_one_name", how, 5, SCR_LEARN="1",
                                             SCR_CHECKPOINT_PATTERN="ckpt/state.dat"))
            assert_same(want, got)
            assert_same_files(plain, here, got)
            told = messages(got)
            assert len(told) == 1 and "SCR-2008" in told[0], f"{how}: {got}"


@case
def file_of_a_node_that_an_earlier_run_has_left(mpi, program):
    """With a number in its name: it goes to the prefix, and those of the next steps do not."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        for one in (plain, here):
            (one.prefix / "ckpt").mkdir()
            (one.prefix / "ckpt" / "step_3.dat").write_bytes(bytes(5 << 20))
        want = plain.run(4, "under_one_name", "numbered", 6, shim=False)
        pause = here.prefix / "pause"
        run = here.start_on_nodes(1, 4, "under_one_name", "numbered", 6, pause, SCR_LEARN="1",
                                  SCR_CHECKPOINT_PATTERN="ckpt/step_{id}.dat", SCR_CACHE_SIZE="9")
        wait_for(pause.exists, run)
        found = [any(here.nodes.node(0).rglob(f"step_{step}.dat")) for step in range(1, 7)]
        pause.unlink()
        got = finish(run)
        assert_same(want, got)
        assert_same_files(plain, here, got)
        assert found == [False, True, False, True, True, True], f"{found} {got}"
        assert got.err.strip() == "", got
