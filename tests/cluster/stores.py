"""Several stores, schemes and groups in one run; stores that all nodes reach; ranks that moved."""

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
    command = f"ls -d {store}/*/scr.*/scr.dataset.*"
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
        scene.cluster.kill("node3")
        scene.expect(scene.ended(run), "rebuilt by XOR")
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
            assert not list(store.glob("*/*/scr.dataset.*")), "the end leaves datasets"


def bypass_and_capacity(mpi):
    """Odd checkpoints bypass the cache; the third finds a store that is too small for it."""
    lines = """SCR_LEARN=0
SCR_COPY_TYPE=FILE
STORE=/tmp CAPACITY=1KB
CKPT=0 INTERVAL=1 BYPASS=1
CKPT=1 INTERVAL=2 STORE=/dev/shm TYPE=XOR
CKPT=2 INTERVAL=3 STORE=/tmp TYPE=XOR"""
    with Prefix() as elsewhere:
        settings = settings_of(elsewhere, lines)
        with Scene(POSIX, mpi, spare=1, SCR_FLUSH="0", **settings) as scene:
            run = scene.pause_at(35)
            cached = datasets(scene, "node1", "/dev/shm"), datasets(scene, "node1", "/tmp")
            steps = sorted(path.parent.name for path in scene.directory.glob("ckpt/*/rank_1.dat"))
            assert steps == ["step_10", "step_30"], f"{steps} on the prefix, {cached}"
            scene.cluster.kill("node3")
            outcome = scene.ended(run)
            scene.expect(outcome, "/tmp", "has no room")
            scene.restart(least=30)


# Scheme, what else its line says, nodes that die, nodes of the restart.
TABLE = [
    ("XOR", "SET_SIZE=2", ("node2",), ("node5", "node1", "node3", "node4")),
    ("XOR", "GROUP=SWITCH SET_SIZE=2", ("node1", "node2"), ("node6", "node3", "node5", "node4")),
    ("PARTNER", "SET_SIZE=4 HOP_DISTANCE=2", ("node1", "node2"),
     ("node3", "node4", "node5", "node6")),
    ("RS", "SET_SIZE=4 SET_FAILURES=3", ("node1", "node2", "node4"),
     ("node5", "node3")),
]


def schemes_losses_and_placements(mpi):
    """Lost nodes, and ranks on other nodes."""
    for scheme, more, lost, nodes in TABLE:
        with Prefix() as elsewhere:
            lines = f"SCR_COPY_TYPE=FILE\n{SWITCHES}\nCKPT=0 TYPE={scheme} {more}"
            settings = settings_of(elsewhere, lines)
            with Scene(POSIX, mpi, spare=2, SCR_FLUSH="0", **settings) as scene:
                run = scene.pause_at(35)
                scene.cluster.kill(*lost)
                scene.ended(run)
                outcome = scene.restart(least=30, nodes=nodes)
                scene.expect(outcome, f"rebuilt by {scheme}")


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
