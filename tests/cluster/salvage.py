"""`scr scavenge`: a job is gone, and what its nodes' caches have comes to the prefix."""

import copy
import json
import os
import time

from cluster import LIMIT_SECONDS, SCR, Run
from samples import environment
from scene import LENGTH, NODES, Prefix, Scene
from stories import POSIX, story

SETTINGS = {"SCR_FLUSH": "0", "SCR_LEARN": "0", "SCR_JOB_ID": "gone"}


def scavenge(scene, *options, tool="scavenge"):
    """Runs it (or another tool) on the head of the cluster; returns its Outcome."""
    usual = {"SCR_CONF_FILE": str(scene.sample.config()), "SCR_PREFIX": str(scene.directory)}
    env = environment(scene.mpi, **usual, **scene.settings)
    words = scene.cluster.command("exec", "--", SCR, tool, *options)
    outcome = Run(words, scene.directory, env).finish()
    scene.story += f"\n--- the scavenge: {outcome}"
    return outcome


def states(scene):
    """Name to state of what the index lists."""
    words = ("exec", "--", SCR, "index", "--prefix", scene.directory, "list", "--json")
    return {one["name"]: one["state"] for one in json.loads(scene.cluster.sim(*words).out)}


def lose(scene, *nodes, step=35):
    """Runs up to a step, then nodes die, and all processes of the job with them."""
    run = scene.pause_at(step)
    if nodes:
        scene.cluster.kill(*nodes)
    else:
        scene.cluster.kill_process("node2", POSIX.process())
    scene.ended(run)


def restart_elsewhere(scene, step):
    """Another job: nothing of the caches is its own."""
    scene.restart(least=step, most=step, SCR_JOB_ID="next")


def saved_from_a_lost_node(mpi, scheme, *nodes):
    with Scene(POSIX, mpi, spare=len(nodes), SCR_COPY_TYPE=scheme, **SETTINGS) as scene:
        lose(scene, *nodes)
        outcome = scavenge(scene)
        assert outcome.status == 0, scene.story
        assert "checkpoint.30 is on the prefix now" in outcome.out, scene.story
        for node in nodes:
            assert f"nothing comes from {node}" in outcome.out, scene.story
        assert states(scene) == {"checkpoint.30": "complete"}, scene.story
        again = scavenge(scene)
        assert (again.status, scene.leftovers()) == (0, []), scene.story
        assert "the prefix has all" in again.out, scene.story
        restart_elsewhere(scene, 30)


@story
def saved_by_xor(mpi):
    """One node is lost; its files are rebuilt on the prefix."""
    saved_from_a_lost_node(mpi, "XOR", "node3")


@story
def saved_by_partner(mpi):
    """The neighbour has a copy."""
    saved_from_a_lost_node(mpi, "PARTNER", "node1")


@story
def saved_by_rs(mpi):
    """Two nodes are lost."""
    saved_from_a_lost_node(mpi, "RS", "node2", "node3")


@story
def saved_without_a_loss(mpi):
    """A process died, all nodes answer."""
    saved_from_a_lost_node(mpi, "SINGLE")


@story
def saved_by_the_lines_of_the_manual(mpi):
    """`scr_flush` saves the dataset that it names, of the job that its control directory names;
    `scr_postrun` the newest."""
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        lose(scene, "node3")
        control = scene.cluster.on("node1", "sh", "-c", "echo /dev/shm/*/scr.gone").out.strip()

        def outcome(name, *words, **settings):
            link = scene.directory / name
            link.symlink_to(SCR)
            env = environment(mpi, SCR_CONF_FILE=str(scene.sample.config()), **settings)
            line = scene.cluster.command("exec", "--", link, *words)
            return Run(line, scene.directory, env).finish()

        hosts = ("--jobset", "node[1-5]", "--down", "node3")
        flush = outcome("scr_flush", "--cntldir", control, "--id", 2, *hosts)
        assert (flush.status, flush.out) == (0, "checkpoint.20 is on the prefix now\n"), flush
        assert states(scene) == {"checkpoint.20": "complete"}, flush
        postrun = outcome("scr_postrun", "-p", scene.directory, SCR_JOB_ID="gone")
        assert postrun.status == 0, postrun
        assert "checkpoint.30 is on the prefix now" in postrun.out, postrun
        assert states(scene)["checkpoint.30"] == "complete", postrun
        restart_elsewhere(scene, 30)


@story
def what_cannot_be_saved(mpi):
    """SINGLE and a lost node: the index says what is missing; an older one stays current."""
    settings = {**SETTINGS, "SCR_FLUSH": "2"}
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="SINGLE", **settings) as scene:
        lose(scene, "node3")
        outcome = scavenge(scene)
        assert outcome.status == 1, scene.story
        assert "checkpoint.30 is lost" in outcome.out, scene.story
        found = states(scene)
        assert found == {"checkpoint.30": "incomplete", "checkpoint.20": "complete"}, found
        restart_elsewhere(scene, 20)


@story
def never_what_was_not_complete(mpi):
    """The job dies while checkpoint 30 is being written: 20 is saved."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        run = scene.start("--steps", 50, "--every", 10, "--pause", "write", 30, scene.mark)
        run.wait_for_file(scene.mark)
        scene.cluster.kill_process("node2", POSIX.process())
        scene.ended(run)
        assert scavenge(scene).status == 0, scene.story
        assert states(scene) == {"checkpoint.20": "complete"}, scene.story
        assert not (scene.directory / "ckpt/step_30/rank_1.dat").exists(), scene.story
        restart_elsewhere(scene, 20)


@story
def nothing_to_save(mpi):
    """No run, or another job: an error that says so. A live run is left alone."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        outcome = scavenge(scene)
        assert (outcome.status, "no node has a cache" in outcome.out) == (1, True), scene.story
        run = scene.pause_at(35)
        outcome = scavenge(scene)
        assert (outcome.status, "a live run" in outcome.err) == (1, True), scene.story
        scene.mark.unlink()
        assert run.finish().status == 0, scene.story


def rebuilt_from_copies(mpi, scheme, *parts):
    """A person copies what two of three nodes have left; `scr rebuild` does the rest."""
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE=scheme, **SETTINGS) as scene:
        lose(scene, "node3")
        rescue = scene.directory / "rescue"
        own = "cp -a /dev/shm/*/scr.gone" + "".join(parts)
        for node in ("node1", "node2", "node4"):
            (rescue / node).mkdir(parents=True)
            scene.cluster.on(node, "sh", "-c", f"{own} {rescue / node}", check=False)
        before = {path: path.read_bytes() for path in rescue.rglob("*") if path.is_file()}
        outcome = scavenge(scene, str(rescue), tool="rebuild")
        assert outcome.status == 0, scene.story
        assert "checkpoint.30 is on the prefix now" in outcome.out, scene.story
        after = {path: path.read_bytes() for path in rescue.rglob("*") if path.is_file()}
        assert after == before and len(before) > 4, scene.story
        words = ("exec", "--", SCR, "index", "verify", "--json", "--prefix", scene.directory)
        told = json.loads(scene.cluster.sim(*words).out)
        assert told["right"] and told["datasets"][0]["name"] == "checkpoint.30", told
        restart_elsewhere(scene, 30)


@story
def rebuilt_from_copies_of_whole_caches(mpi):
    """With the control directories of the nodes."""
    rebuilt_from_copies(mpi, "RS")


@story
def rebuilt_from_copies_of_datasets(mpi):
    """Without them: the redundancy files tell."""
    rebuilt_from_copies(mpi, "XOR", "/*/scr.dataset.*")


@story
def saved_by_the_run_that_failed(mpi):
    """`scr run` does it by itself when no launch is left."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        env = environment(
            mpi, SCR_CONF_FILE=str(scene.sample.config()), SCR_PREFIX=str(scene.directory),
            SCR_NODELIST="node[1-4]", **scene.settings,
        )
        words = [f"mpirun.{mpi}", "-n", scene.ranks, *scene.sample.words(mpi, *LENGTH)]
        words += ["--pause", "step", "35", str(scene.mark)]
        line = [SCR, "run", "--pause", "0", "--runs", "2", "--", *words]
        run = Run(scene.cluster.command("exec", "--", *line), scene.directory, env)
        run.wait_for_file(scene.mark)
        scene.cluster.kill("node2")
        outcome = run.finish()
        scene.mark.unlink()
        assert outcome.status != 0, outcome
        assert "checkpoint.30 is on the prefix now" in outcome.err, outcome
        assert states(scene) == {"checkpoint.30": "complete"}, outcome


def killed_in_mid_flush(mpi, scheme, *nodes):
    """Nodes die with half of the files staged, or with some of them under their names: the job is
    scavenged, and another one goes on from the prefix alone."""
    for point in ("flush.staged", "flush.publish"):
        settings = {**SETTINGS, "SCR_FLUSH": "3"}
        with Scene(POSIX, mpi, spare=len(nodes), SCR_COPY_TYPE=scheme, **settings) as scene:
            run = scene.start(
                "--steps", 50, "--every", 10, "--delay", 4,
                SCR_TEST_PAUSE=f"{point}:{scene.mark}",
            )
            run.wait_for_file(scene.mark)
            scene.cluster.kill(*nodes)
            scene.ended(run)
            assert scavenge(scene).status == 0, scene.story
            assert states(scene)["checkpoint.30"] == "complete", scene.story
            assert scene.leftovers() == [], scene.story
            restart_elsewhere(scene, 30)


@story
def killed_in_the_middle_of_a_flush(mpi):
    """XOR rebuilds what the lost node had."""
    killed_in_mid_flush(mpi, "XOR", "node3")


@story
def killed_in_the_middle_of_a_flush_partner(mpi):
    """Its neighbour has it."""
    killed_in_mid_flush(mpi, "PARTNER", "node3")


@story
def killed_in_the_middle_of_a_flush_rs(mpi):
    """Two nodes are lost."""
    killed_in_mid_flush(mpi, "RS", "node2", "node3")


@story
def a_scavenge_that_is_killed(mpi):
    """In the middle of its copies: the next one begins anew, and leaves nothing of the first."""
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        lose(scene, "node3")
        usual = {"SCR_CONF_FILE": str(scene.sample.config()), "SCR_PREFIX": str(scene.directory)}
        env = environment(mpi, **usual, **scene.settings)
        copies = scene.directory / ".scr" / "scavenge"
        # A node's copy that does not come to its end: half of it lies on the prefix.
        shell = scene.directory / "stalls"
        shell.write_text(
            f"#!/bin/sh\n[ $1 = node2 ] && touch {scene.mark} && exec sleep 600\n"
            f'{agent(scene)} "$@"; status=$?; touch {scene.directory}/done.$1; exit $status\n'
        )
        shell.chmod(0o755)
        words = scene.cluster.command("exec", "--", SCR, "scavenge")
        run = Run(words, scene.directory, {**env, "SCR_REMOTE_SHELL": str(shell)})
        run.wait_for_file(scene.mark)
        # Nor does a copy outlive the scavenge, and write beside the next one.
        asked = [number for number in range(1, NODES + 1) if number != 2]
        done = [scene.directory / f"done.node{number}" for number in asked]
        wait_until(lambda: all(one.exists() for one in done), "not all nodes have copied")
        assert any(copies.rglob("rank_*")), scene.story
        run.process.kill()
        run.process.wait()
        for one in (scene.mark, *done):
            one.unlink()
        assert copies.exists() and "checkpoint.30" not in states(scene), scene.story
        assert scavenge(scene).status == 0, scene.story
        assert states(scene) == {"checkpoint.30": "complete"}, scene.story
        assert not copies.exists() and scene.leftovers() == [], scene.story
        restart_elsewhere(scene, 30)


def wait_until(done, trouble):
    """`trouble` is a text, or gives one when it is needed."""
    until = time.monotonic() + LIMIT_SECONDS
    while not done():
        assert time.monotonic() < until, trouble() if callable(trouble) else trouble
        time.sleep(0.05)


# Names the node before each line and ends well whatever the command does, unless told not to.
PDSH = """\
#!/bin/bash
label=1 strict=0
while getopts NSw: option; do
    case $option in N) label=0;; S) strict=1;; w) host=$OPTARG;; *) exit 9;; esac
done
shift $((OPTIND - 1))
out=$({agent} "$host" "$@") status=$?
[ -n "$out" ] && {{ [ $label = 1 ] && echo "$host: $out" || echo "$out"; }}
[ $strict = 1 ] && exit $status || exit 0
"""


@story
def saved_through_pdsh(mpi):
    """pdsh brings the copies to the nodes; a dead one is known by its status."""
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        lose(scene, "node3")
        pdsh = scene.directory / "pdsh"
        pdsh.write_text(PDSH.format(agent=agent(scene)))
        pdsh.chmod(0o755)
        scene.settings["SCR_REMOTE_SHELL"] = str(pdsh)
        outcome = scavenge(scene)
        assert outcome.status == 0, scene.story
        assert "nothing comes from node3" in outcome.out, scene.story
        assert states(scene) == {"checkpoint.30": "complete"}, scene.story
        restart_elsewhere(scene, 30)


def told_to_save(outcome):
    """Commands that the shim in the launcher tells to type."""
    lines = [line for line in outcome.err.splitlines() if " scavenge --prefix " in line]
    assert all(line.startswith("SCR: the launch has failed") for line in lines), outcome
    return [line.split("with: ")[1] for line in lines]


def recorded(scene, name):
    """Waits until the run's records say that a cache has the checkpoint: they follow the run."""
    look = ("exec", "--", SCR, "flush-file", "--prefix", scene.directory)
    wait_until(lambda: name in scene.cluster.sim(*look).out, f"{name} is not recorded")


def killed(scene, step, **settings):
    """A launch whose process on node2 dies at that step; its Outcome."""
    run = scene.pause_at(step, **settings)
    scene.cluster.kill_process("node2", POSIX.process())
    return scene.ended(run)


@story
def the_launcher_tells_how_to_save(mpi):
    """One line, that can be typed as it is in a shell without any variable of the run."""
    with Scene(POSIX, mpi, spare=1, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        run = scene.pause_at(35)
        recorded(scene, "checkpoint.30")
        scene.cluster.kill("node3")
        outcome = scene.ended(run)
        commands = told_to_save(outcome)
        assert len(commands) == 1 and "checkpoint.30" in outcome.err, outcome
        clean = ["env", "-i", "PATH=/usr/bin:/bin", f"SCR_REMOTE_SHELL={agent(scene)}"]
        saved = scene.cluster.sim("exec", "--", *clean, "sh", "-c", commands[0])
        assert "checkpoint.30 is on the prefix now" in saved.out, saved
        assert states(scene) == {"checkpoint.30": "complete"}, scene.story
        restart_elsewhere(scene, 30)


def agent(scene):
    """The remote shell of the nodes."""
    words = ("exec", "--", "sh", "-c", "echo $OMPI_MCA_plm_rsh_agent")
    return scene.cluster.sim(*words).out.strip()


@story
def the_launcher_saves(mpi):
    """SCR_SCAVENGE_ON_EXIT=1 does it at once. The launcher's status is what it is without SCR."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        plain = killed(scene, 5, SCR_ENABLE="0")
        run = scene.pause_at(35, SCR_SCAVENGE_ON_EXIT="1")
        recorded(scene, "checkpoint.30")
        scene.cluster.kill_process("node2", POSIX.process())
        outcome = scene.ended(run)
        assert outcome.status == plain.status, f"{plain}\n{outcome}"
        assert "checkpoint.30 is on the prefix now" in outcome.err, outcome
        assert told_to_save(outcome) == [], outcome
        assert states(scene) == {"checkpoint.30": "complete"}, scene.story
        restart_elsewhere(scene, 30)


@story
def the_launcher_has_nothing_to_tell(mpi):
    """No checkpoint yet, all on the prefix, or no launch has come about: not a word."""
    with Scene(POSIX, mpi, SCR_COPY_TYPE="XOR", **SETTINGS) as scene:
        assert told_to_save(killed(scene, 5)) == [], scene.story
        run = scene.pause_at(35)
        recorded(scene, "checkpoint.30")
        scene.cluster.kill_process("node2", POSIX.process())
        assert len(told_to_save(scene.ended(run))) == 1, scene.story
        # That launch was a while ago: clocks may differ by some seconds.
        os.utime(scene.directory / ".scr" / "lease", (time.time() - 60,) * 2)
        words = ["/bin/sh", "-c", "exit 3"]
        env = scene.environment()
        other = scene.cluster.start(mpi, 4, words, scene.directory, env).finish()
        assert (other.status, told_to_save(other)) == (3, []), other
        assert scavenge(scene).status == 0, scene.story
        assert told_to_save(killed(scene, 35, SCR_FLUSH="1")) == [], scene.story


@story
def two_simulations_on_the_same_nodes(mpi):
    """Of one job: a node is lost; one is scavenged, both go on, each from its own."""
    settings = {**SETTINGS, "SCR_COPY_TYPE": "XOR"}
    with Scene(POSIX, mpi, spare=1, **settings) as first, Prefix() as elsewhere:
        second = copy.copy(first)
        second.directory, second.mark = elsewhere, elsewhere / "paused"
        runs = [first.pause_at(35), second.pause_at(25)]
        first.cluster.kill("node3")
        first.ended(runs[0])
        second.ended(runs[1])
        outcome = scavenge(second)
        assert outcome.status == 0 and "checkpoint.20 is on the prefix" in outcome.out, second.story
        assert states(first) == {}, first.story
        for scene, step in ((first, 30), (second, 20)):
            outcome = scene.restart(least=step, most=step)
            scene.expect(outcome, "rebuilt by XOR")
