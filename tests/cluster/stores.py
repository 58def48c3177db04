"""Several stores, schemes and groups in one run; stores that all nodes reach; ranks that moved."""

import dataclasses

from cluster import ROOT, SHIM, Cluster
from samples import SAMPLES, environment
from scene import Prefix, Scene, restart_step
from schemes import settings_of

POSIX = next(sample for sample in SAMPLES if sample.name == "heat_posix")
SWITCHES = "\n".join(
    f"GROUPS=node{number} SWITCH={'left' if number in (1, 2, 5, 6) else 'right'}"
    for number in range(1, 7)
)


def datasets(scene, node, store):
    """Names of the datasets in a store of a node."""
    command = f"ls -d {store}/*/scr.*/*/scr.dataset.*"
    listing = scene.cluster.on(node, "sh", "-c", command, check=False)
    return sorted(line.rsplit("/", 1)[1] for line in listing.out.split())


def each_interval_has_its_store_scheme_and_group(mpi):
    """The second checkpoint survives a whole switch, the third, XOR between nodes, does not."""
    lines = f"""SCR_LEARN=0
SCR_COPY_TYPE=FILE
{SWITCHES}
STORE=/dev/shm COUNT=1
STORE=/tmp COUNT=2
CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=4
CKPT=1 INTERVAL=2 GROUP=SWITCH STORE=/tmp TYPE=PARTNER SET_SIZE=2"""
    with Prefix() as elsewhere:
        settings = settings_of(elsewhere, lines)
        with Scene(POSIX, mpi, spare=2, SCR_FLUSH="0", **settings) as scene:
            run = scene.pause_at(35)
            places = datasets(scene, "node1", "/dev/shm"), datasets(scene, "node1", "/tmp")
            expected = ["scr.dataset.3"], ["scr.dataset.2"]
            assert places == expected, f"{places}, not {expected}"
            scene.cluster.kill("node1", "node2")
            scene.ended(run)
            outcome = scene.restart(least=20, most=20)
            scene.expect(outcome, "checkpoint 30", "cannot be offered", "one XOR set of 4")
            scene.expect(outcome, "rebuilt by PARTNER", "ranks 0, 1")


def a_restart_under_another_configuration(mpi):
    """Store and scheme are others now; what the records name is found and rebuilt as it was made,
    and protected when a second node dies right after."""
    with Scene(POSIX, mpi, spare=2, SCR_FLUSH="0") as scene:
        run = scene.pause_at(35, SCR_CACHE_BASE="/tmp", SCR_COPY_TYPE="XOR", SCR_SET_SIZE="2")
        scene.cluster.kill("node2")
        scene.ended(run)
        other = {"SCR_CACHE_BASE": "/dev/shm", "SCR_COPY_TYPE": "PARTNER"}
        run = scene.pause_at(31, **other)
        run.wait_for_words("SCR: ", "rebuilt by XOR")
        scene.cluster.kill("node3")
        scene.ended(run)
        outcome = scene.restart(least=30, **other)
        scene.expect(outcome, "rebuilt by XOR")


def a_store_of_all_nodes(mpi):
    """Two nodes die, with them their records; the data is in the common store. The second run says
    nothing of it in its settings, and is told."""
    with Prefix() as elsewhere:
        store = elsewhere / "burst"
        store.mkdir(mode=0o700)
        lines = f"SCR_COPY_TYPE=FILE\nCKPT=0 TYPE=SINGLE STORE={store}"
        declared = settings_of(elsewhere, f"{lines}\nSTORE={store} GROUP=WORLD")
        with Scene(POSIX, mpi, spare=2, SCR_FLUSH="0", **declared) as scene:
            run = scene.pause_at(35)
            scene.cluster.kill("node2", "node3")
            told = scene.ended(run).err
            assert "SCR: the store" not in told, f"a store as declared is talked about{scene.story}"
            outcome = scene.restart(least=30, **settings_of(elsewhere, lines))
            scene.expect(outcome, "is in the cache")
            scene.expect(outcome, str(store), "share it")
            assert "rebuilt" not in outcome.err and "moved" not in outcome.err, scene.story
            assert not list(store.glob("*/*/*/scr.dataset.*")), "the end leaves datasets"


def bypass_and_capacity(mpi):
    """Odd checkpoints bypass the cache; the third finds a store that has room for it, but not for
    the copies of another node's."""
    lines = """SCR_LEARN=0
SCR_COPY_TYPE=FILE
STORE=/tmp CAPACITY=240KB
CKPT=0 INTERVAL=1 BYPASS=1
CKPT=1 INTERVAL=2 STORE=/dev/shm TYPE=XOR
CKPT=2 INTERVAL=3 STORE=/tmp TYPE=PARTNER"""
    with Prefix() as elsewhere:
        settings = settings_of(elsewhere, lines)
        with Scene(POSIX, mpi, spare=1, SCR_FLUSH="0", **settings) as scene:
            run = scene.pause_at(35)
            cached = datasets(scene, "node1", "/dev/shm"), datasets(scene, "node1", "/tmp")
            steps = sorted(path.parent.name for path in scene.directory.glob("ckpt/*/rank_1.dat"))
            assert steps == ["step_10", "step_30"], f"{steps} on the prefix, {cached}"
            run.wait_for_words("SCR: ", "/tmp", "has no room")
            scene.cluster.kill("node3")
            scene.ended(run)
            scene.restart(least=30)


@dataclasses.dataclass(frozen=True)
class Row:
    """A job of which nodes are lost, by number, and the nodes of its restart. Step 30 is in the
    cache only; 20, expected when one node too many is lost, is on the prefix, too."""
    nodes: int
    ranks: int
    scheme: str
    more: str  # of its line
    lost: tuple
    again: tuple
    step: int = 30


TABLE = [
    Row(4, 4, "XOR", "SET_SIZE=2", (2,), (5, 1, 3, 4)),
    Row(4, 4, "XOR", "GROUP=SWITCH SET_SIZE=2", (1, 2), (6, 3, 5, 4)),
    Row(3, 6, "XOR", "SET_SIZE=3", (3,), (2, 1)),
    Row(3, 6, "XOR", "SET_SIZE=3", (), (3, 1, 2)),
    Row(3, 6, "XOR", "SET_SIZE=3", (1, 3), (2, 4, 5), 20),
    Row(2, 4, "PARTNER", "SET_SIZE=2", (2,), (3, 1)),
    Row(4, 4, "PARTNER", "SET_SIZE=4 HOP_DISTANCE=2", (1, 2), (3, 4, 5, 6)),
    Row(4, 4, "PARTNER", "SET_SIZE=4", (1, 2), (3, 4, 5, 6), 20),
    Row(6, 6, "PARTNER", "SET_SIZE=6 SET_FAILURES=2", (2, 3), (4, 7, 1, 8, 6, 5)),
    Row(4, 4, "RS", "SET_SIZE=4 SET_FAILURES=3", (1, 2, 4), (5, 3)),
    Row(6, 6, "RS", "SET_SIZE=6 SET_FAILURES=2", (1, 6), (2, 3, 4, 5, 7, 8)),
    Row(3, 6, "RS", "SET_SIZE=3 SET_FAILURES=1", (1, 2), (3, 4, 5), 20),
    Row(2, 4, "SINGLE", "", (1,), (2, 3), 20),
]


def schemes_losses_and_placements(mpi):
    """Lost nodes, and ranks on other nodes."""
    for row in TABLE:
        with Prefix() as elsewhere:
            groups = SWITCHES if "SWITCH" in row.more else ""
            lines = f"SCR_COPY_TYPE=FILE\n{groups}\nCKPT=0 TYPE={row.scheme} {row.more}"
            settings = {"SCR_FLUSH": "2", "SCR_LEARN": "0", **settings_of(elsewhere, lines)}
            with Scene(POSIX, mpi, row.ranks, row.nodes, spare=2, **settings) as scene:
                scene.story = f"\n--- {row}"
                run = scene.pause_at(35)
                if row.lost:
                    scene.cluster.kill(*map("node{}".format, row.lost))
                else:
                    scene.cluster.kill_process("node1", POSIX.process())
                scene.ended(run)
                again = [f"node{number}" for number in row.again]
                outcome = scene.restart(least=row.step, most=row.step, nodes=again)
                told = f"rebuilt by {row.scheme}" if row.lost else "moved from other nodes"
                words = [told] if row.step == 30 else ["checkpoint 30", "cannot be offered"]
                scene.expect(outcome, *words)
                assert row.lost or "rebuilt" not in outcome.err, scene.story


def other_numbers_of_ranks(mpi):
    """Four ranks, then six after the loss of a node, then three: each run goes on from the last
    checkpoint, which only the cache had, and which XOR rebuilds for ranks that are no more."""
    program = ["/usr/bin/python3", str(ROOT / "tests/cluster/reshape.py")]
    with Prefix() as directory, Cluster(4, spare=1) as cluster:
        mark = directory / "paused"
        settings = environment(
            mpi, LD_PRELOAD=str(SHIM), SCR_PREFIX=str(directory), SCR_FLUSH="0", SCR_LEARN="0",
            SCR_CHECKPOINT_PATTERN="ckpt/{id}/part_{rank}, ckpt/{id}/header",
        )
        for ranks, least, lost in ((4, 0, "node2"), (6, 4, "node1"), (3, 8, None)):
            words = [*program, least + 9, least + 5, mark] if lost else [*program, least + 2]
            run = cluster.start(mpi, ranks, words, directory, settings)
            if lost:
                run.wait_for_file(mark)
                if least:
                    run.wait_for_words("is of a run with")
                cluster.kill(lost)
            outcome = run.finish()
            cluster.epilogue()
            mark.unlink(missing_ok=True)
            assert (outcome.status == 0) == (lost is None), outcome
            step = restart_step(outcome)
            assert step >= least, f"{ranks} ranks went on from {step}, not {least}: {outcome}"
            told = "is of a run with" in outcome.err
            assert told == (least > 0), outcome


STORIES = [
    each_interval_has_its_store_scheme_and_group, a_restart_under_another_configuration,
    a_store_of_all_nodes, bypass_and_capacity, schemes_losses_and_placements,
    other_numbers_of_ranks,
]
