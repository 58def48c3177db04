"""Memory: a program under the address sanitizer, and one under valgrind. Errors count that our code
or the program has a part in; what MPI does by itself is not ours."""

import pathlib
import re
import subprocess
import xml.etree.ElementTree as tree

import calls
from calls import finish

CASES = []
WORDS = ["config:SCR_FLUSH=1", "config:SCR_FLUSH", "init", "output:a:3", "write:f%r:1000",
         "complete_output:1", "have", "restart", "read:f%r", "complete_restart:1", "start",
         "long:200", "long:3000", "complete:0", "need", "should_exit", "current:a", "nulls",
         "drop:a", "finalize"]
# Mistakes of a program that both have to find: a place that is too small, an answer that is lost.
OVERFLOW = ["init", "small_place", "finalize"]
LOSS = ["config:SCR_FLUSH=1", "keep:SCR_FLUSH", "init", "finalize"]
# They do what others ask for.
SHIM = "libscr_preload.so"
SERVANTS = re.compile(r"/(libc|ld-linux|libasan|libubsan|libgcc_s|vgpreload_|valgrind)[^/]*$")


def case(function):
    CASES.append(function)
    return function


def is_ours(objects, program, lost=True):
    """Of the files that the frames of an error lie in, innermost first. A frame without one is of a
    part of MPI that was unloaded before the report. What the shim loses is ours; what it hands on
    (MPI_Init, a write) is its caller's."""
    names = [pathlib.Path(name).name for name in objects if not SERVANTS.search(name)]
    acts = next((name for name in names if lost or name != SHIM), "")
    return acts in (SHIM, pathlib.Path(program).name) or "libscr.so" in names


def compiled(here, *options):
    library = calls.DIST / "lib"
    made = here.base / "memory"
    subprocess.run([f"mpicc.{here.mpi}", "-g", "-O1", *options, f"-I{calls.INCLUDE}", "-o", made,
                    calls.PROGRAMS / "says.c", f"-L{library}", "-lscr",
                    f"-Wl,-rpath,{library}"], check=True)
    return str(made)


def run(here, command, words, **settings):
    whole = [f"mpirun.{here.mpi}", "-n", "2", *command, *words]
    return finish(here.start(2, "says", command=whole, **{"shim": False, **settings}))


def sanitized(here, program, words):
    """The run, and the sanitizers' reports about us."""
    log = here.base / "asan"
    options = (f"log_path={log}:fast_unwind_on_malloc=0:detect_leaks=1:exitcode=0:"
               "stack_trace_format='frame %m in %f'")
    # Nothing may be loaded before the sanitizer, not even what makes ranks yield.
    got = run(here, ["env", "-u", "LD_PRELOAD", program], words, ASAN_OPTIONS=options)
    reports = [line for line in got.err.splitlines() if "runtime error" in line]
    for path in here.base.glob("asan.*"):
        text = path.read_text(errors="replace")
        path.unlink()
        if "ERROR: AddressSanitizer" in text:
            reports.append(text)
            continue
        for leak in re.split(r"\n\s*\n", text):
            # The program's functions have names. A frame in it without one is of a library that was
            # unloaded: the sanitizer has mapped the program's file to where that was, to read it.
            frames = re.findall(r"^frame (\S+) in (\S+)", leak, flags=re.M)
            objects = [name for name, function in frames if (name, function) != (program, "<null>")]
            if "leak of" in leak and is_ours(objects, program):
                reports.append(leak)
    return got, reports


@case
def address_sanitizer(here):
    """The C side: what goes through the interface into the program's memory and back."""
    program = compiled(here, "-fsanitize=address,undefined")
    _, found = sanitized(here, program, OVERFLOW)
    assert any("buffer-overflow" in one and "SCR_Route_file" in one for one in found), found
    got, found = sanitized(here, program, LOSS)
    assert any("leak of" in report for report in found), (found, got)
    got, found = sanitized(here, program, WORDS)
    assert not found and got.status == 0, (found, got)
    assert got.out.count(" finalize 0") == 2, got


@case
def address_sanitizer_under_the_shim(here):
    """The same with both doors. The sanitizer comes behind the shim; it cannot be told to make a
    file before the shim is there, and what is lost is not looked for."""
    program = compiled(here, "-fsanitize=address,undefined")
    options = {"shim": True, "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}
    got = run(here, [program], OVERFLOW, **options)
    assert "buffer-overflow" in got.err and "SCR_Route_file" in got.err, got
    (here.prefix / "ckpt/step_1").mkdir(parents=True)
    words = [*WORDS[2:-1], "plain:ckpt/step_1/rank_%r.dat", "barrier", "barrier", "finalize"]
    got = run(here, [program], words, **options)
    assert "Sanitizer" not in got.err and "runtime error" not in got.err, got
    assert got.status == 0 and got.out.count(" finalize 0") == 2, got


def under_valgrind(here, program, words, **settings):
    """The run, and valgrind's reports about us: kind, and the innermost frames."""
    log = here.base / "valgrind"
    got = run(here, ["valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite",
                     "--errors-for-leak-kinds=definite", "--keep-debuginfo=yes",
                     "--num-callers=40", "--xml=yes", f"--xml-file={log}.%p", program], words,
              **settings)
    reports, seen = [], 0
    for path in here.base.glob("valgrind.*"):
        root = tree.parse(path).getroot()
        path.unlink()
        seen += 1
        for error in root.iter("error"):
            frames = list(error.find("stack").iter("frame"))
            objects = [frame.findtext("obj", "") for frame in frames]
            if is_ours(objects, program, error.findtext("kind").startswith("Leak_")):
                names = [frame.findtext("fn", "?") for frame in frames]
                reports.append(" < ".join([error.findtext("kind"), *names]))
    assert seen == 2, got
    return got, reports


@case
def valgrind(here):
    """A short job: all that the interface does, and the session behind it."""
    program = compiled(here)
    _, found = under_valgrind(here, program, OVERFLOW)
    assert any(report.startswith("InvalidWrite") for report in found), found
    got, found = under_valgrind(here, program, LOSS)
    assert any(report.startswith("Leak_DefinitelyLost") for report in found), (found, got)
    got, found = under_valgrind(here, program, WORDS)
    assert not found and got.status == 0, (found, got)
    assert got.out.count(" finalize 0") == 2, got


@case
def valgrind_under_the_shim(here):
    """The same with both doors: what the shim keeps is kept to be found."""
    program = compiled(here)
    _, found = under_valgrind(here, program, LOSS[1:], shim=True, SCR_FLUSH="1")
    assert any(report.startswith("Leak_DefinitelyLost") for report in found), found
    _, found = under_valgrind(here, program, ["barrier"], shim=True, SCR_CHECKPOINT_PATTERN=None)
    assert not found, found
    (here.prefix / "ckpt/step_1").mkdir(parents=True)
    words = [*WORDS[2:-1], "plain:ckpt/step_1/rank_%r.dat", "barrier", "barrier", "finalize"]
    got, found = under_valgrind(here, program, words, shim=True)
    assert not found and got.status == 0, (found, got)
    assert got.out.count(" finalize 0") == 2, got
