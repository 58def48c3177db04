"""What can happen to a job on several nodes, one story each."""

import os
import re
import signal
import subprocess
import time

from cluster import DIST, LIMIT_SECONDS, SHIM, Cluster
from samples import SAMPLES, environment
from scene import LENGTH, SPARSE, Prefix, Scene, checksum, newest_files
from tries import three_times

POSIX = next(sample for sample in SAMPLES if sample.name == "heat_posix")
STORIES = []


def story(function):
    STORIES.append(function)
    return function


@story
def two_nodes_of_one_set(mpi):
    """More is lost than XOR covers: the newest flushed checkpoint, and a message."""
    settings = {"SCR_COPY_TYPE": "XOR", "SCR_FLUSH": "2", "SCR_LEARN": "0"}
    with Scene(POSIX, mpi, spare=2, **settings) as scene:
        run = scene.pause_at(38)
        scene.cluster.kill("node2", "node3")
        scene.ended(run)
        outcome = scene.restart(least=20, most=20)
        scene.expect(outcome, "checkpoint 30", "cannot be offered")


@story
def two_ranks_a_node_on_fewer_nodes(mpi):
    """No spare node: three nodes take over eight ranks; XOR rebuilds two of them."""
    with Scene(POSIX, mpi, ranks=8, SCR_COPY_TYPE="XOR") as scene:
        run = scene.pause_at(35)
        scene.cluster.kill("node3")
        scene.ended(run)
        outcome = scene.restart(least=30)
        scene.expect(outcome, "rebuilt", "4, 5")


@story
def second_loss_right_after_the_restart(mpi):
    """What was rebuilt is protected again before the program runs."""
    with Scene(POSIX, mpi, spare=2, SCR_COPY_TYPE="PARTNER") as scene:
        run = scene.pause_at(35)
        scene.cluster.kill("node3")
        scene.ended(run)
        run = scene.pause_at(31)  # one step after the checkpoint that it goes on from
        scene.cluster.kill("node2")
        scene.ended(run)
        scene.restart(least=30)


@story
def node_with_an_old_cache_comes_back(mpi):
    """A node that sat out a run has files of an older epoch: they are not mixed in."""
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR") as scene:
        run = scene.pause_at(35)
        scene.cluster.kill_process("node1", POSIX.process())
        scene.ended(run)
        run = scene.start(
            *LENGTH, "--pause", "step", 45, scene.mark, nodes=["node1", "node2", "node4", "node5"]
        )
        run.wait_for_file(scene.mark)
        scene.cluster.kill_process("node1", POSIX.process())
        scene.ended(run)
        scene.restart(least=40, nodes=["node1", "node2", "node3", "node4"])


@story
def another_program_on_a_node_in_between(mpi):
    """A small run of something else leaves the cache alone."""
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR") as scene, Prefix() as elsewhere:
        run = scene.pause_at(35)
        scene.cluster.kill("node3")
        scene.ended(run)
        for prefix in (elsewhere, scene.directory):
            words = POSIX.words(mpi, "--steps", 3, "--from", 0)
            env = scene.environment(SCR_PREFIX=str(prefix))
            outcome = scene.cluster.start(mpi, 1, words, prefix, env, nodes=["node2"]).finish()
            assert outcome.status == 0, outcome
        scene.restart(least=30)


def provisional_seal(scene):
    """Runs up to the first seal of a series that nobody knows, which nothing has confirmed yet."""
    run = scene.start(
        *SPARSE, "--pause", "step", 39, scene.mark, SCR_LEARN="0", SCR_DEBUG="1"
    )
    run.wait_for_file(scene.mark)
    run.wait_for_words("SCR: ", "checkpoint 20 is sealed as dataset 1")
    return run


@story
def node_lost_right_after_a_provisional_seal(mpi):
    """Nobody can tell whether more was to come: it is not offered, and that is said."""
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR") as scene:
        pause = f"seal.committed:{scene.mark}"
        run = scene.start(*SPARSE, SCR_LEARN="0", SCR_TEST_PAUSE=pause)
        run.wait_for_file(scene.mark)
        scene.cluster.kill("node3")
        scene.ended(run)
        outcome = scene.restart(least=0, most=0)
        scene.expect(outcome, "checkpoint 20", "cannot be offered", "rank 2")


@story
def node_lost_long_after_the_first_seal(mpi):
    """The program has computed for longer than the checkpoint took: it is rebuilt and offered."""
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR", SCR_LEARN="0") as scene:
        slowly = ("--delay", 100, "--pause", "step", 39, scene.mark)
        run = scene.start(*SPARSE, *slowly, SCR_DEBUG="1")
        run.wait_for_file(scene.mark)
        scene.cluster.kill("node3")
        scene.ended(run)
        outcome = scene.restart(least=20, most=20)
        scene.expect(outcome, "checkpoint 20", "rebuilt")


@story
def process_lost_right_after_a_provisional_seal(mpi):
    """All of its files are there: it is offered."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR") as scene:
        run = provisional_seal(scene)
        scene.cluster.kill_process("node3", POSIX.process())
        scene.ended(run)
        scene.restart(least=20, most=20)


@story
def node_lost_in_the_middle_of_an_encode(mpi):
    """Half of the parity is not taken for parity: the checkpoint before is rebuilt."""
    for scheme in ("XOR", "PARTNER"):
        with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE=scheme, SCR_LEARN="0") as scene:
            # In the third encode: XOR exchanges three times in each, PARTNER twice.
            arrival = {"XOR": 8, "PARTNER": 5}[scheme]
            run = scene.start(*LENGTH, SCR_TEST_PAUSE=f"encode.middle@{arrival}:{scene.mark}")
            run.wait_for_file(scene.mark)
            scene.cluster.kill("node3")
            scene.ended(run)
            scene.restart(least=20, most=20)


@story
def two_jobs_at_once(mpi):
    """On nodes of their own, with one prefix: the second one runs without us, and says so."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR") as scene:
        first = scene.start(
            *LENGTH, "--pause", "step", 25, scene.mark, nodes=["node1", "node2"]
        )
        first.wait_for_file(scene.mark)
        outcome = scene.restart(least=0, nodes=["node3", "node4"])
        scene.expect(outcome, "another run uses", "node1")
        scene.mark.unlink()
        outcome = first.finish()
        assert outcome.status == 0 and checksum(outcome) == scene.sum_wanted, outcome
        assert newest_files(POSIX, scene.directory) == scene.files_wanted, outcome


@story
def cache_without_space(mpi):
    """The node's RAM disk is too small: everything goes to the prefix, the result is the same."""
    shm = {"openmpi": "300k", "mpich": "4400k"}[mpi]  # UCX takes 4.2 MB of it
    with Scene(POSIX, mpi, shm=shm, SCR_COPY_TYPE="XOR") as scene:
        outcome = scene.restart(least=0)
        scene.expect(outcome, ": /dev/shm/", "has no room", str(scene.directory))
        assert outcome.err.count("SCR: ") == 1, outcome
        steps = sorted(path.name for path in scene.directory.glob("ckpt/step_*"))
        assert steps == [f"step_{step}" for step in range(10, 60, 10)], f"{steps}{scene.story}"


@story
def ranks_change_places_between_full_nodes(mpi):
    """No node has room for what comes beside what it has: by way of the prefix."""
    settings = {"SCR_COPY_TYPE": "SINGLE", "SCR_FLUSH": "0", "SCR_LEARN": "0",
                "SCR_CACHE_BASE": "/tmp/small", "SCR_CNTL_BASE": "/tmp"}
    with Scene(POSIX, mpi, ranks=2, nodes=2, **settings) as scene:
        on_all = lambda command: [scene.cluster.on(node, "sh", "-c", command, check=False)
                                  for node in ("node1", "node2")]
        on_all("mkdir -m 777 /tmp/small && mount -t tmpfs -o size=4m tmpfs /tmp/small")
        run = scene.pause_at(35)
        scene.cluster.kill_process("node2", POSIX.process())
        scene.ended(run)
        on_all("cat /dev/zero > /tmp/small/full")
        outcome = scene.restart(least=30, most=30, nodes=["node2", "node1"])
        scene.expect(outcome, "checkpoint 30", "is written to", "No space left")


@story
def engine_missing_on_one_node(mpi):
    """All ranks stay without us, with a message that tells where; nothing hangs."""
    def attempt():
        with Scene(POSIX, mpi) as scene:
            engine = DIST / "lib" / "libscr.so"
            scene.cluster.on("node2", "mount", "--bind", "/dev/null", str(engine))
            outcome = scene.restart(least=0, most=0)
            ready = "node1 (0), node3 (2), node4 (3)"
            scene.expect(outcome, "only 3 of 4 ranks", "node2 (rank 1: ", ready)
            assert outcome.err.count("SCR: ") == 1, outcome
            assert len(list(scene.directory.glob("ckpt/step_*"))) == 5, scene.story

    three_times(attempt)


@story
def shim_missing_on_one_node(mpi):
    """As above, without the shim itself."""
    with Scene(POSIX, mpi) as scene:
        scene.cluster.on("node3", "mount", "--bind", "/dev/null", str(SHIM))
        outcome = scene.restart(least=0, most=0)
        scene.expect(outcome, "only 3 of 4 ranks", "rank 2;", "node1 (0), node2 (1), node4 (3)")
        assert outcome.err.count("SCR: ") == 1, outcome


@story
def shim_missing_on_the_first_node(mpi):
    """Rank 0 cannot tell; another rank does."""
    with Scene(POSIX, mpi) as scene:
        scene.cluster.on("node1", "mount", "--bind", "/dev/null", str(SHIM))
        outcome = scene.restart(least=0, most=0)
        scene.expect(outcome, "only 3 of 4 ranks", "rank 0;", "node2 (1), node3 (2), node4 (3)")
        assert outcome.err.count("SCR: ") == 1, outcome


@story
def configuration_missing_on_one_node(mpi):
    """The message says where and why; when the first node has none, its own rank tells at once."""
    def attempt():
        with Scene(POSIX, mpi) as scene:
            config = "/tmp/scr.conf"  # each node has a /tmp of its own
            for node in ("node1", "node2", "node4"):
                scene.cluster.on(node, "cp", str(POSIX.config()), config)
            outcome = scene.restart(least=0, most=0, SCR_CONF_FILE=config)
            scene.expect(outcome, "only 3 of 4 ranks", "node3 (rank 2: ", config)
            assert outcome.err.count("SCR: ") == 1, outcome
            scene.cluster.on("node1", "mv", config, "/tmp/away")
            outcome = scene.restart(least=50, SCR_CONF_FILE=config)
            scene.expect(outcome, "SCR_CONF_FILE", config, "the program runs without SCR")
            scene.expect(outcome, "only 2 of 4 ranks", "node1 (rank 0: ", "node3 (rank 2: ")

    three_times(attempt)


@story
def settings_of_the_first_rank_hold(mpi):
    """Another file elsewhere changes nothing; another environment is told."""
    odd = '[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 1 ] && export SCR_FLUSH=1; exec "$@"'
    with Scene(POSIX, mpi, SCR_LEARN="0") as scene:
        config = "/tmp/scr.conf"  # each node has a /tmp of its own
        text = POSIX.config().read_text(encoding="utf-8")
        for number in range(1, 5):
            file = scene.directory / f"config.{number}"
            file.write_text(f"{text}SCR_FLUSH={number - 1}\n", encoding="utf-8")
            scene.cluster.on(f"node{number}", "cp", str(file), config)
        settings = scene.environment(SCR_CONF_FILE=config)
        program = POSIX.words(mpi, *LENGTH, "--pause", "step", 35, scene.mark)
        words = ["sh", "-c", odd, "sh", *program]
        run = scene.cluster.start(mpi, scene.ranks, words, scene.directory, settings)
        run.wait_for_file(scene.mark)
        assert not list(scene.directory.glob("ckpt/step_*/*")), "rank 0 has SCR_FLUSH=0"
        run.wait_for_words("rank 1 has other settings in its environment (SCR_FLUSH")
        scene.cluster.kill_process("node1", POSIX.process())
        outcome = scene.ended(run)
        scene.expect(outcome, "rank 1 has other settings in its environment (SCR_FLUSH")
        # Beside that, only the launcher may speak, of a checkpoint that lies in the caches alone.
        others = outcome.err.count("SCR: ") - outcome.err.count("the launch has failed")
        assert others == 1, outcome


def gone(names):
    """True if nothing is left on this machine of the clusters that the pattern names."""
    processes = subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    directories = os.listdir("/run/scr-sim") if os.path.exists("/run/scr-sim") else []
    with open("/proc/mounts", encoding="utf-8") as file:
        places = [processes, file.read(), *directories]
    return "scr0" not in links and not any(re.search(rf"\b{names}\b", text) for text in places)


def wait_until_gone(names):
    deadline = time.monotonic() + LIMIT_SECONDS
    while not gone(names):
        assert time.monotonic() < deadline, f"{names} is left behind"
        time.sleep(0.01)


@story
def a_cluster_leaves_nothing_behind(mpi):
    """Not when it is stopped in mid-run, not when its keeper is killed, not when its owner dies."""
    words = POSIX.words(mpi, "--steps", 100000, "--delay", 5)
    for end in ("stop", "kill"):
        with Prefix() as directory:  # of its own: a checkpoint in it tells of this run
            cluster = Cluster(2)
            run = cluster.start(mpi, 2, words, directory, environment(mpi))
            while not any(directory.glob("ckpt/step_*")) and not run.ended():
                time.sleep(0.01)
            if end == "stop":
                cluster.sim("stop")
                assert run.finish().status != 0
            else:
                with open(f"/run/scr-sim/{cluster.name}/keeper", encoding="ascii") as file:
                    os.kill(int(file.read()), signal.SIGKILL)
                assert run.finish().status != 0
                cluster.sim("stop")  # clears the directory
            wait_until_gone(cluster.name)
    with subprocess.Popen(["sleep", "1000"]) as owner:
        cluster = Cluster(1, owner=owner.pid)
        owner.kill()
    wait_until_gone(cluster.name)


@story
def clusters_side_by_side(mpi):
    """Two clusters with the same node names; a name is given once."""
    with Cluster(2) as one, Cluster(2) as two, Prefix() as directory:
        one.kill("node2")
        assert one.up() == ["node1"] and two.up() == ["node1", "node2"]
        again = one.sim("start", "1", check=False)
        assert again.status == 1 and "running already" in again.err, again
        words = POSIX.words(mpi, "--steps", 2)
        outcome = two.start(mpi, 2, words, directory, environment(mpi)).finish()
        assert outcome.status == 0, outcome
        missing = one.sim("kill", "node9", check=False)
        assert missing.status == 1 and "node9" in missing.err, missing
        dead = one.on("node2", "true", check=False)
        assert dead.status == 1 and "dead" in dead.err, dead
