"""The caches of a run's nodes from outside: `scr ls`, `cat`, `cp`, `exec`, `verify`."""

import json

from damage import STRIKE
from salvage import SETTINGS, lose, scavenge, wait_until
from cluster import SCR, Run
from samples import environment
from scene import Scene
from stories import POSIX, story

NAME = "ckpt/step_30/rank_2.dat"
PATTERN = f"*/scr.*/*/scr.dataset.3/{NAME}"
READ = "import glob, sys; print(open(glob.glob(sys.argv[1])[0], 'rb').read().hex())"


def ask(scene, tool, *options):
    """Runs a tool on the head of the cluster."""
    return scavenge(scene, *options, tool=tool)


def bytes_of(scene, *words):
    """What a tool prints, as it is."""
    usual = {"SCR_CONF_FILE": str(scene.sample.config()), "SCR_PREFIX": str(scene.directory)}
    env = environment(scene.mpi, **usual, **scene.settings)
    to = scene.directory / "printed"
    line = 'out=$1; shift; exec "$@" > $out'
    words = scene.cluster.command("exec", "--", "sh", "-c", line, "sh", str(to), SCR, *words)
    outcome = Run(words, scene.directory, env).finish()
    assert outcome.status == 0, outcome
    data = to.read_bytes()
    to.unlink()
    return data


def held(scene, node):
    """The file as the node has it, in hexadecimal."""
    words = ("/usr/bin/python3", "-c", READ, f"/dev/shm/{PATTERN}")
    return scene.cluster.on(node, *words).out.strip()


@story
def files_of_other_nodes_are_read(mpi):
    """While the run lives, and when it is gone; the prefix has none of them."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        run = scene.pause_at(35)
        wait_until(lambda: ask(scene, "ls", NAME).status == 0, "it is not listed")
        listed = {one["file"]: one for one in json.loads(ask(scene, "ls", "--json").out)}
        assert listed[NAME]["where"] == "node3" and listed[NAME]["dataset"] == "checkpoint.30"
        assert not (scene.directory / NAME).exists(), scene.story
        want = bytes.fromhex(held(scene, "node3"))
        assert bytes_of(scene, "cat", NAME) == want and want, scene.story
        seen = bytes_of(scene, "exec", "--", "cat", str(scene.directory / NAME))
        assert seen == want, scene.story
        scene.cluster.kill_process("node2", POSIX.process())
        scene.ended(run)
        kept = scene.directory / "kept"
        outcome = ask(scene, "cp", "-r", "checkpoint.30", kept)
        assert outcome.status == 0, outcome
        assert (kept / NAME).read_bytes() == want, scene.story
        assert not (scene.directory / ".scr" / "outside").exists(), scene.story
        scene.restart(least=30, most=30)


def strike(scene, kind, pattern=PATTERN):
    scene.cluster.on("node3", "/usr/bin/python3", "-c", STRIKE, kind, pattern)


@story
def a_flipped_byte_is_found_by_name_and_repaired(mpi):
    """XOR gives the file back as it was; a repair is refused while the run lives."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        run = scene.pause_at(35)
        before = held(scene, "node3")
        strike(scene, "flipped")
        outcome = ask(scene, "verify", "--repair")
        assert outcome.status == 1 and "a live run" in outcome.out, outcome
        scene.cluster.kill_process("node2", POSIX.process())
        scene.ended(run)
        outcome = ask(scene, "verify")
        assert outcome.status == 1, outcome
        assert f"node3, rank 2: {NAME} has another checksum" in outcome.out, outcome
        assert "1 of 4 ranks of its set have damage, it survives 1" in outcome.out, outcome
        outcome = ask(scene, "verify", "--repair")
        assert outcome.status == 0, outcome
        assert f"repaired: dataset 3, node3, rank 2: {NAME}; wrong were the bytes" in outcome.out
        assert held(scene, "node3") == before, scene.story
        strike(scene, "cut", "*/scr.*/*/scr.dataset.3/.scr/*.xor")
        assert ask(scene, "verify", "--sizes").status == 1, scene.story
        assert ask(scene, "verify", "--repair").status == 0, scene.story
        # What was rebuilt is as good: the loss of another node is repaired with it.
        scene.restart(least=30, most=30)


@story
def a_flipped_byte_without_redundancy_is_lost(mpi):
    """SINGLE says so, names the file, and goes on from what is right."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="SINGLE", **SETTINGS) as scene:
        lose(scene)
        strike(scene, "flipped")
        outcome = ask(scene, "verify", "--repair", "--json")
        assert outcome.status == 3, outcome
        told = json.loads(outcome.out)["caches"]["datasets"][-1]
        assert told["condition"] == "lost" and "SINGLE" in told["reason"], outcome
        assert [one["file"] for one in told["damage"]] == [NAME], outcome
        outcome = ask(scene, "cat", NAME)
        assert outcome.status == 1 and "scr verify" in outcome.err, outcome
