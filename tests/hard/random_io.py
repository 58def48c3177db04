"""Random programs whose ranks write checkpoints together by MPI-IO and POSIX, drawn from seeds:
with the shim as without, and after all ranks are killed the newest checkpoint is there, whole.

SCR_RANDOM_IO=n SCR_RANDOM_IO_SEED=s draws n programs from seed s on."""

import os
import shutil

from support import data_files, finish, kill_ranks_of, place, told_but, wait_for

CASES = []
RANKS = 4
# Programs that MPI-IO can do by itself, and that have shown something.
CHOSEN = {"mpich": (16, 23), "openmpi": (1, 16)}
CHOSEN_AGAIN = {"mpich": (2, 9, 49, 52), "openmpi": (9, 16)}
# Each MPI-IO, and what it cannot do by itself (the last word of the program).
KINDS = {"mpich": [({}, "-l")],
         "openmpi": [({"OMPI_MCA_io": "ompio"}, "-asl"), ({"OMPI_MCA_io": "romio321"}, "-l")]}


def case(function):
    CASES.append(function)
    return function


def drawn(mpi, seed, names=0):
    """The settings of that seed; the MPI-IO and what it lacks; how many nodes. The checkpoints have
    so many `names` by turns; 0: each its own."""
    io, lacks = KINDS[mpi][seed % len(KINDS[mpi])]
    lacks += str(names) if names else ""
    pattern = "ckpt/*" if names else "ckpt/step_{id}/*"
    settings = {"SCR_LEARN": "1", "SCR_CHECKPOINT_PATTERN": pattern,
                "SCR_COPY_TYPE": ("SINGLE", "XOR", "PARTNER")[seed // 2 % 3],
                "SCR_FLUSH": ("1", "0", "10")[seed // 3 % 3], "SCR_SET_SIZE": "4",
                "SCR_CACHE_SIZE": ("2", "3", "9")[seed // 5 % 3]}
    return settings, io, lacks, (2, 4)[seed % 2]


def started(here, nodes, *words, **settings):
    return here.start_on_nodes(nodes, RANKS // nodes, "random_io", *words, **settings)


def all_as_without(mpi, program, seed, names=0):
    settings, io, lacks, nodes = drawn(mpi, seed, names)
    with place(mpi, program) as plain, place(mpi, program) as here:
        for run in range(1 + (settings["SCR_FLUSH"] == "1")):
            want = plain.run(RANKS, "random_io", seed, "write", run, lacks, shim=False, **io)
            left = plain.run(RANKS, "random_io", seed, "left", run, lacks, shim=False)
            if want.status != 0 or "differs" in left.out:
                return "plain"
            got = finish(started(here, nodes, seed, "write", run, lacks, **settings, **io))
            assert got.status == 0 and got.out == want.out, f"seed {seed} run {run}: {got}"
            there = data_files(here.tree())
            left = here.run(RANKS, "random_io", seed, "left", run, lacks, shim=False)
            # What was not due stays away.
            wrong = [line for line in left.out.splitlines() if line.startswith("differs")
                     and (settings["SCR_FLUSH"] == "1" or "lacks" not in line)]
            assert not wrong, f"seed {seed} run {run}: {wrong}, {sorted(there)}\n{got}"
            # Without numbers one that cannot be cached keeps all on the prefix.
            assert not told_but(got, *["(SCR-2008)"] * bool(names)), f"seed {seed} run {run}: {got}"
    return "ok"


def killed(mpi, program, seed, names=0):
    """All ranks are killed after a checkpoint; a node may be lost. Returns what is found then."""
    settings, io, lacks, nodes = drawn(mpi, seed, names)
    step = 2 + seed % (8 if names else 4)
    lost = seed % nodes if settings["SCR_COPY_TYPE"] != "SINGLE" and seed % 4 else None
    with place(mpi, program) as plain, place(mpi, program) as here:
        if plain.run(RANKS, "random_io", seed, "write", 0, lacks, shim=False, **io).status != 0:
            return "plain"
        pause = here.prefix / "pause"
        run = started(here, nodes, seed, "write", 0, 1, step, pause, lacks, **settings, **io)
        wait_for(pause.exists, run)
        kill_ranks_of(here, "random_io")
        before = finish(run)
        pause.unlink()
        if lost is not None:
            shutil.rmtree(here.nodes.node(lost))
            here.nodes.node(lost).mkdir(mode=0o700)
        got = finish(started(here, nodes, seed, "read", 0, lacks, **settings, **io))
        what = f"seed {seed}, killed after {step}, node {lost} lost: {got}\n--- before: {before}"
        assert got.status == 0, what
        found = int(got.line("found").split()[1])
        # Two names are one checkpoint; those before it may be known to be whole alone.
        assert step - 1 - (names == 2) <= found <= step, what
        return f"ok {step - found}"


def each(mpi, program, trial, chosen=CHOSEN, names=lambda seed: 0):
    first, count = (os.environ.get(f"SCR_RANDOM_IO{what}") for what in ("_SEED", ""))
    seeds = range(int(first or 1), int(first or 1) + int(count)) if count else chosen[mpi]
    found = {seed: trial(mpi, program, seed, names(seed)) for seed in seeds}
    # By hand, what MPI-IO cannot do without us says nothing.
    assert count or "plain" not in found.values(), f"fails without the shim: {found}"


@case
def random_programs_by_mpi_io(mpi, program):
    each(mpi, program, all_as_without)


@case
def random_programs_by_mpi_io_that_are_killed(mpi, program):
    each(mpi, program, killed)


def one_or_two(seed):
    return 1 + seed // 7 % 2


@case
def random_programs_that_write_again_under_their_names(mpi, program):
    each(mpi, program, all_as_without, CHOSEN_AGAIN, one_or_two)


@case
def random_programs_that_write_under_their_names_and_are_killed(mpi, program):
    each(mpi, program, killed, CHOSEN_AGAIN, one_or_two)
