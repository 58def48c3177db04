"""Files that ranks of several nodes write into their caches: what goes on in them that was not
learned, at once, by stopped ranks, and with kills."""

import os
import shutil
import signal

from support import (assert_same_files, data_files, finish, lines, nodes, place, ranks_of, told_but,
                     wait_for)

CASES = []
NODES, EACH = 4, 2
ROMIO = {"OMPI_MCA_io": "romio321"}
SETTINGS = {"SCR_LEARN": "1", "SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*", "SCR_FLUSH": "1",
            "SCR_CACHE_SIZE": "9"}
STEPS, AT = 6, 4
POSIX = ("pread", "read", "sizes", "stat", "reader", "shorter", "longer", "allocated", "unlinked",
         "unlinked-open", "rewritten", "mapped", "stream", "forked", "append")
MPI_IO = ("mpi-read", "mpi-read-all", "mpi-sizes", "mpi-shorter", "mpi-longer", "mpi-allocated",
          "mpi-deleted", "mpi-deleted-open")


def case(function):
    CASES.append(function)
    return function


def in_caches(here, name):
    """In how many caches a part of the file of each step is."""
    found = [[*here.nodes.node(node).rglob(f"step_{step}/{name}.dat")] for step in
             range(1, STEPS + 1) for node in range(NODES)]
    return [sum(map(bool, found[i:i + NODES])) for i in range(0, len(found), NODES)]


def as_without(mpi, program, *ways, during=lambda here, run: None, **settings):
    with place(mpi, program) as plain, place(mpi, program) as here:
        pause = plain.prefix / "pause"
        run = plain.start(NODES * EACH, "surprises", STEPS, AT, pause, *ways, shim=False,
                          **settings)
        wait_for(pause.exists, run)
        pause.unlink()
        want = finish(run)
        assert want.status == 0, f"{ways}: {want}"
        pause = here.prefix / "pause"
        run = here.start_on_nodes(NODES, EACH, "surprises", STEPS, AT, pause, *ways,
                                  **SETTINGS | settings)
        during(here, run)
        wait_for(pause.exists, run)
        found = {way: in_caches(here, way) for way in ways}
        pause.unlink()
        got = finish(run)
        print(mpi, settings, found, got.err, flush=True)
        assert (want.status, lines(want)) == (got.status, lines(got)), f"{found}: {want}\n{got}"
        assert_same_files(plain, here, (found, got))
        assert got.err.strip() == want.err.strip(), f"{found}: {got}"
        return found


@case
def surprises_by_posix(mpi, program):
    for way in POSIX:
        as_without(mpi, program, way)


@case
def surprises_by_mpi_io(mpi, program):
    for settings in [{}] + [ROMIO] * (mpi == "openmpi"):
        for way in MPI_IO:
            as_without(mpi, program, way, **settings)


def rank_of(here, rank, program):
    """Process id of a rank."""
    words = {f"{name}={rank}".encode() for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK")}
    for pid in ranks_of(here, program):
        with open(f"/proc/{pid}/environ", "rb") as environment:
            if words & set(environment.read().split(b"\0")):
                return pid
    raise AssertionError(f"rank {rank} not found")


def start(here, manner, *words, **settings):
    return here.start_on_nodes(NODES, EACH, "goes_on", manner, *words,
                               **SETTINGS | {"SCR_FLUSH": "0"} | settings)


def killed_at(here, manner, step, where, **settings):
    """Runs until that place and kills a rank there; returns from where it went on."""
    pause = here.prefix / "pause"
    mark = here.prefix / "mark"
    run = start(here, manner, 8, step, where, pause, **settings)
    wait_for(pause.exists, run)
    victim = rank_of(here, 7, "goes_on")
    if where == "read":  # in the way out, for which one rank keeps the others waiting
        os.kill(rank_of(here, 2, "goes_on"), signal.SIGSTOP)
        pause.unlink()
        wait_for(lambda: any((here.prefix / ".scr").rglob("pulled/*/list/6")), run)
    elif "SCR_TEST_PAUSE" in settings:
        wait_for(mark.exists, run)
    os.kill(victim, signal.SIGKILL)
    for pid in ranks_of(here, "goes_on"):
        os.kill(pid, signal.SIGCONT)
    got = finish(run)
    assert got.status != 0, f"{got}"
    for left in (pause, mark):
        left.unlink(missing_ok=True)
    return got


def killed_and_restarted(mpi, program, manner, where, scheme, lost=None, **settings):
    """A rank is killed in step 4, in the next run in step 6; in the last run all are there."""
    everything = {"SCR_COPY_TYPE": scheme, **settings}
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(NODES * EACH, "goes_on", manner, 8, shim=False)
        assert want.line("restart") == "restart 0", f"{want}"
        got = killed_at(here, manner, 4, where, **everything)
        assert got.line("restart") == "restart 0", f"{got}"
        newest = {"calm": (4,), "closed": (3, 4)}.get(where, (3,))
        got = killed_at(here, manner, 6, "calm", **everything)
        print(mpi, manner, where, scheme, lost, got.out, got.err, flush=True)
        assert got.line("damaged") is None, f"{where}: {got}"
        assert got.line("restart") in [f"restart {step}" for step in newest], f"{where}: {got}"
        if lost is not None:
            shutil.rmtree(here.nodes.node(lost))
            here.nodes.node(lost).mkdir(mode=0o700)
        got = finish(start(here, manner, 8, **everything | {"SCR_FLUSH": "1"}))
        print(got, flush=True)
        assert got.out == "restart 6\n" and got.status == 0, f"{where}: {got}"
        assert (lost is None) or "rebuilt" in got.err, f"{where}: {got}"
        before, after = data_files(plain.tree()), data_files(here.tree())
        wrong = {name for name, found in after.items() if before.get(name) != found}
        assert not wrong, f"files differ: {wrong}\n{got}"
        for step in (6, 7, 8):
            assert f"ckpt/step_{step}/all.dat" in after, f"{step}: {after}\n{got}"


@case
def killed_while_files_of_several_nodes_are_written(mpi, program):
    for manner, where in (("mpi", "middle"), ("posix", "closed"), ("posix", "calm"),
                          ("posix", "read")):
        killed_and_restarted(mpi, program, manner, where, "SINGLE")


@case
def files_of_several_nodes_of_which_one_is_lost(mpi, program):
    for number, scheme in enumerate(("PARTNER", "XOR", "RS")):
        for where in "middle", "read":
            manner = "posix" if where == "read" else "mpi"
            killed_and_restarted(mpi, program, manner, where, scheme, lost=number,
                                 SCR_SET_SIZE="4")


@case
def killed_in_a_flush_of_files_of_several_nodes(mpi, program):
    for point in "flush.staged", "flush.publish":
        with place(mpi, program) as plain, place(mpi, program) as here:
            plain.run(NODES * EACH, "goes_on", "posix", 8, shim=False)
            mark = here.prefix / "mark"
            flush = {"SCR_FLUSH": "4", "SCR_FLUSH_ASYNC": "1",
                     "SCR_TEST_PAUSE": f"{point}:{mark}"}
            got = killed_at(here, "posix", 4, "calm", **flush)
            got = finish(start(here, "posix", 8, SCR_FLUSH="1"))
            print(mpi, point, got, flush=True)
            assert got.out == "restart 4\n" and got.status == 0, f"{point}: {got}"
            assert_same_files(plain, here, got)


@case
def other_ranks_and_places_read_files_of_several_nodes(mpi, program):
    """Half as many ranks; as many on other nodes."""
    for ranks, formula in ((4, "RANK"), (8, "RANK % 4"), (8, "(RANK / 2 + 1) % 4")):
        with place(mpi, program) as plain, place(mpi, program) as here:
            plain.run(NODES * EACH, "goes_on", "posix", 8, shim=False)
            killed_at(here, "posix", 6, "calm")
            rank = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
            text = here.nodes.wrapper.read_text()
            own = f"node=$(({rank} / {EACH}))"
            assert own in text
            here.nodes.wrapper.write_text(
                text.replace(own, f"node=$(({formula.replace('RANK', rank)}))"))
            got = finish(here.start_on_nodes(NODES, ranks // NODES, "goes_on", "posix", 8,
                                             **SETTINGS))
            print(mpi, ranks, formula, got, flush=True)
            assert got.out == "restart 6\n" and got.status == 0, f"{formula}: {got}"
            before, after = data_files(plain.tree()), data_files(here.tree())
            wrong = {name for name, found in after.items() if before.get(name) != found}
            assert not wrong and "ckpt/step_6/all.dat" in after, f"{wrong}: {after}\n{got}"


@case
def files_of_several_nodes_that_are_not_to_be_shared(mpi, program):
    """Without what SCR does for shared files they are on the prefix, as ever."""
    found = as_without(mpi, program, "sizes", "pread", "mpi-read", SCR_SHARED="0")
    assert set(sum(found.values(), [])) == {0}, f"{found}"
