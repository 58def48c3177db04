"""What a node has in its cache is damaged between two launches."""

from scene import Scene
from stories import POSIX, story

# On the node: every file that the pattern finds is damaged in the given way.
STRIKE = """
import os, pathlib, sys
kind, pattern = sys.argv[1:]
found = list(pathlib.Path("/dev/shm").glob(pattern))
assert found, pattern
for path in found:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    halves = {"flipped": data, "cut": data[:len(data) // 2], "garbage": b"x" * 40}
    path.unlink() if kind == "missing" else path.write_bytes(halves[kind])
"""
DATASET = "*/scr.*/*/scr.dataset.3"
OWN = f"{DATASET}/ckpt/step_30/rank_1.dat"
# A file of ours and one of the program or its redundancy, and what is told beside the rebuild.
ROWS = (
    (("flipped", f"{DATASET}/.scr/catalog.scr"), ("cut", OWN), None),
    (("missing", f"{DATASET}/.scr/CONFIRMED"), ("flipped", OWN), None),
    (("cut", "*/scr.*/*/filemap_0.scrinfo"), ("missing", OWN), "filemap_0.scrinfo on node2 is"),
    (("garbage", "*/scr.*/*/launch.scr"), ("cut", f"{DATASET}/.scr/*.xor"), None),
)


@story
def files_damaged_between_two_launches(mpi):
    """Each restart has the newest checkpoint, whole, and says in a line or two what it did."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR", SCR_FLUSH="0", SCR_LEARN="0") as scene:
        run = scene.pause_at(35)
        for ours, data, told in ROWS:
            scene.cluster.kill_process("node3", POSIX.process())
            scene.ended(run)
            for kind, pattern in (ours, data):
                scene.cluster.on("node2", "/usr/bin/python3", "-c", STRIKE, kind, pattern)
            run = scene.pause_at(31)
            outcome = run.wait_for_words("checkpoint 30 is in the cache")
            outcome = run.wait_for_words(told) if told else outcome
            scene.story += f"\n--- after {ours} and {data}: {outcome}"
            lines = [line for line in outcome.err.splitlines() if line.startswith("SCR: ")]
            lost = data[1] == OWN
            assert len(lines) == 1 + (told is not None), f"{len(lines)} messages{scene.story}"
            words = ["rebuilt by XOR: ranks 1;"] if lost else []
            scene.expect(outcome, "checkpoint 30 is in the cache", *words)
            if told:
                scene.expect(outcome, told)
        scene.cluster.kill_process("node3", POSIX.process())
        scene.ended(run)
        scene.restart(least=30, most=30)
