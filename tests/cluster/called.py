"""Programs that call SCR, without the shim, on nodes that die: spares take their place. Nobody
hands the environment on to other nodes here: settings are in the prefix's file."""

import dataclasses

from cluster import DIST, SCR, Run
from samples import EXAMPLES, PYTHON_MPICH, Sample, environment
from scene import LENGTH, Scene, checksum
from stories import story


@dataclasses.dataclass(frozen=True)
class Called(Sample):
    """An example that finds the module of SCR, if it is one in Python."""

    def words(self, mpi, *arguments):
        path = [DIST / "lib" / "python", *([PYTHON_MPICH] if mpi == "mpich" else [])]
        return ["env", f"PYTHONPATH={':'.join(map(str, path))}", *super().words(mpi, *arguments)]


C = Called("heat_scr", "ckpt/step_{step}/*")
RUST = Called("heat_scr_rs", "ckpt/step_{step}/*")
FORTRAN = Called("heat_scr_f", "ckpt/step_{step}/*")
PYTHON = Called("heat_scr", "ckpt/step_{step}/*", python=True)


class Plain(Scene):
    """A scene without the shim."""

    def __init__(self, sample, mpi, spare, **in_file):
        super().__init__(sample, mpi, spare=spare)
        self.in_file = in_file

    def __enter__(self):
        super().__enter__()
        lines = (f"{name}={value}\n" for name, value in self.in_file.items())
        (self.directory / ".scrconf").write_text("".join(lines))
        return self

    def environment(self, **settings):
        return environment(self.mpi, **settings)


def rebuilt_on_spares(sample, mpi, scheme, lost):
    with Plain(sample, mpi, len(lost), SCR_COPY_TYPE=scheme) as scene:
        run = scene.pause_at(38)
        scene.cluster.kill(*lost)
        scene.ended(run)
        outcome = scene.restart(least=30, most=30)
        scene.expect(outcome, "step_30", f"rebuilt by {scheme}")


@story
def node_lost_by_a_program_of_calls(mpi):
    rebuilt_on_spares(C, mpi, "XOR", ["node3"])


@story
def two_nodes_lost_by_a_fortran_program_of_calls(mpi):
    rebuilt_on_spares(FORTRAN, mpi, "RS", ["node2", "node3"])


@story
def node_lost_by_a_python_program_of_calls(mpi):
    rebuilt_on_spares(PYTHON, mpi, "PARTNER", ["node1"])


@story
def node_lost_by_a_rust_program_of_calls(mpi):
    rebuilt_on_spares(RUST, mpi, "XOR", ["node2"])


@story
def a_program_of_calls_in_scr_run(mpi):
    """One command: the launch that loses its node is followed by one with the spare."""
    with Plain(C, mpi, 1, SCR_COPY_TYPE="XOR") as scene:
        env = scene.environment(SCR_NODELIST=f"node[1-{scene.cluster.nodes}]")
        words = [f"mpirun.{mpi}", "-n", scene.ranks, EXAMPLES / mpi / C.name, *LENGTH, "--pause",
                 "step", 35, scene.mark]
        command = [SCR, "run", "--api", "--pause", "0", "--nodes", "4", "--runs", "2", "--", *words]
        run = Run(scene.cluster.command("exec", "--", *command), scene.directory, env)
        for node in ("node2", None):
            run.wait_for_file(scene.mark)
            if node:
                scene.cluster.kill(node)
            scene.mark.unlink()
        outcome = run.finish()
        assert outcome.status == 0 and checksum(outcome) == scene.sum_wanted, outcome
        assert outcome.out.count("going on from step 30") == 1, outcome
