"""Bad input: one clear message each (file, line or path, and what is done instead), and the
program's own result is what it is without the shim."""

import os
import pathlib
import shutil
import subprocess

from support import DIST, data_files, finish, place

CASES = []
# For a mount that nobody else sees.
NAMESPACES = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]


def bad(message_has, **settings):
    """Makes a case: `steady` under `settings` must print exactly one message with these words."""

    def make(prepare):
        def run(mpi, program):
            with place(mpi, program) as plain, place(mpi, program) as here:
                want = plain.run(2, "steady", 20, 5, shim=False)
                changed = prepare(here) or {}
                got = here.run(2, "steady", 20, 5, **{"SCR_FLUSH": "1", **settings, **changed})
                assert (got.status, got.out) == (want.status, want.out), f"{want}\n{got}"
                check_message(got, message_has)
                assert data_files(plain.tree()) == data_files(here.tree()), f"files differ: {got}"

        run.__name__ = f"bad_{prepare.__name__}"
        CASES.append(run)
        return run

    return make


def check_message(got, words):
    lines = [line for line in got.err.splitlines() if "SCR:" in line]
    assert len(lines) == 1, f"not exactly one message: {got}"
    for word in words:
        assert word in lines[0], f"{word!r} is not in the message: {got}"


@bad([".scrconf:1", "SCR_CHECKPOINT_PATTERN"])
def unknown_key(here):
    (here.prefix / ".scrconf").write_text("SCR_CHECKPONT_PATTERN=ckpt/*\n")


def prefix_that_is_read_only(mpi, program):
    """The program writes no checkpoint then; what it computes is not harmed."""
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(2, "steady", 4, 5, shim=False)
        frozen = f"mount --bind {here.prefix} {here.prefix} && " \
                 f"mount -o remount,ro,bind {here.prefix} && cd {here.prefix} && exec \"$@\""
        alone = ["unshare", *NAMESPACES, "sh", "-c", frozen, "sh"]
        got = finish(here.start(2, "steady", command=alone + here.command(2, "steady", [4, 5])))
        assert (got.status, got.out) == (want.status, want.out), f"{want}\n{got}"
        check_message(got, [str(here.prefix), "Read-only"])


CASES.append(prefix_that_is_read_only)


@bad(["libscr.so"])
def engine_not_found(here):
    """The shim alone, without its engine beside it."""
    alone = here.base / "alone"
    alone.mkdir()
    shutil.copy(DIST / "lib" / "libscr_preload.so", alone)
    return {"LD_PRELOAD": str(alone / "libscr_preload.so")}


@bad(["engine"])
def engine_that_is_none(here):
    """A file in the engine's place that is no library."""
    lib = here.base / "lib"
    shutil.copytree(DIST / "lib", lib)
    for engine in lib.rglob("libscr.so"):
        engine.write_text("not a library\n")
    return {"LD_PRELOAD": str(lib / "libscr_preload.so")}


def program_without_mpi(mpi, program):
    """A program that never calls MPI is left alone, silently, with mpirun, too."""
    with place(mpi, program) as here:
        environment = here.environment(True, {})
        commands = (
            ["ls", "/"], ["bash", "-c", "echo $((6*7))"], ["/usr/bin/python3", "-c", "print(6*7)"],
            [f"mpirun.{mpi}", "-n", "2", "hostname"],
        )
        for command in commands:
            plain_environment = {k: v for k, v in environment.items() if k != "LD_PRELOAD"}
            runs = [
                subprocess.run(command, env=env, capture_output=True, check=False, cwd=here.prefix)
                for env in (plain_environment, environment)
            ]
            assert runs[0].stdout == runs[1].stdout and runs[0].returncode == runs[1].returncode
            assert runs[1].stderr == b"", runs[1].stderr
        assert os.listdir(here.base) == [] and os.listdir(here.prefix) == []
        assert pathlib.Path(here.prefix).is_dir()


CASES.append(program_without_mpi)
