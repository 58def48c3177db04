"""What a job of a real Slurm comes through: nodes lost one after another, a hang, an end in the
middle of a flush."""

from cluster import SCR, SHIM
from runs import BIG_ENOUGH
from salvage import recorded, states, wait_until
from samples import EXAMPLES
from scene import CHECKSUM, LENGTH, Scene, newest_files
from slurm import slurm_of, srun, variables_of
from stories import POSIX, story

SETTINGS = {"SCR_COPY_TYPE": "XOR", "SCR_LEARN": "0"}


def program(scene, *arguments):
    return [EXAMPLES / scene.mpi / POSIX.name, *LENGTH, *arguments]


def lose(scene, slurm, *nodes):
    """Nodes die. Slurm is told: it would find out in its own time (as in `slurm_with_srun`)."""
    scene.cluster.kill(*nodes)
    slurm.command("scontrol", "update", f"nodename={','.join(nodes)}", "state=down", "reason=dead")


def expect_result(scene, slurm):
    """The job has ended well, with the result of an undisturbed run. Returns what it told."""
    status, told = slurm.status(), slurm.told()
    assert status == 0, told
    assert CHECKSUM.search(told).group(1) == scene.sum_wanted, told
    files = newest_files(POSIX, scene.directory)
    assert files == scene.files_wanted, f"last files differ: {sorted(files)}: {told}"
    return told


@story
def slurm_with_three_lost_nodes_and_two_spares(mpi):
    """The third time no spare is left: three nodes are enough."""
    with Scene(POSIX, mpi, nodes=6, SCR_MIN_NODES="3", **SETTINGS) as scene, \
            slurm_of(scene) as slurm:
        # Runs more than losses: now and then a rank dies in srun's PMIx at the start.
        run = [SCR, "run", "--runs", 9, "--pause", 0, "--nodes", 4, "--", *srun(mpi), "-n", 4]
        command = [*run, *program(scene, "--pause", "step", 35, scene.mark)]
        slurm.submit(command, variables_of(scene, slurm), "-N6", "--ntasks-per-node=2")
        for node in ("node2", "node4", "node5"):  # node1 has the script
            slurm.wait_for(scene.mark)
            lose(scene, slurm, node)
            scene.mark.unlink()
        slurm.wait_for(scene.mark)
        scene.mark.unlink()
        told = expect_result(scene, slurm)
        assert told.count("going on from step 30") >= 3, told
        for nodes in ("node[1,3-5]", "node[1,3,5-6]", "node[1,3,6]"):
            assert f"begins on {nodes}" in told, f"no run on {nodes}: {told}"


@story
def slurm_kills_a_hung_step(mpi):
    """A rank stands still, SCR's own thread in it, too: the step is killed, not the job, and the
    next one goes on."""
    with Scene(POSIX, mpi, SCR_WATCHDOG_TIMEOUT="10", **SETTINGS) as scene, \
            slurm_of(scene) as slurm:
        launch = [*srun(mpi), "-n", 4]
        again = " ".join(map(str, [*launch, *program(scene)]))
        run = [SCR, "run", "--runs", BIG_ENOUGH, "--pause", 0, "--restart-command", f"'{again}'"]
        hangs = program(scene, "--pause", "step", 35, scene.mark)
        slurm.submit([*run, "--", *launch, *hangs], variables_of(scene, slurm), "-N4",
                     "--ntasks-per-node=1")
        slurm.wait_for(scene.mark)
        scene.cluster.on("node1", "pkill", "-STOP", "-x", POSIX.process())
        told = expect_result(scene, slurm)
        assert "scr run: no checkpoint was completed for 1" in told, told
        assert "going on from step 30" in told, told


@story
def slurm_halts_after_two_checkpoints(mpi):
    """The program ends with a status that says failure; all the same there is no further run. The
    next job goes on, since a run's own end stops no later one; it is started as in the manual."""
    with Scene(POSIX, mpi, SCR_HALT_STATUS="5", **SETTINGS) as scene, slurm_of(scene) as slurm:
        run = [SCR, "run", "--runs", BIG_ENOUGH, "--pause", 0, "--", *srun(mpi), "-n", 4]
        job = ([*run, *program(scene)], variables_of(scene, slurm), "-N4", "--ntasks-per-node=1")
        scene.cluster.sim("exec", "--", SCR, "halt", "--checkpoints", 2, scene.directory)
        slurm.submit(*job)
        status, told = slurm.status(), slurm.told()
        assert status == 5, told
        assert "halt condition SCR_NO_CHECKPOINTS_LEFT: no further run" in told, told
        assert "going on" not in told, told
        (slurm.work / "status").unlink()
        manuals = slurm.work / "scr_srun"
        manuals.symlink_to(SCR)
        job[0][:job[0].index("srun") + 1] = [manuals]
        slurm.submit(*job)
        assert "going on from step 20" in expect_result(scene, slurm), told


def paused(scene, point):
    """The sample, whose ranks stop at a point of the flush of checkpoint 30. Only they are told:
    whatever saves that checkpoint comes to the same points."""
    return ["env", f"SCR_TEST_PAUSE={point}:{scene.mark}", *program(scene)]


def goes_on_elsewhere(scene, slurm, left, elsewhere):
    """Checkpoint 30 is saved. The other nodes of the job are lost, too; the next job has others."""
    assert states(scene)["checkpoint.30"] == "complete", slurm.told()
    assert scene.leftovers() == [], f"{scene.leftovers()} {slurm.told()}"
    scene.mark.unlink()
    (slurm.work / "status").unlink()
    lose(scene, slurm, *left)
    run = [SCR, "run", "--runs", 6, "--pause", 0, "--", *srun(scene.mpi), "-n", scene.ranks]
    slurm.submit([*run, *program(scene)], variables_of(scene, slurm), *elsewhere)
    told = expect_result(scene, slurm)
    assert "going on from step 30" in told, told


def saves_what_a_flush_had_begun(mpi, scheme):
    """A node dies when all files are staged: `scr run` saves the checkpoint when no run is left,
    and a job on other nodes goes on from the prefix alone."""
    settings = {**SETTINGS, "SCR_COPY_TYPE": scheme, "SCR_FLUSH": "3"}
    with Scene(POSIX, mpi, ranks=3, nodes=6, **settings) as scene, slurm_of(scene) as slurm:
        run = [SCR, "run", "--runs", 1, "--", *srun(mpi), "-n", 3]
        slurm.submit([*run, *paused(scene, "flush.staged")], variables_of(scene, slurm), "-N3",
                     "--ntasks-per-node=1", "-w", "node[1-3]")
        slurm.wait_for(scene.mark)
        lose(scene, slurm, "node3")
        status, told = slurm.status(), slurm.told()
        assert status != 0 and "nothing comes from node3" in told, told
        assert "checkpoint.30 is on the prefix now" in told, told
        elsewhere = ("-N3", "--ntasks-per-node=1", "-w", "node[4-6]")
        goes_on_elsewhere(scene, slurm, ("node1", "node2"), elsewhere)


@story
def slurm_saves_what_a_flush_had_begun(mpi):
    """Under XOR."""
    saves_what_a_flush_had_begun(mpi, "XOR")


@story
def slurm_saves_what_a_flush_had_begun_partner(mpi):
    """Under PARTNER."""
    saves_what_a_flush_had_begun(mpi, "PARTNER")


@story
def slurm_script_saves_after_mpirun(mpi):
    """Two nodes die when some files have their names already. The script is one that does without
    `scr run`: a plain mpirun, and `scr_postrun -p PREFIX` as the manual has it."""
    with Scene(POSIX, mpi, nodes=6, SCR_FLUSH="3", SCR_COPY_TYPE="RS", SCR_LEARN="0") as scene, \
            slurm_of(scene) as slurm:
        postrun = slurm.work / "scr_postrun"
        postrun.symlink_to(SCR)
        mpirun = ["env", f"LD_PRELOAD={SHIM}", f"mpirun.{mpi}", "-n", 4]
        command = [*mpirun, *paused(scene, "flush.publish"), ";", postrun, "-p", scene.directory]
        slurm.submit(command, variables_of(scene, slurm), "-N4", "--ntasks-per-node=1", "-w",
                     "node[1-4]")
        slurm.wait_for(scene.mark)
        lose(scene, slurm, "node2", "node3")
        status, told = slurm.status(), slurm.told()
        assert status == 0 and "nothing comes from node2" in told, told
        # All was staged, so the flush is brought to its end.
        assert "the prefix has all that is complete already" in told, told
        elsewhere = ("-N2", "--ntasks-per-node=2", "-w", "node[5-6]")
        goes_on_elsewhere(scene, slurm, ("node1", "node4"), elsewhere)


# The daemons of the manual around a run; they are ended when somebody says so.
DAEMONS = """\
srun --ntasks-per-node=1 {transfer} --daemon &
{run}
until [ -e {go} ]; do sleep 0.1; done
export SLURM_OVERLAP=1
srun --ntasks-per-node=1 {transfer} --command exit
wait
"""


@story
def slurm_with_a_daemon_on_each_node(mpi):
    """A rank dies while checkpoints are flushed in the background: the daemons that srun started
    before the run bring them to the prefix, and end when they are told to."""
    slow = {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1", "SCR_FLUSH_ASYNC_BW": "200KB"}
    with Scene(POSIX, mpi, **slow, **SETTINGS) as scene, slurm_of(scene) as slurm:
        transfer, script = slurm.work / "scr_transfer", slurm.work / "daemons.sh"
        transfer.symlink_to(SCR)
        run = [SCR, "run", "--runs", 1, "--no-scavenge", "--", *srun(mpi), "-n", 4,
               *program(scene, "--pause", "step", 35, scene.mark)]
        go = slurm.work / "go"
        script.write_text(
            DAEMONS.format(transfer=transfer, run=" ".join(map(str, run)), go=go)
        )
        slurm.submit(["sh", script], variables_of(scene, slurm), "-N4", "--ntasks-per-node=1")
        slurm.wait_for(scene.mark)
        recorded(scene, "checkpoint.30")
        assert "checkpoint.30" not in states(scene), "the flush is over before the rank dies"
        scene.cluster.kill_process("node2", POSIX.process())
        wait_until(lambda: states(scene).get("checkpoint.30") == "complete", slurm.told)
        go.touch()
        status, told = slurm.status(), slurm.told()
        assert status == 0 and "checkpoint.30 is on the prefix" in told, told
        assert scene.leftovers() == [], f"{scene.leftovers()} {told}"
