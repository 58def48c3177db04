#!/usr/bin/env python3
"""The packages of `make deb`, installed in a root of their own: this machine's, with all changes
in memory and an empty /usr/local. Needs root and what apt-get downloads. `N passed, N failed`
comes last.

usage: packages.py [case ...]
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "target" / "examples"
PACKAGES = ("scr", "scr-dev")
MPIS = ("openmpi", "mpich")
LIMIT_SECONDS = 900
INSIDE = "--inside"  # this program, in name spaces of its own

CASES = []


def case(function):
    CASES.append(function)
    return function


def run(*words, check=True, **more):
    """Runs a command; returns what it has written, errors included."""
    done = subprocess.run(
        [*map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.STDOUT, errors="replace", timeout=LIMIT_SECONDS, check=False, **more,
    )
    assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}"
    return done.stdout


def install(*names):
    """Installs packages here, without what they recommend."""
    return run(
        "apt-get", "install", "-y", "-qq", "--no-install-recommends", *names,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )


class Fresh:
    """A root to install in, with all changes to `lower` in memory; the case gets it."""

    def __init__(self, files, lower="/"):
        self.debs, self.lower = files, lower

    def __enter__(self):
        self.memory = pathlib.Path(tempfile.mkdtemp(prefix="scr-packages-"))
        run("mount", "-t", "tmpfs", "none", self.memory)
        upper, work, self.root = (self.memory / name for name in ("upper", "work", "root"))
        for path in (upper, work, self.root):
            path.mkdir()
        layers = f"lowerdir={self.lower},upperdir={upper},workdir={work}"
        run("mount", "-t", "overlay", "overlay", "-o", layers, self.root)
        for name in ("dev", "proc", "sys"):
            run("mount", "--rbind", f"/{name}", self.root / name)
        for name in ("tmp", "run", "usr/local", "dev/shm"):
            run("mount", "-t", "tmpfs", "none", self.root / name)
        (self.root / "tmp").chmod(0o1777)
        if ROOT.is_relative_to("/tmp"):  # what was built has to be seen there, too
            (self.root / ROOT.relative_to("/")).mkdir(parents=True)
            run("mount", "--bind", ROOT, self.root / ROOT.relative_to("/"))
        for deb in self.debs:
            shutil.copy(deb, self.root / "tmp")
        return self

    def __exit__(self, *_):
        run("umount", "-R", "-l", self.memory)
        self.memory.rmdir()

    def do(self, *words, check=True, shell="sh", directory="/tmp", **variables):
        """Runs a line of a shell in there, as a user with a plain environment has it."""
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root",
            "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # the same for Open MPI 5
        }
        line = f"cd {directory} || exit\n{' '.join(map(str, words))}"
        return run("chroot", self.root, shell, "-c", line, check=check, env={**env, **variables})

    def add(self, *names):
        """`apt install` of these packages; those of ours by their files."""
        ours = [f"./{deb.name}" for deb in self.debs if deb.name.split("_")[0] in names]
        others = [name for name in names if name not in PACKAGES]
        return self.do("apt-get install -y -q --no-install-recommends", *ours, *others)

    def protects(self, mpi, prefix="/usr", **variables):
        """The literal command protects an unmodified program."""
        place = f"/tmp/{mpi}"
        self.do("mkdir", "-p", place)
        told = self.do(
            f"LD_PRELOAD=libscr_preload.so mpirun.{mpi} -n 2 {EXAMPLES / mpi / 'heat_posix'}",
            "--steps 50 --every 10 --delay 4", directory=place, SCR_DEBUG="1",
            SCR_CONF_FILE=f"{prefix}/share/scr/config/heat_posix.conf", **variables,
        )
        assert "sealed as dataset 2" in told and "step 50 total" in told, told
        listed = self.do("scr index list", directory=place, **variables)
        assert "checkpoint.50" in listed, listed


@case
def lintian_has_nothing_to_say(debs):
    """But for what the overrides explain."""
    if not shutil.which("lintian"):
        install("lintian")
    told = run("lintian", "--fail-on=error,warning", "--allow-root", *debs)
    assert not told.strip(), told


@case
def the_command_of_the_first_page(debs):
    """Both MPIs, with nothing of ours on the machine but the packages."""
    with Fresh(debs) as fresh:
        before = fresh.do("command -v scr; ldconfig -p | grep libscr", check=False)
        assert not before.strip(), before
        fresh.add("scr")
        for mpi in MPIS:
            fresh.protects(mpi)
        assert "--prefix" in fresh.do("scr_postrun --help")
        page = fresh.do("zcat -f /usr/share/man/man1/scr-scavenge.1*")
        assert ".TH scr-scavenge" in page, page
        assert "scr_postrun" in fresh.do("ls /usr/share/man/man1")
        told = fresh.do(". /usr/share/bash-completion/completions/scr; complete -p scr",
                        shell="bash")
        assert "_scr" in told, told
        assert "#compdef scr" in fresh.do("cat /usr/share/zsh/vendor-completions/_scr")


@case
def programs_that_call_scr(debs):
    """They are built with what scr-dev has, and find their library."""
    with Fresh(debs) as fresh:
        fresh.add(*PACKAGES)
        for mpi in MPIS:
            program, place = f"/tmp/heat.{mpi}", f"/tmp/calls.{mpi}"
            fresh.do(f"mpicc.{mpi} -o {program} /usr/share/scr/examples/heat_scr.c",
                     "$(pkg-config --cflags --libs scr)", f"&& mkdir {place}")
            told = fresh.do(f"mpirun.{mpi} -n 2 {program} --steps 50 --every 10", directory=place)
            assert "step 50 total" in told, told
            assert "complete" in fresh.do("scr index list", directory=place)
        assert "3" in fresh.do("python3 -c 'import scr; print(scr.__name__, 3)'")
        assert ".TH" in fresh.do("zcat -f /usr/share/man/man3/SCR_Init.3*")


def loaded(fresh, setup):
    """What `module load` does: for the packages, and for an installation at another place."""
    def module(words):
        return fresh.do(f"{setup} && {words}", shell="bash")

    told = module("module load scr && echo root $SCR_ROOT && command -v scr && echo $PATH")
    assert "root /usr\n/usr/bin/scr\n/usr/local/bin:" in told, told
    assert "survive lost nodes" in module("module whatis scr 2>&1")
    assert "scavenge" in module("man scr_postrun | cat"), "a page of a classic name"
    there = "module use /opt/scr/share/modules/modulefiles && module load scr"
    told = module(f"{there} && command -v scr && echo $LD_LIBRARY_PATH $PYTHONPATH && man -w")
    words = told.split()
    assert words[:2] == ["/opt/scr/bin/scr", "/opt/scr/lib"], told
    assert words[2].startswith("/opt/scr/lib/python3"), told
    assert words[3].startswith("/opt/scr/share/man:") and ":/usr/share/man" in words[3], told
    told = module(f"{there} && module unload scr && echo left $SCR_ROOT $LD_LIBRARY_PATH.")
    assert "left .\n" in told, told
    line = (f"LD_PRELOAD=libscr_preload.so mpirun.openmpi -n 2 {EXAMPLES}/openmpi/heat_posix"
            " --steps 50 --every 10 --delay 4")
    told = module(f"{there} && export SCR_DEBUG=1 SCR_PREFIX=/tmp/run && mkdir -p /tmp/run && cd"
                  f" /tmp/run && SCR_CONF_FILE=$SCR_ROOT/share/scr/config/heat_posix.conf {line}")
    assert "sealed as dataset 2" in told, told


@case
def the_module_file(debs):
    """With environment-modules, and with Lmod."""
    for package, setup in (
        ("environment-modules", ". /usr/share/modules/init/bash"),
        ("lmod", ". /etc/profile.d/lmod.sh"),
    ):
        with Fresh(debs) as fresh:
            fresh.add("scr", package, "man-db")
            run("make", "-s", "--old-file=build", "install", f"DESTDIR={fresh.root}",
                "PREFIX=/opt/scr", cwd=ROOT)
            loaded(fresh, setup)


@case
def nothing_is_left(debs):
    """After `apt purge`."""
    with Fresh(debs) as fresh:
        fresh.add(*PACKAGES)
        named = [fresh.root / name.lstrip("/") for name in fresh.do(
            "cat", *(f"/var/lib/dpkg/info/{name}.list" for name in PACKAGES)
        ).split()]
        files = [path for path in named if path.is_symlink() or not path.is_dir()]
        assert len(files) > 100, files
        fresh.do("apt-get purge -y -q", *PACKAGES)
        left = [path for path in files if path.is_symlink() or path.exists()]
        assert not left, left


def attempt(function, debs):
    begun = time.monotonic()
    try:
        function(debs)
        error = None
    except Exception:  # a broken case must not end the others
        error = traceback.format_exc(limit=3)
    seconds = time.monotonic() - begun
    word = "ok  " if error is None else "FAIL"
    print(f"{word} {function.__name__} ({seconds:.1f} s)", flush=True)
    if error:
        print("\n".join("     " + line for line in error.splitlines()), flush=True)
    return error is None


def chosen_cases(program, words, cases):
    """Those that the words name, or all, for the program in name spaces of its own."""
    if os.geteuid() != 0:
        print("a root of their own needs root\n0 passed, 1 failed")
        sys.exit(1)
    if INSIDE not in words:
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.execvp(apart[0], [*apart, sys.executable, program, INSIDE, *words])
    wanted = [word for word in words if word != INSIDE]
    return [one for one in cases if not wanted or one.__name__ in wanted]


def main(words):
    chosen = chosen_cases(__file__, words, CASES)
    if not shutil.which("dh"):
        install("debhelper")
    made = pathlib.Path(tempfile.mkdtemp(prefix="packages-", dir=ROOT / "target"))
    try:
        # All is built; the examples must not be built anew under others who run them.
        run("make", "-s", "--old-file=build", "deb", f"DEB={made / 'deb'}", cwd=ROOT)
        debs = sorted((made / "deb").glob("*.deb"))
        assert sorted(deb.name.split("_")[0] for deb in debs) == sorted(PACKAGES), debs
        results = [attempt(one, debs) for one in chosen]
    finally:
        shutil.rmtree(made, ignore_errors=True)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
