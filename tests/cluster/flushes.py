"""Flushes and fetches, and what nodes do to them."""

import subprocess

from cluster import ROOT, SCR, SHIM, Cluster
from samples import environment
from scene import LENGTH, Prefix, Scene
from stories import POSIX, story


@story
def node_lost_while_flushes_are_in_the_background(mpi):
    """The next launch brings them to an end on other nodes; nothing half done is left."""
    slow = {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1", "SCR_FLUSH_ASYNC_BW": "1000"}
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR", **slow) as scene:
        run = scene.pause_at(35)
        assert scene.leftovers(), "the flushes were not under way"
        scene.cluster.kill("node3")
        scene.ended(run)
        scene.restart(least=30)
        assert not scene.leftovers(), f"{scene.leftovers()}{scene.story}"


@story
def node_lost_after_a_fetch(mpi):
    """What a restart has fetched is protected: the prefix is not needed a second time."""
    with Scene(POSIX, mpi, spare=2, SCR_COPY_TYPE="XOR", SCR_FLUSH="1") as scene:
        outcome = scene.start("--steps", 30, "--every", 10, "--delay", 4).finish()
        assert outcome.status == 0, outcome
        run = scene.start(*LENGTH, "--pause", "step", 31, scene.mark, SCR_DEBUG="1")
        run.wait_for_file(scene.mark)
        run.wait_for_words("SCR: ", "checkpoint.30 is fetched")
        scene.cluster.kill("node3")
        scene.ended(run)
        for path in scene.directory.glob("ckpt/step_30/rank_*.dat"):
            path.write_bytes(bytes(path.stat().st_size))
        outcome = scene.restart(least=30, most=30)
        scene.expect(outcome, "checkpoint 30 is in the cache", "rebuilt by XOR: ranks 2")


@story
def node_lost_after_a_fetch_that_the_user_does_not_want(mpi):
    """Read in place, there is nothing in the cache to restart from, and nothing is said of it."""
    with Scene(POSIX, mpi, spare=1, SCR_FLUSH="1", SCR_FETCH_BYPASS="1") as scene:
        outcome = scene.start("--steps", 30, "--every", 10, "--delay", 4).finish()
        assert outcome.status == 0, outcome
        run = scene.pause_at(31)
        scene.cluster.kill("node3")
        scene.ended(run)
        outcome = scene.restart(least=30, most=30)
        assert "SCR: " not in outcome.err, outcome


@story
def files_changed_from_another_node(mpi):
    """Each rank changes what another has sealed in the cache of its node, in several ways."""
    source = ROOT / "tests" / "hard" / "programs" / "taken_over.c"
    with Cluster(2) as cluster, Prefix() as directory:
        program = directory / "taken_over"
        subprocess.run([f"mpicc.{mpi}", "-O1", "-o", program, source], check=True)
        for how in ("update", "append", "stream", "rewrite"):
            found = []
            for shim in (False, True):
                here = directory / f"{how}.{shim}"
                here.mkdir()
                env = {"LD_PRELOAD": str(SHIM), "SCR_FLUSH": "1", "SCR_LEARN": "0"}
                env.update({"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*", "SCR_CACHE_SIZE": "9"})
                env = environment(mpi, **(env if shim else {}))
                outcome = cluster.start(mpi, 2, [program, how], here, env).finish()
                files = {path.name + path.parent.name: path.read_bytes()
                         for path in here.glob("ckpt/*/*")}
                found.append((outcome.status, outcome.out, files))
            plain, shimmed = found
            assert plain[:2] == shimmed[:2], f"{how}: {plain[:2]} {shimmed[:2]} {outcome}"
            assert plain[2] == shimmed[2], f"{how}: files differ: {outcome}"


@story
def flush_finished_by_a_command_on_each_node(mpi):
    """The program is gone: `scr transfer` brings its flush to its end, and the cache may go."""
    slow = {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1", "SCR_FLUSH_ASYNC_BW": "1000"}
    with Scene(POSIX, mpi, spare=2, SCR_COPY_TYPE="XOR", **slow) as scene:
        run = scene.pause_at(35)
        transfer = (SCR, "transfer", "--prefix", scene.directory)
        busy = scene.cluster.on("node2", *transfer, check=False)
        assert busy.status != 0 and "live run" in busy.err, busy
        scene.cluster.kill_process("node1", POSIX.process())
        scene.ended(run)
        said = [scene.cluster.on(f"node{number}", *transfer) for number in (2, 4, 3, 1)]
        assert "waits for 3 nodes: run scr transfer there" in said[0].out, said
        assert "checkpoint.30 is on the prefix" in said[3].out, said
        assert not scene.leftovers(), f"{scene.leftovers()}{said}"
        scene.cluster.kill("node2", "node3")
        scene.restart(least=30)
