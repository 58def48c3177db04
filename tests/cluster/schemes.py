"""Schemes that survive more than one lost node of a set."""

from samples import SAMPLES
from scene import Prefix, Scene

POSIX = next(sample for sample in SAMPLES if sample.name == "heat_posix")


def settings_of(directory, lines):
    """A config file: the sample's own, then `lines`."""
    path = directory / "scheme.conf"
    path.write_text(f"{POSIX.config().read_text()}\n{lines}\n")
    return {"SCR_CONF_FILE": str(path)}


def two_of_one_set(mpi, line, scheme):
    """Two nodes of the only set die; the program goes on from the cached checkpoint. Then two
    others do, right after the restart: what was rebuilt is protected as before."""
    with Prefix() as elsewhere:
        settings = settings_of(elsewhere, f"SCR_COPY_TYPE=FILE\nCKPT=0 {line}")
        with Scene(POSIX, mpi, spare=4, SCR_FLUSH="0", **settings) as scene:
            run = scene.pause_at(35)
            scene.cluster.kill("node2", "node3")
            scene.ended(run)
            run = scene.pause_at(31)  # one step after the checkpoint that it goes on from
            scene.cluster.kill("node1", "node4")
            scene.ended(run)
            outcome = scene.restart(least=30)
            scene.expect(outcome, "rebuilt", scheme)


def reed_solomon_two_nodes_of_one_set(mpi):
    """Any two members may be lost."""
    two_of_one_set(mpi, "TYPE=RS SET_FAILURES=2", "RS")


def partner_with_two_copies(mpi):
    """Two neighbours may be lost: the second right neighbour has both."""
    two_of_one_set(mpi, "TYPE=PARTNER SET_FAILURES=2", "PARTNER")


def reed_solomon_on_too_few_nodes(mpi):
    """Said once at the start; what the nodes allow is survived."""
    with Scene(POSIX, mpi, nodes=2, ranks=4, spare=1, SCR_COPY_TYPE="RS",
               SCR_SET_FAILURES="3") as scene:
        run = scene.pause_at(35)
        scene.cluster.kill("node2")
        scene.ended(run)
        outcome = scene.restart(least=30)
        scene.expect(outcome, "RS with SET_FAILURES=3 needs sets of 4", "the loss of 1 NODE")
        lines = [line for line in outcome.err.splitlines() if "needs sets of 4" in line]
        assert len(lines) == 1, f"said {len(lines)} times{scene.story}"


def encoded_beside_the_program(mpi, way):
    """By threads that reach each other: what they have made
    serves. The checkpoint of step 30 counts if they had ended before the loss."""
    with Scene(POSIX, mpi, ranks=8, spare=1, SCR_COPY_TYPE="XOR", SCR_SEAL=way, SCR_FLUSH="0",
               SCR_LEARN="0") as scene:
        run = scene.pause_at(35, SCR_DEBUG="1")
        scene.cluster.kill("node3")
        scene.ended(run)
        assert "checkpoint 20 was encoded beside the program" in scene.story, scene.story
        scene.expect(scene.restart(least=20), "rebuilt", "XOR")


def encoded_by_threads(mpi):
    """Over TCP between nodes, over Unix sockets on each."""
    encoded_beside_the_program(mpi, "BACKGROUND")


STORIES = [
    reed_solomon_two_nodes_of_one_set, partner_with_two_copies, reed_solomon_on_too_few_nodes,
    encoded_by_threads,
]
