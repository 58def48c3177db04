"""What `make install` leaves: programs are built from there with pkg-config, CMake and cargo, and
the one library serves whichever MPI they bring."""

import atexit
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import calls  # finds the next one
import pool
import states

CASES = []
CMAKE = """cmake_minimum_required(VERSION 3.19)
project(app {language})
find_package(MPI REQUIRED COMPONENTS {language})
find_package(scr 3.0 REQUIRED)
add_executable(app {source})
target_link_libraries(app PRIVATE scr::scr MPI::MPI_{language})
"""


def case(function):
    CASES.append(function)
    return function


@pool.once
def installed():
    """The prefix below a DESTDIR, and the directory that Python looks in."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="scr-api-installed-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    # What is to be installed is built: -o takes it for up to date.
    subprocess.run(["make", "-s", "-o", "build", "install", f"DESTDIR={place}", "PREFIX=/opt/scr"],
                   cwd=calls.ROOT, check=True, stdout=subprocess.DEVNULL)
    return place / "opt" / "scr"


def packaged(name):
    """What pkg-config says of it, as moved below the DESTDIR."""
    path = installed() / "lib" / "pkgconfig"
    got = subprocess.run(["pkg-config", "--define-prefix", "--cflags", "--libs", name], text=True,
                         check=True, capture_output=True,
                         env={**os.environ, "PKG_CONFIG_PATH": str(path)})
    return got.stdout.split()


def loaded(program, **environment):
    """The libscr.so that the loader finds for it."""
    got = subprocess.run(["ldd", program], text=True, check=True, capture_output=True,
                         env={**os.environ, **environment})
    return pathlib.Path(re.search(r"libscr\.so => (\S+)", got.stdout).group(1)).resolve()


def engine():
    return (installed() / "lib" / "libscr.so").resolve()


def serves(here, program):
    """A program that is built right: it writes a checkpoint."""
    launch = [f"mpirun.{here.mpi}", "-n", "2", str(program)]
    got = calls.finish(here.start(2, "", command=[*launch, "init", "finalize"], shim=False))
    assert got.status == 0 and len(got.out.split("\n")) == 5 and "SCR:" not in got.err, got


@case
def built_with_pkg_config(here):
    """It finds the library, and that takes the MPI of the compiler that was used."""
    program = here.prefix / "says"
    source = calls.PROGRAMS / "says.c"
    subprocess.run([f"mpicc.{here.mpi}", source, "-o", program, *packaged("scr")], check=True)
    assert loaded(program) == engine()
    serves(here, program)


@case
def links_no_mpi(here):
    """Shim, library and command need nothing but what every system has."""
    for name in ("lib/libscr.so", "lib/libscr_preload.so", "bin/scr"):
        listed = subprocess.run(["readelf", "-d", installed() / name], text=True, check=True,
                                capture_output=True).stdout
        needed = re.findall(r"NEEDED.*\[(.*?)\.so", listed)
        assert set(needed) <= {"libc", "libgcc_s", "libm", "ld-linux-x86-64"}, f"{name} {needed}"
    assert here.mpi


@case
def built_with_cmake(here):
    """C, C++ and Fortran; the compilers that find_package(MPI) is told decide."""
    says, cxx = calls.PROGRAMS / "says.c", calls.PROGRAMS / "languages" / "cxx.cpp"
    free = calls.PROGRAMS / "languages" / "free.f90"
    wrappers = {"C": "mpicc", "CXX": "mpicxx", "Fortran": "mpif90"}
    for language, source in (("C", says), ("CXX", cxx), ("Fortran", free)):
        place = here.prefix / language
        place.mkdir()
        (place / "CMakeLists.txt").write_text(CMAKE.format(language=language, source=source))
        wrapper = f"{wrappers[language]}.{here.mpi}"
        for words in (["-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={installed()}",
                       f"-DMPI_{language}_COMPILER={wrapper}"], ["--build", "build"]):
            got = subprocess.run(["cmake", *words], cwd=place, text=True, capture_output=True,
                                 check=False)
            assert got.returncode == 0, f"{language}: {got.stdout}{got.stderr}"
        assert loaded(place / "build" / "app") == engine(), language
    serves(here, here.prefix / "C" / "build" / "app")


@case
def python_finds_what_is_installed(here):
    """The module finds the library of the installation that it is a part of."""
    module = next(installed().glob("lib/python*/*-packages/scr"))
    places = [str(module.parent), str(calls.ROOT / "target" / "python-mpich")]
    script = "import scr; print(scr.get_version(), scr._library._library()._name)"
    launch = [f"mpirun.{here.mpi}", "-n", "1", "/usr/bin/python3", "-c", script]
    got = calls.finish(here.start(1, "", command=launch, shim=False,
                                  PYTHONPATH=":".join(places[:1 + (here.mpi == "mpich")])))
    assert got.out.split() == ["v3.1.0", str(engine())], got


@case
def built_with_cargo(here):
    """A program names the crate by where it is; that finds the library."""
    crate = installed() / "share" / "scr" / "rust"
    manifest = f"""[package]\nname = "app"\nversion = "0.1.0"\nedition = "2024"
[[bin]]\nname = "app"\npath = "{calls.PROGRAMS / "languages" / "rust.rs"}"
[dependencies]\nscr-api = {{ path = "{crate}" }}\n[workspace]\n"""
    (here.prefix / "Cargo.toml").write_text(manifest)
    examples = installed() / "share" / "scr" / "examples" / "rust"
    shutil.copy(examples / "build.rs", here.prefix)
    own = {name: value for name, value in os.environ.items() if name != "SCR_ROOT"}
    got = subprocess.run([os.environ.get("CARGO", "cargo"), "build", "--quiet", "--offline"],
                         cwd=here.prefix, text=True, capture_output=True, check=False,
                         env={**own, "RUSTFLAGS": f"-Clinker=mpicc.{here.mpi}"})
    assert got.returncode == 0 and not got.stderr, got
    assert loaded(here.prefix / "target" / "debug" / "app") == engine()
    of_examples = re.search(r'scr-api = .*"(.*)"', (examples / "Cargo.toml").read_text()).group(1)
    assert (examples / of_examples).resolve() == crate.resolve(), of_examples


@case
def manual_pages(here):
    """One for each function of scr.h, with its states, who calls it, and its errors."""
    header = (installed() / "include" / "scr.h").read_text()
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    names = set(re.findall(r"\b(SCR_[A-Z][a-z]\w+)\(", code))
    pages = {page.stem: page.read_text() for page in installed().glob("share/man/man3/*.3scr")}
    assert names == set(pages) and len(names) == 19, names ^ set(pages)
    for name, text in pages.items():
        wanted = [".SH NAME", ".SH SYNOPSIS", ".SH STATES", ".SH RANKS", ".SH ERRORS"]
        missing = [head for head in wanted if head not in text]
        assert not missing or text.startswith(".so man3/"), f"{name}: {missing}"
    # Valid by the table of states; those that need something to be there are not in it.
    more = {"SCR_Route_file": {"Restart"}, "SCR_Start_restart": {"Init", "Idle"},
            "SCR_Drop": {"Init", "Idle"}, "SCR_Delete": {"Init", "Idle"}}
    for _, name, valid in states.CALLS:
        told = re.search(r"\.SH STATES\n([\w, ]+)[.;]", pages[name]).group(1).split(", ")
        assert set(told) == set(valid) | more.get(name, set()), f"{name}: {told}"
