"""What a rank leaves undone, so that a checkpoint costs the same however large the job is."""

import re

import support
from support import place

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def no_file_of_another_node_is_looked_up(mpi, program):
    """Six checkpoints on three nodes, each of which makes the one before leave the cache."""
    with place(mpi, program) as here:
        preload = f"{support.SHIM}:{program('looked_up.so')}"
        got = here.run_on_nodes(3, "steady", 30, 5, -1, LD_PRELOAD=preload, SCR_DEBUG="1",
                                SCR_FLUSH="0", SCR_CACHE_SIZE="1")
        assert got.status == 0 and got.err.count("sealed as dataset") >= 5, f"{got}"
        told = dict(re.findall(r"rank (\d) looked up (\d+) of others", got.err))
        assert told == {"0": "0", "1": "0", "2": "0"}, f"{told}: {got}"


@case
def a_file_is_looked_for_only_where_it_can_be(mpi, program):
    """Eight checkpoints stay in the cache: a new file costs the same however many there are."""
    with place(mpi, program) as here:
        preload = f"{support.SHIM}:{program('looked_up.so')}"
        got = here.run(2, "steady", 40, 5, -1, LD_PRELOAD=preload, SCR_DEBUG="1", SCR_FLUSH="0",
                       SCR_CACHE_SIZE="9")
        assert got.status == 0 and got.err.count("sealed as dataset") >= 7, f"{got}"
        told = dict(re.findall(r"rank (\d) looked into sealed datasets (\d+) times", got.err))
        assert told == {"0": "0", "1": "0"}, f"{told}: {got}"
