"""`scr run` on several nodes: launches that fail are followed by others on healthy nodes."""

import contextlib
import json

from cluster import SCR, Run
from samples import EXAMPLES, environment
from scene import LENGTH, Scene, checksum, newest_files
from salvage import wait_until
from stories import POSIX, story

SETTINGS = {"SCR_COPY_TYPE": "XOR", "SCR_LEARN": "0"}
BIG_ENOUGH = "-1"  # as many runs as it takes


@contextlib.contextmanager
def scene_of(mpi, nodes=6, **settings):
    with Scene(POSIX, mpi, nodes=nodes, **{**SETTINGS, **settings}) as scene:
        yield scene


def command(scene, *arguments):
    """mpirun's line for the sample, without a word of nodes."""
    program = EXAMPLES / scene.mpi / scene.sample.name
    return [f"mpirun.{scene.mpi}", "-n", scene.ranks, program, *LENGTH, *arguments]


def start(scene, options, *arguments, **settings):
    """Starts the sample by `scr run` on the head of the cluster; returns its Run."""
    usual = {
        "SCR_CONF_FILE": str(scene.sample.config()), "SCR_PREFIX": str(scene.directory),
        "SCR_NODELIST": f"node[1-{scene.cluster.nodes}]",
    }
    env = environment(scene.mpi, **{**usual, **scene.settings, **settings})
    words = [SCR, "run", "--pause", "0", *options, "--", *command(scene, *arguments)]
    return Run(scene.cluster.command("exec", "--", *words), scene.directory, env)


def expect_result(scene, outcome):
    assert outcome.status == 0, outcome
    assert checksum(outcome) == scene.sum_wanted, f"checksum is not {scene.sum_wanted}: {outcome}"
    files = newest_files(scene.sample, scene.directory)
    assert files == scene.files_wanted, f"last files differ: {sorted(files)}: {outcome}"


def said(outcome, *words):
    lines = [line for line in outcome.err.splitlines() if line.startswith("scr run: ")]
    return any(all(word in line for word in words) for line in lines)


@story
def three_lost_nodes_and_two_spares(mpi):
    """The third time no spare is left: three nodes are enough (SCR_MIN_NODES, in the file)."""
    with scene_of(mpi) as scene:
        config = scene.directory / "run.conf"
        config.write_text(scene.sample.config().read_text() + "SCR_MIN_NODES=3\nSCR_RUNS=4\n")
        pause = ("--pause", "step", 35, scene.mark)
        run = start(scene, ["--nodes", "4"], *pause, SCR_CONF_FILE=str(config))
        for node in ("node2", "node4", "node1"):
            run.wait_for_file(scene.mark)
            scene.cluster.kill(node)
            scene.mark.unlink()
        run.wait_for_file(scene.mark)
        scene.mark.unlink()
        outcome = run.finish()
        expect_result(scene, outcome)
        steps = [line for line in outcome.out.splitlines() if line.startswith("going on from")]
        assert steps == ["going on from step 30"] * 3, outcome
        for word in ("run 2 begins on node[1,3-5]", "run 3 begins on node[1,3,5-6]",
                     "run 4 begins on node[3,5-6]"):
            assert said(outcome, word), f"no line {word!r}: {outcome}"


@story
def the_last_run_fails(mpi):
    """Its exit status is that of the command, and a node that is lost is named."""
    with scene_of(mpi, nodes=4) as scene:
        run = start(scene, ["--runs", "3"], "--pause", "step", 15, scene.mark)
        run.wait_for_file(scene.mark)
        scene.cluster.kill("node2")
        outcome = run.finish()
        assert outcome.status not in (0, None), outcome
        assert said(outcome, "node2 is out"), outcome
        assert said(outcome, "3 healthy nodes, and a run needs 4"), outcome


@story
def a_hung_run(mpi):
    """No checkpoint comes: the run is killed, and the next one goes on to the end."""
    with scene_of(mpi, nodes=4, SCR_WATCHDOG_TIMEOUT="10") as scene:
        again = " ".join(map(str, command(scene)))
        options = ["--runs", BIG_ENOUGH, "--restart-command", again]
        outcome = start(scene, options, "--pause", "step", 35, scene.mark).finish()
        expect_result(scene, outcome)
        assert said(outcome, "the run is killed"), outcome
        assert "going on from step 30" in outcome.out, outcome


@story
def halt_after_two_checkpoints(mpi):
    """The program ends with a status that says failure; all the same there is no further run."""
    with scene_of(mpi, nodes=4, SCR_HALT_STATUS="5") as scene:
        scene.cluster.sim("exec", "--", SCR, "halt", "--checkpoints", 2, scene.directory)
        outcome = start(scene, ["--runs", BIG_ENOUGH]).finish()
        assert outcome.status == 5, outcome
        assert said(outcome, "SCR_NO_CHECKPOINTS_LEFT", "no further run"), outcome
        assert outcome.out.count("at step 0") == 1, outcome
        # The next one goes on: what a run has recorded of its own end stops no later one.
        outcome = start(scene, ["--runs", "1"]).finish()
        expect_result(scene, outcome)
        assert "going on from step 20" in outcome.out, outcome


@story
def halt_changed_while_the_run_counts(mpi):
    """Whoever changes the halt file while the run counts its checkpoints there loses nothing, and
    the run does not miscount."""
    with scene_of(mpi, nodes=4, SCR_HALT_STATUS="5") as scene:
        def halt(*words):
            line = ("exec", "--", SCR, "halt", "--json", *words, scene.directory)
            return json.loads(scene.cluster.sim(*line).out)[0]

        halt("--checkpoints", 25)
        run = start(scene, ["--runs", BIG_ENOUGH], "--every", 1)
        lefts, number = set(), 0
        while not run.ended():
            number += 1
            assert halt("--seconds", number)["seconds"] == number
            found = halt("--list")
            assert found["seconds"] == number, found
            lefts.add(found["checkpoints"])
        outcome = run.finish()
        assert outcome.status == 5 and said(outcome, "SCR_NO_CHECKPOINTS_LEFT"), outcome
        assert len(lefts) > 3, f"the run was over before it was looked at: {lefts}"
        outcome = start(scene, ["--runs", "1"]).finish()
        assert "going on from step 25" in outcome.out, outcome


@story
def halt_at_once(mpi):
    """`scr halt --immediate` kills the run in the middle of its work; there is no other."""
    with scene_of(mpi, nodes=4) as scene:
        run = start(scene, ["--runs", BIG_ENOUGH], "--pause", "step", 35, scene.mark)
        run.wait_for_file(scene.mark)
        scene.cluster.sim("exec", "--", SCR, "halt", "--immediate", scene.directory)
        outcome = run.finish()
        assert outcome.status != 0, outcome
        assert said(outcome, "the run is killed"), outcome
        assert said(outcome, "SCR_HALT_IMMEDIATE", "no further run"), outcome


@story
def the_newest_checkpoint_by_name(mpi):
    """A program that has to be told what to go on from: in its words and its environment."""
    with scene_of(mpi, nodes=4) as scene:
        program = EXAMPLES / mpi / scene.sample.name
        script = scene.directory / "app.sh"
        script.write_text(
            "#!/bin/sh\n"
            'echo "told <$1> <$SCR_LATEST_NAME> <${SCR_LATEST_PATH#$SCR_PREFIX/}>"\nshift\n'
            f'exec {program} "$@"\n'
        )
        script.chmod(0o755)
        words = [f"mpirun.{mpi}", "-n", scene.ranks, script, "id={latest_id}", *LENGTH]
        env = environment(
            mpi, SCR_CONF_FILE=str(scene.sample.config()), SCR_PREFIX=str(scene.directory),
            SCR_NODELIST="node[1-4]", **scene.settings,
        )

        def run(options, *more):
            line = [SCR, "run", "--pause", "0", *options, "--", *words, *more]
            return Run(scene.cluster.command("exec", "--", *line), scene.directory, env)

        first = run(["--runs", "2"], "--pause", "step", 35, scene.mark)
        first.wait_for_file(scene.mark)
        # The flush file follows the run by half a second, and is what such a name comes from.
        line = ("exec", "--", SCR, "flush-file", "--prefix", scene.directory)
        wait_until(
            lambda: "checkpoint.30" in scene.cluster.sim(*line, check=False).out,
            "checkpoint.30 is not recorded",
        )
        scene.cluster.kill_process("node2", "heat_posix")
        scene.mark.unlink()
        first.wait_for_file(scene.mark)
        scene.mark.unlink()
        outcome = first.finish()
        expect_result(scene, outcome)
        assert "told <id=> <> <>" in outcome.out, outcome
        assert "told <id=30> <checkpoint.30> <ckpt/step_30>" in outcome.out, outcome


@story
def a_new_allocation(mpi):
    """The nodes of the job before are none of this one's; what a person has asked for stays."""
    with scene_of(mpi, nodes=4, SCR_FLUSH="0", SCR_JOB_ID="first") as scene:
        def tell(tool, *words):
            words = ("exec", "--", SCR, tool, *words)
            return scene.cluster.sim(*words, check=False).out

        run = start(scene, ["--no-scavenge"], "--pause", "step", 35, scene.mark)
        run.wait_for_file(scene.mark)
        look = ("flush-file", "--prefix", scene.directory)
        wait_until(lambda: "checkpoint.30" in tell(*look), "checkpoint.30 is not recorded")
        scene.cluster.kill_process("node2", "heat_posix")
        scene.ended(run)
        nodes = ("nodes", "--prefix", scene.directory)
        tell("halt", "--checkpoints", 2, scene.directory)
        # The same allocation: no launch comes about, and the records stay.
        start(scene, ["--no-scavenge", "--min-nodes", "9"]).finish()
        assert "4" in tell(*nodes) and "checkpoint.30" in tell(*look)
        outcome = start(scene, ["--min-nodes", "9"], SCR_JOB_ID="second").finish()
        assert said(outcome, "checkpoint.30 is in the caches of job first"), outcome
        assert "4" not in tell(*nodes), tell(*nodes)
        outcome = start(scene, [], SCR_JOB_ID="second", SCR_HALT_STATUS="5").finish()
        assert outcome.status == 5 and "starting at step 0" in outcome.out, outcome
        assert "checkpoint.30" not in tell(*look), tell(*look)
