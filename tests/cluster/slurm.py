"""`scr run` in jobs of a real Slurm: its daemons run on the virtual nodes."""

import contextlib
import json
import os
import shutil
import tempfile
import time

from cluster import LIMIT_SECONDS, SCR, SHIM
from salvage import recorded, states
from samples import EXAMPLES
from scene import CHECKSUM, LENGTH, Scene
from stories import POSIX, story

# Times as short as they may be: a dead node is found by us in ten seconds, by Slurm in thirty.
CONFIG = """\
ClusterName=sim
SlurmctldHost={name}-head
SlurmUser=root
AuthInfo=socket={run}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=5
MessageTimeout=5
TCPTimeout=1
KillWait=5
StateSaveLocation={work}/state
SlurmctldPidFile={work}/slurmctld.pid
SlurmctldLogFile={work}/log/slurmctld.log
SlurmdSpoolDir=/tmp/slurmd
SlurmdPidFile=/tmp/slurmd.pid
SlurmdLogFile={work}/log/slurmd.%n.log
SlurmdParameters=config_overrides
NodeName=node[1-{nodes}] CPUs=4 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=10 State=UP
"""
SCRIPT = """\
#!/bin/sh
{variables}
{command}
echo $? > {work}/status.new
mv {work}/status.new {work}/status
"""


class Slurm:
    """The daemons on a cluster; they end with it."""

    def __init__(self, cluster, work):
        self.cluster, self.work = cluster, work
        # munged wants a socket that everybody may reach, by a path that others can look through.
        self.run = tempfile.mkdtemp(prefix="scr-slurm-", dir="/run")
        os.chmod(self.run, 0o755)
        for name in ("state", "log"):
            (work / name).mkdir(parents=True)
        key = work / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self.config = work / "slurm.conf"
        self.config.write_text(
            CONFIG.format(name=cluster.name, run=self.run, work=work, nodes=cluster.nodes)
        )
        files = [f"--{word}={self.run}/munge.{word}" for word in ("socket", "pid-file", "log-file")]
        cluster.sim("exec", "--", "munged", f"--key-file={key}", *files,
                    f"--seed-file={self.run}/munge.seed")
        cluster.sim("exec", "--", "slurmctld", "-f", self.config, "-c")
        for node in cluster.up():
            cluster.on(node, "slurmd", "-f", self.config, "-c")

    def close(self):
        shutil.rmtree(self.run, ignore_errors=True)

    def clean(self):
        """Without the variables that `scr sim exec` has for mpirun on the head."""
        return ["env", "-i", f"PATH={os.environ['PATH']}", "HOME=/root", "USER=root",
                f"SLURM_CONF={self.config}"]

    def command(self, *words):
        """On the head."""
        return self.cluster.sim("exec", "--", *self.clean(), *words)

    def submit(self, command, variables, *options):
        """Submits a script that runs a command; its output goes to `out` and `err`. The job's id.
        A node that is lost does not end the job, unless the options say otherwise."""
        script = self.work / "job.sh"
        exports = [f"export {name}='{value}'" for name, value in variables.items()]
        script.write_text(SCRIPT.format(
            variables="\n".join(exports), command=" ".join(map(str, command)), work=self.work,
        ))
        usual = ["--parsable", "--open-mode=append", "-D", self.work.parent, "-o",
                 self.work / "out", "-e", self.work / "err"]
        options = options if "--requeue" in options else ("--no-kill", "--no-requeue", *options)
        return self.command("sbatch", *usual, *options, script).out.strip()

    def state(self, job):
        """As in RUNNING or PENDING; no word if it is gone."""
        words = ("squeue", "-h", "-j", job, "-o", "%T")
        return self.cluster.sim("exec", "--", *self.clean(), *words, check=False).out.strip()

    def wait_for_state(self, job, *states):
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.state(job) not in states:
            assert time.monotonic() < deadline, f"{self.state(job)}, not {states}: {self.told()}"
            time.sleep(0.2)

    def wait_for(self, path):
        deadline = time.monotonic() + LIMIT_SECONDS
        while not path.exists():
            assert time.monotonic() < deadline, f"does not come to {path.name}: {self.told()}"
            time.sleep(0.02)

    def status(self):
        """The exit status of the script's command, when it has ended."""
        self.wait_for(self.work / "status")
        return int((self.work / "status").read_text())

    def told(self):
        """Output and errors so far."""
        texts = [path.read_text(errors="replace") for path in (self.work / "out", self.work / "err")
                 if path.exists()]
        return "\n--- err\n".join(texts)


@contextlib.contextmanager
def slurm_of(scene):
    slurm = Slurm(scene.cluster, scene.directory / "slurm")
    try:
        yield slurm
    finally:
        slurm.close()


def variables_of(scene, slurm):
    """What the script of a job exports."""
    return {
        "SLURM_CONF": slurm.config, "SCR_PREFIX": scene.directory,
        "SCR_CONF_FILE": scene.sample.config(), **scene.settings,
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
    }


def lost_node(mpi, launcher, *options):
    """A node of the job is lost: the next run is on the spare one, in the same allocation."""
    with Scene(POSIX, mpi, ranks=3, nodes=4, SCR_COPY_TYPE="XOR", SCR_LEARN="0") as scene, \
            slurm_of(scene) as slurm:
        program = [EXAMPLES / mpi / POSIX.name, *LENGTH, "--pause", "step", 35, scene.mark]
        # Now and then a rank dies in srun's PMIx at the start: a run more, and nothing else.
        command = [SCR, "run", "--runs", 6, "--pause", 0, *options, "--", *launcher]
        slurm.submit([*command, *program], variables_of(scene, slurm), "-N4",
                     "--ntasks-per-node=1")
        slurm.wait_for(scene.mark)
        scene.cluster.kill("node3")
        scene.mark.unlink()
        slurm.wait_for(scene.mark)
        scene.mark.unlink()
        status, told = slurm.status(), slurm.told()
        assert status == 0, told
        assert "node3 is out" in told and "begins on node[1-2,4]" in told, told
        assert "going on from step 30" in told and "rebuilt by XOR: ranks 2" in told, told
        assert CHECKSUM.search(told).group(1) == scene.sum_wanted, told


def srun(mpi):
    """Open MPI's ranks come up by PMIx, MPICH's by PMI-2."""
    return ["srun", {"openmpi": "--mpi=pmix", "mpich": "--mpi=pmi2"}[mpi]]


@story
def slurm_with_mpirun(mpi):
    """The nodes of the job are in mpirun's own options."""
    lost_node(mpi, [f"mpirun.{mpi}", "-n", 3], "--nodes", 3)


@story
def slurm_with_srun(mpi):
    """srun starts the ranks. Its own number of nodes is that of the run, the other is a spare; no
    number of ranks is given, so there are as many as Slurm has for these nodes."""
    lost_node(mpi, [*srun(mpi), "-N", 3])


@story
def slurm_job_without_an_environment(mpi):
    """`sbatch --export=NONE`, which some centres ask for: Slurm would start the ranks without a
    variable, and so without the shim."""
    with Scene(POSIX, mpi, ranks=2, nodes=2, SCR_COPY_TYPE="SINGLE", SCR_LEARN="0") as scene, \
            slurm_of(scene) as slurm:
        program = [EXAMPLES / mpi / POSIX.name, *LENGTH]
        run = [SCR, "run", "--runs", 6, "--pause", 0, "--"]
        again = ["for run in 1 2 3 4 5 6; do env", f"LD_PRELOAD={SHIM}", *srun(mpi)]
        for command in (
            [*run, *srun(mpi), "-n", 2, *program],
            [*run, f"mpirun.{mpi}", "-n", 2, *program],
            [*again, "-n", 2, *program, "&& break; done"],
            [*again, "--export=NONE", "-n", 2, *program, "&& break; done"],
        ):
            slurm.submit(command, variables_of(scene, slurm), "--export=NONE", "-N2",
                         "--ntasks-per-node=1")
            status, told = slurm.status(), slurm.told()
            assert status == 0, told
            assert states(scene)["checkpoint.50"] == "complete", told
            (scene.directory / ".scr" / "index.scr").unlink()
            (slurm.work / "status").unlink()


# A script that does without `scr run`: it has to know which nodes are good, and to try again.
OWN_LOOP = """\
export LD_PRELOAD={shim} SLURM_OVERLAP=1
for run in 1 2 3 4 5 6; do
    {launcher} $(cat {out}) -N3 -n3 {program} && exit 0
done
exit 1
"""


@story
def slurm_with_srun_alone(mpi):
    """`LD_PRELOAD=... srun ./app` without `scr run`: what is left after a lost node is told, and
    the next srun goes on from the caches."""
    with Scene(POSIX, mpi, ranks=3, nodes=4, SCR_COPY_TYPE="XOR", SCR_LEARN="0",
               SCR_FLUSH="0") as scene, slurm_of(scene) as slurm:
        program = [EXAMPLES / mpi / POSIX.name, *LENGTH, "--pause", "step", 35, scene.mark]
        out, script = slurm.work / "out_of_use", slurm.work / "loop.sh"
        out.write_text("--exclude=node4")
        script.write_text(OWN_LOOP.format(
            shim=SHIM, launcher=" ".join(srun(mpi)), out=out, program=" ".join(map(str, program)),
        ))
        slurm.submit(["sh", script], variables_of(scene, slurm), "-N4", "--ntasks-per-node=1")
        slurm.wait_for(scene.mark)
        recorded(scene, "checkpoint.30")
        out.write_text("--exclude=node3")
        scene.cluster.kill("node3")
        # Slurm kills the step when it knows.
        slurm.command("scontrol", "update", "nodename=node3", "state=down", "reason=dead")
        scene.mark.unlink()
        slurm.wait_for(scene.mark)
        scene.mark.unlink()
        status, told = slurm.status(), slurm.told()
        assert status == 0, told
        assert "only its nodes' caches have checkpoint.30" in told, told
        assert "going on from step 30" in told and "rebuilt by XOR: ranks 2" in told, told
        assert CHECKSUM.search(told).group(1) == scene.sum_wanted, told


@story
def slurm_ends_the_allocation(mpi):
    """The end that Slurm tells is a halt condition; `scancel` ends the run and all relaunching, and
    what the caches have can be saved from outside."""
    with Scene(POSIX, mpi, ranks=4, nodes=4, SCR_COPY_TYPE="XOR", SCR_LEARN="0",
               SCR_FLUSH="0") as scene, slurm_of(scene) as slurm:
        halting = {"SCR_HALT_SECONDS": "3600", "SCR_HALT_STATUS": "5"}  # the limit is 600
        told_env = scene.directory / "env.json"
        run = [SCR, "run", "--runs", 3, "--pause", 0, "--", f"mpirun.{mpi}", "-n", 4,
               EXAMPLES / mpi / POSIX.name, *LENGTH]
        options, begun = ("-N4", "--ntasks-per-node=1"), int(time.time())
        job = slurm.submit([SCR, "env", "--json", ">", told_env, ";", *run],
                           {**variables_of(scene, slurm), **halting}, *options)
        status, told = slurm.status(), slurm.told()
        assert status == 5 and "no further run" in told, told
        found = json.loads(told_env.read_text())
        assert found["nodes"] == "node[1-4]" and found["job"] == job, found
        limit = int(found["end_time"]) - begun  # ten minutes from the job's start
        assert 600 <= limit <= 600 + LIMIT_SECONDS, f"{found} {begun}"
        (slurm.work / "status").unlink()
        cancelled(scene, slurm, [f"mpirun.{mpi}"])


def cancelled(scene, slurm, launcher):
    """`scancel` of a job of `scr run`; what was before in its output does not count."""
    before = len(slurm.told())
    run = [SCR, "run", "--runs", 6, "--pause", 0, "--", *launcher, "-n", 4]
    program = [EXAMPLES / scene.mpi / POSIX.name, *LENGTH, "--pause", "step", 35, scene.mark]
    job = slurm.submit([*run, *program], variables_of(scene, slurm), "-N4", "--ntasks-per-node=1")
    slurm.wait_for(scene.mark)
    begun = slurm.told()[before:].count(" begins")
    slurm.command("scancel", job)
    slurm.wait_for_state(job, "")
    told = slurm.told()[before:]
    assert told.count(" begins") == begun, told
    for node in scene.cluster.up():
        left = scene.cluster.on(node, "pgrep", "-x", POSIX.process(), check=False)
        assert left.status == 1, f"still there on {node}: {left}"
    scene.mark.unlink()
    save = [f"SCR_{name}" for name in (f"JOB_ID={job}", f"CONF_FILE={scene.sample.config()}")]
    saved = scene.cluster.sim("exec", "--", "env", *save, SCR, "scavenge", "--prefix",
                              scene.directory)
    assert "checkpoint.30 is on the prefix" in saved.out, f"{saved} {told}"


@story
def slurm_cancels_a_job_of_srun(mpi):
    """`scancel` ends srun, its ranks and all relaunching; what the caches have can be saved."""
    with Scene(POSIX, mpi, ranks=4, nodes=4, SCR_COPY_TYPE="XOR", SCR_LEARN="0",
               SCR_FLUSH="0") as scene, slurm_of(scene) as slurm:
        cancelled(scene, slurm, srun(mpi))


@story
def slurm_halts_a_step_at_once(mpi):
    """`scr halt --immediate` ends srun and its step, not the job: the script goes on."""
    with Scene(POSIX, mpi, ranks=4, nodes=4, SCR_COPY_TYPE="XOR", SCR_LEARN="0") as scene, \
            slurm_of(scene) as slurm:
        run = [SCR, "run", "--runs", 6, "--pause", 0, "--", *srun(mpi), "-n", 4]
        program = [EXAMPLES / mpi / POSIX.name, *LENGTH, "--pause", "step", 35, scene.mark]
        slurm.submit([*run, *program], variables_of(scene, slurm), "-N4", "--ntasks-per-node=1")
        slurm.wait_for(scene.mark)
        scene.cluster.sim("exec", "--", SCR, "halt", "--immediate", scene.directory)
        status, told = slurm.status(), slurm.told()
        assert status != 0 and "'scr halt --immediate': the run is killed" in told, told
        assert "halt condition SCR_HALT_IMMEDIATE: no further run" in told, told
        for node in scene.cluster.up():
            left = scene.cluster.on(node, "pgrep", "-x", POSIX.process(), check=False)
            assert left.status == 1, f"still there on {node}: {left} {told}"
        # What was sealed is saved by the run that has ended.
        assert "checkpoint.30 is on the prefix now" in told, told


@story
def slurm_requeues_the_job(mpi):
    """The node of the batch script is lost: the job begins again on the others, under its id, and
    goes on from the cache."""
    requeued(mpi, [f"mpirun.{mpi}"])


@story
def slurm_requeues_a_job_of_srun(mpi):
    """The same with srun."""
    requeued(mpi, srun(mpi))


def requeued(mpi, launcher):
    with Scene(POSIX, mpi, ranks=3, nodes=4, SCR_COPY_TYPE="XOR", SCR_LEARN="0") as scene, \
            slurm_of(scene) as slurm:
        command = [SCR, "run", "--runs", 6, "--pause", 0, "--", *launcher, "-n", 3,
                   EXAMPLES / mpi / POSIX.name, *LENGTH, "--pause", "step", 35, scene.mark]
        job = slurm.submit(command, variables_of(scene, slurm), "--requeue", "-N3",
                           "--ntasks-per-node=1")
        slurm.wait_for(scene.mark)
        scene.cluster.kill("node1")
        scene.mark.unlink()
        slurm.command("scontrol", "update", "nodename=node1", "state=down", "reason=dead")
        # Slurm lets a job that it has requeued rest for two minutes.
        deadline = time.monotonic() + LIMIT_SECONDS
        while not scene.mark.exists():
            assert time.monotonic() < deadline, f"{slurm.state(job)}: {slurm.told()}"
            if slurm.state(job) == "PENDING":
                slurm.command("scontrol", "update", f"jobid={job}", "starttime=now")
            time.sleep(1)
        scene.mark.unlink()
        status, told = slurm.status(), slurm.told()
        assert status == 0, told
        assert "going on from step 30" in told and "rebuilt by XOR: ranks 0" in told, told
        assert CHECKSUM.search(told).group(1) == scene.sum_wanted, told
