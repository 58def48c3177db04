"""`scr learn`: what a watched run suggests for the examples is what config/ has for them."""

import os
import pathlib
import subprocess
import tempfile

from support import LAUNCH_ENVIRONMENT, ROOT, SHIM

CASES = []
SCR = ROOT / "target/dist/bin/scr"
RUN = ("--steps", "60", "--every", "10")
LIMIT_SECONDS = 120


def case(function):
    CASES.append(function)
    return function


def launch(mpi, where, words, before=(), run=RUN, **settings):
    """Runs the program in `where`, behind the words `before`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SCR_")}
    command = [*before, f"mpirun.{mpi}", "-n", "4", *words, *run]
    return subprocess.run(
        command, cwd=where, env={**clean, **LAUNCH_ENVIRONMENT, **settings}, capture_output=True,
        text=True, timeout=LIMIT_SECONDS, check=False,
    )


def shipped(name):
    """The lines of the configuration that comes with SCR."""
    lines = (ROOT / "config" / f"{name}.conf").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


@case
def learn_proposes_what_comes_with_scr(mpi, _program):
    """Series, {id}, {rank}, a pointer file, temporary names, names in turn."""
    built = ROOT / "target/examples" / mpi
    programs = {name: [str(built / name)] for name in
                ("heat_posix", "heat_stdio", "heat_cpp", "heat_f77", "heat_f08",
                 "heat_rsmpi")}
    if mpi == "openmpi":
        for name in ("heat_numpy", "heat_h5py"):
            programs[name] = ["/usr/bin/python3", str(built / f"{name}.py")]
    for name, words in programs.items():
        with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as there:
            want = launch(mpi, plain, words).stdout.splitlines()
            got = launch(mpi, there, words, [str(SCR), "learn", "--write", "--"])
            assert got.returncode == 0, f"{name}: {got}"
            assert got.stdout.splitlines()[:len(want)] == want, f"{name}: {got}"
            conf = (pathlib.Path(there) / ".scrconf").read_text().splitlines()
            assert conf[1:] == shipped(name), f"{name}: {conf}"
            assert not list((pathlib.Path(there) / ".scr").iterdir()), f"{name}: something stays"
            refused = launch(mpi, there, words, [str(SCR), "learn", "--write", "--"])
            assert refused.returncode == 1 and "has patterns" in refused.stderr, f"{refused}"


@case
def what_a_child_takes_away_is_not_proposed(mpi, program):
    """A run with such a proposal would cache nothing."""
    for words in (["gzip"], ["mv", "done"]):
        with tempfile.TemporaryDirectory() as there:
            before = [str(SCR), "learn", "--"]
            got = launch(mpi, there, [program("packs"), *words], before, run=())
            assert got.returncode == 1 and "SCR_CHECKPOINT_PATTERN" not in got.stdout, f"{got}"
            assert got.stdout.count("a process that the program starts removes") == 1, f"{got}"


@case
def a_watched_run_that_fails_says_so(mpi, _program):
    with tempfile.TemporaryDirectory() as there:
        before = [str(SCR), "learn", "--"]
        got = launch(mpi, there, ["sh", "-c", "exit 3"], before)
        assert got.returncode == 1 and "no rank of the program was watched" in got.stderr, f"{got}"


@case
def a_run_that_is_not_watched_is_told(mpi, _program):
    words = [str(ROOT / "target/examples" / mpi / "heat_posix")]
    with tempfile.TemporaryDirectory() as there:
        settings = {"LD_PRELOAD": str(SHIM), "SCR_SHIM_WATCH": "/no/such/place"}
        got = launch(mpi, there, words, **settings)
        assert got.returncode == 0 and got.stderr.count("is not watched") == 1, f"{got}"
