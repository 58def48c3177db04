"""Flushes and what nodes do to them."""

from scene import Scene
from stories import POSIX, story


def leftovers(scene):
    """Staged files and journals on the prefix."""
    staged = [path for path in scene.directory.rglob(".*.scr-*") if path.is_file()]
    return staged + list(scene.directory.glob(".scr/journal/*"))


@story
def node_lost_while_flushes_are_in_the_background(mpi):
    """The next launch brings them to an end on other nodes; nothing half done is left."""
    slow = {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1", "SCR_FLUSH_ASYNC_BW": "1000"}
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR", **slow) as scene:
        run = scene.pause_at(35)
        assert leftovers(scene), "the flushes were not under way"
        scene.cluster.kill("node3")
        scene.ended(run)
        scene.restart(least=30)
        assert not leftovers(scene), f"{leftovers(scene)}{scene.story}"
