"""A program without ids that keeps its last states under names that move, and a node that is lost
after each of the first of them."""

import subprocess

from cluster import ROOT, SHIM, Cluster
from samples import environment
from scene import Prefix
from stories import story

SETTINGS = {
    "LD_PRELOAD": str(SHIM), "SCR_COPY_TYPE": "XOR",
    "SCR_CHECKPOINT_PATTERN": "w.restart, w.restart.bak-*",
}


def found(outcome):
    assert outcome.status == 0, outcome
    return [int(word) for word in outcome.line("found").split()[1:]]


@story
def backups_that_move_survive_a_node_from_the_first_on(mpi):
    """Learned or not, the newest state or the one before is whole under the program's names."""
    source = ROOT / "tests" / "hard" / "programs" / "backups.c"
    for state in (1, 2, 3):
        for node, learn in (("node1", "1"), ("node3", "1"), ("node1", "0")):
            with Cluster(4, spare=1) as cluster, Prefix() as directory:
                program, mark = directory / "backups", directory / "paused"
                subprocess.run([f"mpicc.{mpi}", "-O1", "-o", program, source], check=True)
                env = environment(mpi, **SETTINGS, SCR_PREFIX=str(directory), SCR_LEARN=learn)
                run = cluster.start(mpi, 4, [program, str(state), mark], directory, env)
                run.wait_for_file(mark)
                cluster.kill(node)
                killed = run.finish()
                cluster.epilogue()
                outcome = cluster.start(mpi, 4, [program, "0"], directory, env).finish()
                names = found(outcome)
                whole = [[max(newest - at, 0) for at in range(3)] for newest in (state, state - 1)]
                good = whole if state > 1 else whole[:1]
                assert names in good, f"{state}, {node}, {learn}: {names}\n{killed}\n{outcome}"
