"""Files that ranks of several nodes write into their caches: what goes on in them that was not
learned, at once, by stopped ranks, and with kills."""

import contextlib
import os
import shutil
import signal

from support import (assert_same_files, data_files, finish, lines, nodes, place, ranks_of, told_but,
                     wait_for)

CASES = []
NODES, EACH = 4, 2
ROMIO = {"OMPI_MCA_io": "romio321"}
SETTINGS = {"SCR_LEARN": "1", "SCR_SHARED_CACHE": "1",
            "SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*", "SCR_FLUSH": "1",
            "SCR_CACHE_SIZE": "9"}
STEPS, AT = 6, 4
POSIX = ("pread", "read", "sizes", "stat", "reader", "shorter", "longer", "allocated", "unlinked",
         "unlinked-open", "rewritten", "mapped", "stream", "forked", "forked-reader", "append",
         "renamed", "stopped", "busy", "asked", "large")
MPI_IO = ("mpi-read", "mpi-read-all", "mpi-sizes", "mpi-shorter", "mpi-longer", "mpi-allocated",
          "mpi-deleted")


def case(function):
    CASES.append(function)
    return function


def in_caches(here, name):
    """In how many caches a part of the file of each step is."""
    found = [[*here.nodes.node(node).rglob(f"step_{step}/{name}.dat")] for step in
             range(1, STEPS + 1) for node in range(NODES)]
    return [sum(map(bool, found[i:i + NODES])) for i in range(0, len(found), NODES)]


def plain_run(here, pause, *ways, **settings):
    return here.start(NODES * EACH, "surprises", STEPS, AT, pause, *ways, shim=False, **settings)


def run_on_nodes(here, pause, *ways, mib=None, **settings):
    # A RAM disk is one rank's alone.
    count, each = (NODES * EACH, 1) if mib else (NODES, EACH)
    if mib:
        here.nodes = nodes.Nodes(here.base / "nodes", count, each, mib)
    return here.start_on_nodes(count, each, "surprises", STEPS, AT, pause, *ways,
                               **SETTINGS | settings)


def as_without(mpi, program, *ways, mib=None, but=(), **settings):
    """Returns in how many caches a part of each file of each step is at the end. SCR says nothing,
    `but` what has one of these words."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        pause = plain.prefix / "pause"
        run = plain_run(plain, pause, *ways, **settings)
        wait_for(pause.exists, run)
        pause.unlink()
        want = finish(run)
        assert want.status == 0, f"{ways}: {want}"
        pause = here.prefix / "pause"
        run = run_on_nodes(here, pause, *ways, mib=mib, **settings)
        wait_for(pause.exists, run)
        found = {way: in_caches(here, way) for way in ways}
        pause.unlink()
        got = finish(run)
        told = told_but(got, *but)
        assert (want.status, lines(want)) == (got.status, lines(got)), f"{found}: {want}\n{got}"
        assert_same_files(plain, here, (found, got))
        assert not told, f"{found}: {got}"
        return found


@case
def surprises_by_posix(mpi, program):
    for way in POSIX:
        # UCX below MPICH writes jumps of its own over the hooks of mmap.
        if (mpi, way) != ("mpich", "mapped"):
            found = as_without(mpi, program, way)
            assert found[way][1:3] == [NODES] * 2 or way == "renamed", f"{way}: {found}"


@case
def surprises_by_mpi_io(mpi, program):
    for settings in [{}] + [ROMIO] * (mpi == "openmpi"):
        for way in MPI_IO:
            if (mpi, way, settings) == ("openmpi", "mpi-allocated", {}):
                continue  # OMPIO crashes by itself
            found = as_without(mpi, program, way, **settings)
            assert found[way][2] == NODES, f"{way}: {found}"


@case
def surprises_in_two_files_at_once(mpi, program):
    found = as_without(mpi, program, "two", "pread", "mpi-read")
    assert found["two"] == [0, NODES, NODES, 0, 0, 0], f"{found}"


@case
def node_without_room_for_its_part(mpi, program):
    """The store is full in the middle of the file: its ranks bring it to the prefix."""
    as_without(mpi, program, "large", mib=8, but=["no room"])


@case
def file_whose_bytes_two_nodes_write_at_a_time(mpi, program):
    """Nobody knows which are the later ones: that checkpoint is given up, with one message."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        outcomes = []
        for one, start_it in ((plain, plain_run), (here, run_on_nodes)):
            pause = one.prefix / "pause"
            run = start_it(one, pause, "conflict")
            wait_for(pause.exists, run)
            pause.unlink()
            outcomes.append(finish(run))
        want, got = outcomes
        assert (want.status, lines(want)) == (got.status, lines(got)), f"{want}\n{got}"
        assert got.err.count("SCR:") == 1 and "checkpoint 4 is not valid" in got.err, f"{got}"
        before, after = ({name: found for name, found in data_files(one.tree()).items()
                          if "/step_4/" not in name} for one in (plain, here))
        assert before == after, f"files differ: {sorted(before.items() ^ after.items())}\n{got}"


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
    run = start(here, manner, 8, step, where, pause, **settings)
    wait_for(pause.exists, run)
    victim = rank_of(here, 7, "goes_on")
    if where == "read":  # in the way out, for which one rank keeps the others waiting
        os.kill(rank_of(here, 2, "goes_on"), signal.SIGSTOP)
        pause.unlink()
        wait_for(lambda: any((here.prefix / ".scr").rglob("pulled/*/list/6")), run)
    os.kill(victim, signal.SIGKILL)
    for pid in ranks_of(here, "goes_on"):
        with contextlib.suppress(ProcessLookupError):  # the launcher has ended it
            os.kill(pid, signal.SIGCONT)
    got = finish(run)
    assert got.status != 0, f"{got}"
    pause.unlink(missing_ok=True)
    return got


def killed_and_restarted(mpi, program, manner, where, scheme, lost=None, **settings):
    """A rank is killed in step 4, in the next run in step 6; in the last run all are there."""
    everything = {"SCR_COPY_TYPE": scheme, **settings}
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(NODES * EACH, "goes_on", manner, 8, shim=False)
        assert want.line("restart") == "restart 0", f"{want}"
        got = killed_at(here, manner, 4, where, **everything)
        assert got.line("restart") == "restart 0", f"{got}"
        newest = {"calm": (4,), "closed": (3, 4), "read": (3, 4)}.get(where, (3,))
        got = killed_at(here, manner, 6, "calm", **everything)
        # What was on its way out may have come as far as the program had written it.
        half = [None, "damaged 4"] if where == "read" else [None]
        assert got.line("damaged") in half, f"{where}: {got}"
        assert got.line("restart") in [f"restart {step}" for step in newest], f"{where}: {got}"
        if lost is not None:
            shutil.rmtree(here.nodes.node(lost))
            here.nodes.node(lost).mkdir(mode=0o700)
        got = finish(start(here, manner, 8, **everything | {"SCR_FLUSH": "1"}))
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
            assert got.out == "restart 6\n" and got.status == 0, f"{formula}: {got}"
            before, after = data_files(plain.tree()), data_files(here.tree())
            wrong = {name for name, found in after.items() if before.get(name) != found}
            assert not wrong and "ckpt/step_6/all.dat" in after, f"{wrong}: {after}\n{got}"


@case
def files_of_several_nodes_that_are_not_to_be_shared(mpi, program):
    """Without what SCR does for shared files they are on the prefix, as ever, and it says so."""
    found = as_without(mpi, program, "sizes", "pread", "mpi-read", but=["SCR-1016"], SCR_SHARED="0")
    assert set(sum(found.values(), [])) == {0}, f"{found}"
