"""The API from Fortran, C++, Rust and Python: the same program in each, the same answers. The
programs are in programs/languages."""

import atexit
import os
import pathlib
import shutil
import subprocess
import tempfile

import calls  # finds the next one
import pool

PROGRAMS = calls.PROGRAMS / "languages"
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
CASES = []


def case(function):
    CASES.append(function)
    return function


@pool.once
def built(mpi):
    """Directory with all programs for `mpi`, each by the name of its source without its ending."""
    into = pathlib.Path(tempfile.mkdtemp(prefix="scr-api-languages-"))
    atexit.register(shutil.rmtree, into, ignore_errors=True)
    library = calls.DIST / "lib"
    subprocess.run(["gfortran", "-fsyntax-only", calls.INCLUDE / "scr.f90"], cwd=into, check=True)
    common = [f"-I{calls.INCLUDE}", f"-I{into}"]
    link = [f"-L{library}", f"-Wl,-rpath,{library}", "-lscr"]
    compilers = {".f": ["mpif77", "-Wall", "-std=legacy"], ".f90": ["mpif90", "-Wall"],
                 ".cpp": ["mpicxx", "-Wall", "-Wextra", "-DOMPI_SKIP_MPICXX"]}
    for source in sorted(PROGRAMS.iterdir()):
        wrapper, *options = compilers.get(source.suffix, [None])
        if wrapper is None:
            shutil.copy(source, into)
            continue
        # The include files of MPI have lines that -Wall is unhappy with.
        subprocess.run([f"{wrapper}.{mpi}", *options, "-w", *common, "-o", into / source.stem,
                        source, *link], check=True)
    crate = calls.ROOT / "src" / "api" / "rust" / "src" / "lib.rs"
    rustc = [os.environ.get("RUSTC", "rustc"), f"-Clinker=mpicc.{mpi}", f"-L{library}",
             f"-Clink-arg=-Wl,-rpath,{library}", "--out-dir", into]
    subprocess.run([*rustc, "--edition=2021", "--crate-name=scr", "--crate-type=rlib", crate],
                   check=True)
    subprocess.run([*rustc, "--edition=2024", "--extern", f"scr={into / 'libscr.rlib'}",
                    PROGRAMS / "rust.rs"], check=True)
    parts = [calls.ROOT / "examples" / name for name in ("heat_common.f90", "heat_scr.f90")]
    subprocess.run([f"mpif90.{mpi}", "-w", *common, "-o", into / "heat_scr", *parts, *link],
                   cwd=into, check=True)
    for name in ("heat_common.py", "heat_scr.py"):
        shutil.copy(calls.ROOT / "examples" / name, into)
    return into


def command(here, name, *arguments, ranks=2):
    program = built(here.mpi) / name
    interpreter = [PYTHON] if program.suffix == ".py" else []
    return [f"mpirun.{here.mpi}", "-n", str(ranks), *interpreter, str(program), *arguments]


def run(here, name, *arguments, shim=False, **settings):
    """Runs the program; mpi4py and the module `scr` are where an installation has them."""
    places = [str(calls.ROOT / "target" / "python-mpich")] * (here.mpi == "mpich")
    places += [str(calls.DIST / "lib" / "python")]
    got = calls.finish(here.start(2, name, command=command(here, name, *arguments),
                                  shim=shim,
                                  PYTHONPATH=":".join(places), **settings))
    assert got.status == 0, got
    return got


def said(got):
    return sorted(" ".join(line.split()) for line in got.out.splitlines())


def expected(*lines):
    return sorted(f"{rank} {line.replace('%', str(rank))}" for rank in (0, 1) for line in lines)


FIRST = expected("init 0", "have none", "one 0", "plot 0", "two 1", "end 0")
SECOND = expected("init 0", "have one", "reads one", "found one of %", "restart 0", "end 0")


def writes_and_restarts(here, name):
    got = run(here, name)
    assert said(got) == FIRST, got
    assert got.err.count("SCR:") == 1 and "two is not valid" in got.err, got
    assert "rank 1: " in got.err, got
    outputs = {path: (here.prefix / path).read_text() for path in here.tree("data")
               if "/plot/" in path}
    assert outputs == {f"data/plot/rank_{r}": f"plot of {r}\n" for r in (0, 1)}, f"{outputs} {got}"
    halt_file = here.prefix / ".scr" / "halt.scr"
    printed = subprocess.run([calls.DIST / "bin" / "scr", "print", halt_file], text=True,
                             capture_output=True, check=True).stdout
    assert "SCR_FINALIZE_CALLED" in printed, printed
    got = run(here, name)
    assert said(got) == SECOND and "SCR:" not in got.err, got


@case
def fixed_form_with_the_include_file(here):
    writes_and_restarts(here, "fixed")


@case
def free_form_with_the_include_file(here):
    got = subprocess.run([built(here.mpi) / "included"], text=True, capture_output=True,
                         check=True, env=here.environment(False, {}))
    assert got.stdout.split() == ["0", "1024", "0", "1", "2"], got


@case
def free_form_with_the_module(here):
    writes_and_restarts(here, "free")


@case
def the_module_beside_mpi_f08(here):
    writes_and_restarts(here, "modern")


@case
def cxx(here):
    writes_and_restarts(here, "cxx")


@case
def python(here):
    writes_and_restarts(here, "python.py")


@case
def rust(here):
    writes_and_restarts(here, "rust")


@case
def python_under_the_shim(here):
    """Both doors, one session: the module takes the library that the shim has loaded."""
    got = run(here, "python.py", shim=True, SCR_CHECKPOINT_PATTERN="other/{id}/*", SCR_LEARN="0")
    assert said(got) == FIRST, got


@case
def one_language_reads_what_another_wrote(here):
    assert said(run(here, "fixed")) == FIRST
    assert said(run(here, "python.py")) == SECOND


@case
def examples_in_other_languages(here):
    """They go on from what they have written, and come to the same result."""
    shutil.copy(calls.ROOT / "target" / "examples" / here.mpi / "heat_scr_rs", built(here.mpi))
    for name in ("heat_scr", "heat_scr.py", "heat_scr_rs"):
        whole = run(here, name, "--steps", "40")
        shutil.rmtree(here.prefix / ".scr")
        shutil.rmtree(here.prefix / "ckpt")
        run(here, name, "--steps", "25", "--every", "10")
        got = run(here, name, "--steps", "40")
        assert got.line("going on") == "going on from step 20", got
        assert got.line("step") == whole.line("step"), f"{whole}\n{got}"
        shutil.rmtree(here.prefix / ".scr")
        shutil.rmtree(here.prefix / "ckpt")


@case
def texts_of_fortran(here):
    """Too short is an error, never an overflow; too long, too."""
    got = calls.finish(here.start(1, "texts", command=command(here, "texts", ranks=1),
                                  shim=False))
    wrong = [line for line in got.out.splitlines() if ": OK" not in line]
    assert got.status == 0 and not wrong and got.out.count(": OK") == 16, got


@case
def names_by_which_compilers_call(here):
    """No underscore, one, two: of every call."""
    library = calls.DIST / "lib" / "libscr.so"
    listed = subprocess.run(["nm", "-D", "--defined-only", library], text=True, check=True,
                            capture_output=True).stdout.split()
    module = (calls.INCLUDE / "scr.f90").read_text()
    names = [line.split()[1].partition("(")[0] for line in module.splitlines()
             if line.startswith("    subroutine ")]
    assert len(names) == 17, names
    missing = [name + end for name in names for end in ("", "_", "__") if name + end not in listed]
    assert not missing, missing
    for option in ("-funderscoring", "-fno-underscoring", "-fsecond-underscore"):
        made = here.prefix / "names"
        subprocess.run([f"mpif77.{here.mpi}", option, "-o", made, PROGRAMS / "names.f", library,
                        f"-Wl,-rpath,{library.parent}"], check=True)
        got = subprocess.run([made], text=True, capture_output=True, check=False,
                             env=here.environment(False, {}))
        assert got.returncode == 0 and got.stdout.split() == ["v3.1.0", "0", "1"], f"{option} {got}"
        assert got.stderr.count("SCR_Finalize: ") == 1, f"{option} {got}"


@case
def python_without_an_mpi(here):
    """One clear sentence."""
    hidden = here.prefix / "mpi4py.py"
    hidden.write_text("raise ImportError('not here')\n")
    got = subprocess.run([PYTHON, "-c", "import scr; scr.init()"], text=True, capture_output=True,
                         check=False, cwd=here.prefix, env=here.environment(False, {
                             "PYTHONPATH": f"{here.prefix}:{calls.DIST / 'lib' / 'python'}"}))
    last = got.stderr.strip().splitlines()[-1]
    assert got.returncode == 1 and "Error: no MPI is loaded" in last and "not here" in last, got
