#!/usr/bin/env python3
"""One engine for every MPI: those of wheels (wheels.py), on virtual nodes. Without the shim and
with it, a lost rank, a lost node under two simulations at once, a program that calls SCR, Fortran,
and mpi4py 4. Needs root.

usage: mpis.py [--turns] [word of the case's name ...]

With --turns those that `make test` takes. One that cannot be had is skipped, and a line says so.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "support")]
import pool  # noqa: E402
import wheels  # noqa: E402
from cluster import SHIM, Cluster, Run  # noqa: E402
from run import attempt  # noqa: E402
from samples import environment  # noqa: E402
from scene import Prefix, checksum, restart_step  # noqa: E402
from wheels import MPIS, PYTHON  # noqa: E402

RANKS, STEPS, EVERY = 3, 50, 10  # a rank a node
PAUSED, SEALED = 35, 30
LENGTH = ("--steps", STEPS, "--every", EVERY, "--delay", 8)


class Job:
    """Launches of one program in a prefix of its own."""

    def __init__(self, cluster, mpi, directory, words, **settings):
        self.cluster, self.mpi, self.directory, self.words = cluster, mpi, directory, words
        self.settings, self.mark = settings, directory / "paused"

    def start(self, *arguments, shim=True):
        env = environment("openmpi", **self.mpi.own_settings())
        if shim:
            # What the first checkpoints teach depends on how quickly they come.
            env.update(LD_PRELOAD=str(SHIM), SCR_FLUSH="0", SCR_LEARN="0", **self.settings)
        words = [*self.words, *map(str, [*LENGTH, *arguments])]
        # Intel's does not count the slots of a hostfile.
        each = ["-ppn", "1"] if self.mpi.hydra else []
        command = [self.mpi.launcher(), *each, "-n", str(RANKS), *words]
        return Run(self.cluster.command("exec", "--", *command), self.directory, env)

    def paused(self):
        run = self.start("--pause", "step", PAUSED, self.mark)
        run.wait_for_file(self.mark)
        assert "SCR:" not in run.outcome().err, f"not all is well: {run.outcome()}"
        return run

    def ended(self, run):
        outcome = run.finish()
        # PRRTE's launcher gives 0 where it has lost a daemon.
        assert "checksum" not in outcome.out, f"a killed run ended well: {outcome}"
        self.mark.unlink()

    def goes_on(self, wanted, *said):
        """Starts it again: from the cache, with the result of an undisturbed run."""
        outcome = self.start().finish()
        assert outcome.status == 0 and restart_step(outcome) == SEALED, f"{outcome}"
        assert checksum(outcome) == wanted, f"not {wanted}: {outcome}"
        assert all(words in outcome.err for words in said), f"not {said}: {outcome}"


def undisturbed(job):
    """The result without the shim, whose files go again."""
    with Prefix() as directory:
        alone = Job(job.cluster, job.mpi, directory, job.words)
        outcome = alone.start(shim=False).finish()
        assert outcome.status == 0 and not outcome.err.count("SCR:"), f"{outcome}"
        return checksum(outcome)


def loses_a_rank(mpi, words, process, **settings):
    with Cluster(RANKS, slots=1) as cluster, Prefix() as directory:
        job = Job(cluster, mpi, directory, words, SCR_COPY_TYPE="SINGLE", **settings)
        wanted = undisturbed(job)
        run = job.paused()
        cluster.kill_process("node2", process)
        job.ended(run)
        cluster.epilogue()
        job.goes_on(wanted, "is in the cache")


def config(name):
    return str(ROOT / "config" / f"{name}.conf")


def lost_rank(mpi, compiler="mpicc"):
    program = wheels.program(mpi, "heat_posix", compiler)
    loses_a_rank(mpi, [str(program)], program.name, SCR_CONF_FILE=config("heat_posix"))


def lost_rank_of_the_standard_abi(mpi):
    lost_rank(mpi, "mpicc_abi")


def lost_rank_in_fortran(mpi):
    program = wheels.program(mpi, "heat_f77", mpi.fortran)
    loses_a_rank(mpi, [str(program)], program.name, SCR_CONF_FILE=config("heat_f77"))


def lost_rank_in_python(mpi):
    """Open MPI hands on nothing by itself: mpi4py's variables are on the command line."""
    library = next((mpi.place() / "lib").glob("libmpi.so.[0-9]*"))
    words = ["env", f"PYTHONPATH={wheels.mpi4py()}", f"MPI4PY_LIBMPI={library}", PYTHON,
             str(ROOT / "examples" / "heat_numpy.py")]
    loses_a_rank(mpi, words, "python3", SCR_CONF_FILE=config("heat_numpy"))


def lost_rank_of_a_program_that_calls_scr(mpi):
    program = wheels.program(mpi, "heat_scr")
    loses_a_rank(mpi, [str(program)], program.name)


def lost_node_of_two_simulations(mpi):
    """They run side by side on the same nodes; each rebuilds its own."""
    program = wheels.program(mpi, "heat_posix")
    with Cluster(RANKS, spare=1, slots=1) as cluster, Prefix() as one, Prefix() as two:
        settings = {"SCR_COPY_TYPE": "XOR", "SCR_CONF_FILE": config("heat_posix")}
        jobs = [Job(cluster, mpi, place, [str(program)], **settings) for place in (one, two)]
        wanted = undisturbed(jobs[0])
        runs = [job.paused() for job in jobs]
        cluster.kill("node3")
        for job, run in zip(jobs, runs):
            job.ended(run)
        cluster.epilogue()
        for job in jobs:
            job.goes_on(wanted, f"checkpoint {SEALED} is in the cache; rebuilt by XOR: ranks 2")


def variables_on_other_nodes(mpi):
    """Whatever else the user gives to Open MPI's launcher, each rank has the shim and our
    variables, and what the user wanted."""
    five = "-5." in mpi.name
    parameter, daemon = ("prte", "prted") if five else ("orte", "orted")
    agent, option = f"env FOO=1 {daemon}", ["--mca", f"{parameter}_launch_agent"]
    variable = f"{'PRTE' if five else 'OMPI'}_MCA_{parameter}_launch_agent"
    users = ".prte" if five else ".openmpi"
    tool = "libm.so.6"
    ways = [  # words, variables, what is preloaded besides, FOO
        ([], {}, "", ""), (["-x", "FOO=1"], {}, "", "1"),
        (["-x", f"LD_PRELOAD={tool}"], {}, tool, ""),
        (["--mca", "mca_base_env_list", f"LD_PRELOAD={tool};FOO=1"], {}, tool, "1"),
        ([], {"OMPI_MCA_mca_base_env_list": "FOO", "FOO": "1"}, "", "1"),
        ([], {variable: agent}, "", "1"), ([*option, agent], {}, "", "1"),
        ([*option, agent], {variable: "false"}, "", "1"), ([], {"HOME": users}, "", "1"),
    ]
    with Cluster(2, slots=1) as cluster, Prefix() as directory:
        script, home = directory / "print", directory / "home"
        script.write_text('#!/bin/sh\necho "seen $(hostname) $LD_PRELOAD $SCR_SEEN, $FOO."\n')
        script.chmod(0o755)
        (home / users).mkdir(parents=True)
        (home / users / "mca-params.conf").write_text(f"{parameter}_launch_agent = {agent}\n")
        for words, variables, preload, foo in ways:
            if "HOME" in variables:
                variables = {"HOME": str(home)}
            env = environment("openmpi", LD_PRELOAD=str(SHIM), SCR_SEEN="it's {seen}", **variables)
            command = cluster.command("exec", "--", mpi.launcher(), *words, "-n", "2", str(script))
            outcome = Run(command, directory, env).finish()
            found = sorted(line for line in outcome.out.splitlines() if line.startswith("seen"))
            preloads = ":".join(filter(None, (str(SHIM), preload)))
            want = [f"seen node{n} {preloads} it's {{seen}}, {foo}." for n in (1, 2)]
            assert found == want, f"{words} {variables}: {outcome}"


def cases_of(mpi):
    yield lost_rank
    yield lost_rank_in_python
    yield lost_rank_of_a_program_that_calls_scr
    yield lost_node_of_two_simulations
    if "mpicc_abi" in mpi.compilers:
        yield lost_rank_of_the_standard_abi
    if mpi.fortran:
        yield lost_rank_in_fortran
    if not mpi.hydra:
        yield variables_on_other_nodes


def main(words):
    wanted = [word for word in words if word != "--turns"]
    if os.geteuid() != 0:
        print("virtual nodes need root\n0 passed, 1 failed")
        return 1
    chosen = []
    for mpi in MPIS:
        cases = [case for case in cases_of(mpi)
                 if all(word in (mpi.name, case.__name__) for word in wanted)]
        if not cases or ("--turns" in words and not mpi.often):
            continue
        why = wheels.install(mpi)
        if why:
            print(f"SKIPPED, nothing of it is tried: {mpi.name}: {why}", flush=True)
            continue
        chosen += [(f"{mpi.name} {case.__name__}", lambda case=case, mpi=mpi: case(mpi))
                   for case in cases]
    results = pool.run_all(chosen, lambda _: 1, lambda item: attempt(*item))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) and chosen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
