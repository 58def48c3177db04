"""Nodes that are reached by a real sshd, as in most clusters: keys, host keys, a configuration."""

import contextlib
import pathlib
import subprocess

from cluster import SCR, Run
from runs import command, expect_result, said
from salvage import SETTINGS, restart_elsewhere, states
from samples import environment
from scene import Scene
from stories import POSIX, story

SERVER = """\
HostKey {work}/host_key
AuthorizedKeysFile {work}/key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile /tmp/sshd.pid
"""
CLIENT = """\
Host node*
    IdentityFile {work}/key
    UserKnownHostsFile {work}/known_hosts
    LogLevel ERROR
    ServerAliveInterval 1
"""
# What `scr sim exec` sets, so that mpirun on the head does without ssh.
OTHER_SHELLS = ("OMPI_MCA_plm_rsh_agent", "HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC")


@contextlib.contextmanager
def scene_of(mpi, nodes, spare=0):
    """A cluster whose head and nodes know ssh and nothing else."""
    with Scene(POSIX, mpi, nodes=nodes, spare=spare, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        work = scene.directory / "ssh"
        work.mkdir()
        for name in ("key", "host_key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(work / name)]
            subprocess.run(words, check=True)
        public = (work / "host_key.pub").read_text(encoding="ascii")
        (work / "known_hosts").write_text(f"node* {public}", encoding="ascii")
        for name, text in (("sshd_config", SERVER), ("ssh_config", CLIENT)):
            (work / name).write_text(text.format(work=work), encoding="ascii")
        # Where the server drops its rights; the package's own unit makes it elsewhere.
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        for node in scene.cluster.up():
            scene.cluster.on(node, "/usr/sbin/sshd", "-f", work / "sshd_config")
        # The head's own view of the file: this machine's is left alone.
        bind = ("mount", "--bind", work / "ssh_config", "/etc/ssh/ssh_config")
        scene.cluster.sim("exec", "--", *bind)
        yield scene


def start(scene, *words):
    """Starts `scr ...` on the head; returns its Run."""
    env = environment(
        scene.mpi, SCR_CONF_FILE=str(scene.sample.config()), SCR_PREFIX=str(scene.directory),
        SCR_NODELIST=f"node[1-{scene.cluster.nodes}]", **scene.settings,
    )
    without = [word for name in OTHER_SHELLS for word in ("-u", name)]
    line = scene.cluster.command("exec", "--", "env", *without, SCR, *words)
    return Run(line, scene.directory, env)


@story
def a_run_over_ssh(mpi):
    """A node is lost: `scr run` finds that out, and goes on with the spare one."""
    with scene_of(mpi, nodes=4, spare=1) as scene:
        program = command(scene, "--pause", "step", 35, scene.mark)
        run = start(scene, "run", "--pause", 0, "--nodes", 4, "--runs", 2, "--", *program)
        run.wait_for_file(scene.mark)
        scene.cluster.kill("node3")
        scene.mark.unlink()
        run.wait_for_file(scene.mark)
        scene.mark.unlink()
        outcome = run.finish()
        expect_result(scene, outcome)
        assert said(outcome, "node3 is out", "does not answer"), outcome
        assert said(outcome, "run 2 begins on node[1-2,4-5]"), outcome
        assert "rebuilt by XOR: ranks 2" in outcome.err, outcome


@story
def saved_over_ssh(mpi):
    """No launch is left: the nodes' copies come by ssh; a node that is dead is named. What one
    node cannot do is told with its own words."""
    with scene_of(mpi, nodes=4) as scene:
        program = command(scene, "--pause", "step", 35, scene.mark)
        run = start(scene, "run", "--no-scavenge", "--", *program)
        run.wait_for_file(scene.mark)
        scene.cluster.kill("node3")
        assert run.finish().status != 0, run.outcome()
        scene.mark.unlink()
        outcome = start(scene, "scavenge").finish()
        assert outcome.status == 0, outcome
        assert "checkpoint.30 is on the prefix now" in outcome.out, outcome
        told = outcome.line("nothing comes from node3: ssh: exit status: 255, ssh: connect to host")
        assert told, outcome
        assert states(scene) == {"checkpoint.30": "complete"}, outcome
        down = start(scene, "down-nodes", "--reason").finish()
        assert down.status == 1, down
        assert down.line("node3: it does not answer (ssh: exit status: 255, ssh: connect"), down
        # A person who logs in for the first time: the reason is another one.
        (scene.directory / "ssh" / "known_hosts").unlink()
        down = start(scene, "down-nodes", "--reason").finish()
        assert "node1: it does not answer (ssh: exit status: 255, Host key" in down.out, down
        restart_elsewhere(scene, 30)
