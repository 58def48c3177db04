"""What the parts of `make bench` share: how things are run, and how they are told."""

import dataclasses
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "hard"), str(ROOT / "tests" / "support")]
import support  # noqa: E402

SOURCES = ROOT / "tests" / "bench"
GIGA = 1e9


@dataclasses.dataclass(frozen=True)
class Build:
    """An installation of SCR that is measured; one without a place is the program alone."""

    name: str
    dist: pathlib.Path | None

    @property
    def shim(self):
        return self.dist / "lib" / "libscr_preload.so"

    def knows(self, parameter):
        """Whether it has that parameter."""
        command = [self.dist / "bin" / "scr", "config", "--template"]
        return parameter in subprocess.run(command, check=True, capture_output=True,
                                           text=True).stdout


ALONE = Build("alone", None)
NOW = Build("now", support.DIST)


def builds():
    """What is measured by turns: this build, and an older one if BENCH_BEFORE names its `dist`."""
    before = os.environ.get("BENCH_BEFORE")
    if not before:
        return [NOW]
    older = Build("before", pathlib.Path(before).resolve())
    if not older.shim.exists():
        sys.exit(f"BENCH_BEFORE: there is no {older.shim}")
    return [NOW, older]


def row(what, plain, shim, ratio, aim=""):
    print(f"{what:50} {plain:>10} {shim:>10} {ratio:>9}   {aim}".rstrip(), flush=True)


def build(names, mpi, scratch):
    """Compiles those programs for `mpi`; their paths by name."""
    programs = {name: str(scratch / f"{name}.{mpi}") for name in names}
    for name, program in programs.items():
        subprocess.run(
            [f"mpicc.{mpi}", "-O2", "-Wall", "-Wextra", "-o", program, SOURCES / f"{name}.c",
             "-ldl"],
            check=True)
    return programs


def environment(build, **settings):
    """That of a program with this build's shim, or alone."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SCR_")}
    env.update(support.LAUNCH_ENVIRONMENT)
    if build.dist:
        env["LD_PRELOAD"] = str(build.shim)
        env.update(settings)
    return env


def output(command, env, where, told=None):
    """The numbers that a program prints, a list a line. SCR has nothing to say of it but what it
    is `told`."""
    done = subprocess.run(command, env=env, cwd=where, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    messages = [line for line in done.stderr.splitlines() if "SCR:" in line]
    if done.returncode != 0 or any(told is None or told not in line for line in messages):
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stderr}")
    return [list(map(float, line.split())) for line in done.stdout.splitlines()]
