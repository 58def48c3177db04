"""`scr run` in jobs of a real Slurm: its daemons run on the virtual nodes."""

import contextlib
import os
import shutil
import tempfile
import time

from cluster import LIMIT_SECONDS, SCR
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

    def command(self, *words):
        """On the head, without the variables that `scr sim exec` has for mpirun there."""
        clean = ["env", "-i", f"PATH={os.environ['PATH']}", "HOME=/root", "USER=root",
                 f"SLURM_CONF={self.config}"]
        return self.cluster.sim("exec", "--", *clean, *words)

    def submit(self, command, variables, *options):
        """Submits a script that runs a command; its output goes to `out` and `err`."""
        script = self.work / "job.sh"
        exports = [f"export {name}='{value}'" for name, value in variables.items()]
        script.write_text(SCRIPT.format(
            variables="\n".join(exports), command=" ".join(map(str, command)), work=self.work,
        ))
        self.command("sbatch", "--no-kill", "--no-requeue", *options, "-D", self.work.parent,
                     "-o", self.work / "out", "-e", self.work / "err", script)

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


def lost_node(mpi, launcher):
    """A node of the job is lost: the next run is on the spare one, in the same allocation."""
    with Scene(POSIX, mpi, ranks=3, nodes=4, SCR_COPY_TYPE="XOR", SCR_LEARN="0") as scene, \
            slurm_of(scene) as slurm:
        variables = {
            "SLURM_CONF": slurm.config, "SCR_PREFIX": scene.directory,
            "SCR_CONF_FILE": scene.sample.config(), **scene.settings,
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
        }
        program = [EXAMPLES / mpi / POSIX.name, *LENGTH, "--pause", "step", 35, scene.mark]
        # Now and then a rank dies in srun's PMIx at the start: a run more, and nothing else.
        command = [SCR, "run", "--runs", 6, "--pause", 0, "--nodes", 3, "--", *launcher, "-n", 3]
        slurm.submit([*command, *program], variables, "-N4", "--ntasks-per-node=1")
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


@story
def slurm_with_mpirun(mpi):
    """The nodes of the job are in mpirun's own options."""
    lost_node(mpi, [f"mpirun.{mpi}"])


@story
def slurm_with_srun(mpi):
    """srun starts the ranks; Open MPI's come up by PMIx, MPICH's by PMI-2."""
    lost_node(mpi, ["srun", {"openmpi": "--mpi=pmix", "mpich": "--mpi=pmi2"}[mpi]])
