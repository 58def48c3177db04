#!/usr/bin/env python3
"""An independent reader: real runs, and every file of the manual that they leave, read by a few
lines of Python that were written from the manual alone. What the files say must be what happened,
and a lost member of an XOR set comes back byte by byte.

usage: reader.py [--turns] [openmpi] [mpich] [case ...]

With --turns the MPIs take the cases in turn: what is written does not depend on them.
"""

import pathlib
import sys
import tempfile
import time
import traceback

import records
from kvtree import number, parse, read, value
from parity import Parity, check_set, member, rebuild
from place import RANKS, place, support, written

CASES = []
STEPS, CACHED = 3, [2, 3]
BANDWIDTH = 800  # bytes a second, of both ranks: small files take seconds


def case(function):
    CASES.append(function)
    return function


def is_tree(path):
    """Whether the layout says that it is a hash file."""
    return path.suffix in (".scr", ".scrinfo") or path.name in ("CONFIRMED", "OFFERED", "TRUSTED")


def every_tree(here):
    """All hash files, wherever they are, are well-formed, with a right CRC."""
    found = [path for path in here.top.rglob("*") if path.is_file() and is_tree(path)]
    assert len(found) > 10, f"only {found}"
    for path in found:
        read(path)


def datasets(here, node):
    """Directories of the node's sealed datasets, by id."""
    found = here.below(node, "cache").glob("scr.dataset.*")
    return {int(path.suffix[1:]): path for path in found}


def in_a_run(here, scheme, run):
    """Control and cache of every node, and the prefix, while the program stands still."""
    settled(here, run)
    every_tree(here)
    assert number(read(here.state / "nodes.scr"), "NODES") == RANKS
    for rank in range(RANKS):
        control = here.below(rank, "control")
        records.filemap(control / "filemap_0.scrinfo", rank, CACHED, written, scheme)
        identity = read(control / "launch.scr")["IDENTITY"]
        assert len(identity) == 1 and str(here.prefix) in next(iter(identity)), identity
        kept = datasets(here, rank)
        assert sorted(kept) == CACHED, f"node {rank} has {sorted(kept)}"
        for step, folder in kept.items():
            # At a restart small files of other nodes are there, too.
            own, everyone = written(step, rank), {}
            for other in range(RANKS):
                everyone.update(written(step, other))
            there = {str(p.relative_to(folder)): p.read_bytes()
                     for p in folder.glob("ckpt/**/*") if p.is_file()}
            assert own.keys() <= there.keys(), f"node {rank} has {sorted(there)}, not {own.keys()}"
            wrong = [name for name, data in there.items() if everyone[name] != data]
            assert not wrong, f"node {rank}: other content in {wrong}"
            catalog = records.packed(read(folder / ".scr" / "catalog.scr"))
            for other in range(RANKS):
                records.listed(catalog.get(other, {}), written(step, other),
                               f"{folder}: catalog, rank {other}")
    on_the_prefix(here, CACHED)


def settled(here, run):
    """Waits for the flush file to tell what is so: a helper thread follows the run."""
    path, every = here.state / "flush.scr", list(range(1, STEPS + 1))
    here.wait_for(lambda: path.exists() and records.located(path, "PFS") == every
                  and records.located(path, "CACHE") == CACHED, run)


def on_the_prefix(here, cached):
    ids = list(range(1, STEPS + 1))
    records.index(here.state / "index.scr", ids)
    records.flush_file(here.state / "flush.scr", ids, cached)
    for step in ids:
        records.summary(here.state / f"scr.dataset.{step}", step, RANKS, written)


def parities(here, step, ending):
    found = [next(datasets(here, node)[step].glob(f".scr/*.{ending}")) for node in range(RANKS)]
    return [Parity(path) for path in found]


@case
def xor(mpi, program):
    """XOR sets: headers, and each member in turn rebuilt from the others."""
    with place(mpi, program) as here:
        with here.paused(STEPS, SCR_COPY_TYPE="XOR") as run:
            in_a_run(here, "XOR", run)
            for step in CACHED:
                found = parities(here, step, "xor")
                check_set(found)
                for lost in range(RANKS):
                    files, chunk = rebuild(found, lost)
                    rank = found[lost].rank
                    got = {str(name): data for name, data in files.items()}
                    assert got == written(step, rank), f"rank {rank} of {step} comes back wrong"
                    assert chunk == found[lost].data, f"the chunk of rank {rank} comes back wrong"
            here.go_on(run)
        on_the_prefix(here, [])
        every_tree_after(here)


def every_tree_after(here):
    """After the end: the reason, in the halt file; nothing is cached."""
    assert value(read(here.state / "halt.scr"), "ExitReason") == "SCR_FINALIZE_CALLED"
    for node in range(RANKS):
        assert not datasets(here, node), f"node {node} still has {datasets(here, node)}"


@case
def reed_solomon(mpi, program):
    with place(mpi, program) as here, here.paused(STEPS, SCR_COPY_TYPE="RS") as run:
        in_a_run(here, "RS", run)
        for step in CACHED:
            found = parities(here, step, "rs")
            check_set(found)
            assert {p.failures for p in found} == {2}
        here.go_on(run)


@case
def partner(mpi, program):
    """The right neighbour's list and copies are those of the left one."""
    with place(mpi, program) as here, here.paused(STEPS, SCR_COPY_TYPE="PARTNER") as run:
        in_a_run(here, "PARTNER", run)
        for node in range(RANKS):
            left = (node - 1) % RANKS
            for step, folder in datasets(here, node).items():
                tree = read(folder / ".scr" / f"partner.{left}.scr")
                assert number(tree, "CKPT") == number(tree, "DSET") == step
                assert number(tree, "RANKS") == RANKS
                rank, files = member(tree["PARTNER"])
                wanted = written(step, left)
                assert (rank, sorted(f.name for f in files)) == (left, sorted(wanted))
                for name, data in wanted.items():
                    copy = folder / ".scr" / f"partner.{left}" / name
                    assert copy.read_bytes() == data, f"{copy} is no copy"
        here.go_on(run)


@case
def restarted(mpi, program):
    """A start that finds a cache lists the filemaps of each node."""
    with place(mpi, program) as here:
        with here.paused(STEPS, SCR_COPY_TYPE="XOR") as run:
            here.kill(run)
        # No further checkpoint: what is cached is what the killed run has left.
        with here.paused(0, SCR_COPY_TYPE="XOR") as run:
            in_a_run(here, "XOR", run)
            for node in range(RANKS):
                paths = records.master_filemap(here.below(node, "control") / "filemap.scrinfo")
                own = here.below(node, "control") / "filemap_0.scrinfo"
                assert [here.outside(path, node) for path in paths] == [own], paths


@case
def on_its_way(mpi, program):
    """The transfer file of a flush in the background that has to go slowly."""
    node, many = 1, 200  # small ones become durable together, so many a time
    slow = {"SCR_FLUSH_ASYNC": "1", "SCR_FLUSH_ASYNC_BW": str(BANDWIDTH)}
    with place(mpi, program) as here, here.paused(2, many, 2, **slow) as run:
        def begun():
            found = list(here.nodes.node(node).glob("control/*/scr.*/*/transfer.scrinfo"))
            files = found and parse(found[0].read_bytes())[0].get("FILES")
            return bool(files)
        here.wait_for(begun, run)
        path = here.below(node, "control") / "transfer.scrinfo"
        records.transfer_file(path, here.prefix, lambda p: here.outside(p, node), BANDWIDTH)
        here.kill(run)


@case
def logged(mpi, program):
    """One event for each thing that happened, in text and database; nothing is printed."""
    settings = {"SCR_LOG_ENABLE": "1", "SCR_LOG_DB_ENABLE": "1", "SCR_JOB_NAME": "wave"}
    with place(mpi, program) as here, here.paused(STEPS, SCR_COPY_TYPE="XOR", **settings) as run:
        here.go_on(run)
        pairs = [f"{what}_{edge}" for what in ("CHECKPOINT", "FLUSH") for edge in ("BEGIN", "END")]
        each = dict.fromkeys(["SEALED", "CONFIRMED", "EXPOSED", *pairs], STEPS)
        once = dict.fromkeys(["START", "STARTED", "EVICTED", "CLEARED", "END"], 1)
        # One of the four has no files.
        nodes = dict.fromkeys(["NODE_SEAL", "NODE_FLUSH"], 3)
        records.log_of_events(here.state, {**each, **once, **nodes}, written)


@case
def many_files(mpi, program):
    """More files than a summary takes: a map in shards."""
    many = 2100
    with place(mpi, program) as here, here.paused(1, many, 2, SCR_COPY_TYPE="SINGLE") as run:
        here.go_on(run)
        folder = here.state / "scr.dataset.1"
        assert records.summary(folder, 1, 2, lambda step, rank: written(step, rank, many)) > 1


def main(arguments):
    mpis = [a for a in arguments if a in ("openmpi", "mpich")] or ["openmpi", "mpich"]
    wanted = [a for a in arguments if a not in ("openmpi", "mpich", "--turns")]
    results = []
    with tempfile.TemporaryDirectory(prefix="scr-reader-build-") as scratch:
        for mpi in mpis:
            program = support.build(mpi, pathlib.Path(scratch) / mpi, only="spread")
            for number, function in enumerate(CASES):
                if "--turns" in arguments and mpis[number % len(mpis)] != mpi:
                    continue
                if wanted and function.__name__ not in wanted:
                    continue
                begun, verdict = time.monotonic(), "ok"
                try:
                    function(mpi, program)
                except Exception:
                    verdict = "FAILED\n" + traceback.format_exc()
                results.append(verdict == "ok")
                name, seconds = function.__name__, time.monotonic() - begun
                print(f"{mpi:8} {name:20} {seconds:6.1f} s  {verdict}", flush=True)
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 1 if False in results or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
