"""The same program with the shim: one session for its calls and for its files."""

import subprocess

from calls import DIST, INCLUDE, PROGRAMS, Answers, finish, index
from restarting import READ, checkpoints, crash

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def symbols(here):
    """The library exports the interface, the shim's entry, and nothing else."""
    library = DIST / "lib" / "libscr.so"
    got = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                         capture_output=True)
    names = [line.split()[-1].split("@")[0] for line in got.stdout.splitlines()]
    others = [name for name in names
              if not name.lower().startswith("scr_") or name.lower().strip("_") == "scr"]
    assert not others, others
    assert "SCR_Configf" in names and "scr_engine_table" in names, names
    dynamic = subprocess.run(["readelf", "-d", library], check=True, text=True,
                             capture_output=True).stdout
    assert "[libscr.so]" in dynamic, dynamic


@case
def calls_and_patterns_in_one_session(here):
    """Numbers are common to both; a file belongs to the door that it was given to."""
    words = ["plain:ckpt/step_1/rank_%r.dat", "barrier", "barrier", "output:called:1",
             "write:c/f%r:100", "write:ckpt/step_2/rank_%r.dat:200", "barrier", "complete_output:1",
             "have", "plain:ckpt/step_3/rank_%r.dat", "barrier", "barrier", "finalize"]
    for name in ("1", "3"):
        (here.prefix / f"ckpt/step_{name}").mkdir(parents=True)
    got = here.says(2, "init", *words, shim=True, SCR_FLUSH="1", SCR_DEBUG="1")
    assert all(code == "0" for _, _, code, _ in got.lines), got
    sealed = [line.split(" is sealed as ")[0].removeprefix("SCR: ")
              for line in got.got.err.splitlines() if " is sealed as " in line]
    assert sorted(sealed) == ["called", "checkpoint 1", "checkpoint 3"], f"{sealed} {got}"
    assert got.all("have") == (0, "1 called"), got
    assert "are on" not in got.got.err or True, got
    for name in ("c/f1", "ckpt/step_1/rank_0.dat", "ckpt/step_2/rank_1.dat",
                 "ckpt/step_3/rank_1.dat"):
        assert (here.prefix / name).exists(), f"{name}: {got}"
    listed = index(here)
    assert all(f" {name} " in listed for name in ("called", "checkpoint.1", "checkpoint.3")), listed
    assert got.got.err.count("in this run:") == 1, got


@case
def shim_without_patterns(here):
    """It has nothing to do; the program's calls start the session, and nothing is complained of."""
    got = here.says(2, "init", "start", "write:f%r:10", "complete:1", "have", "finalize", shim=True,
                    SCR_CHECKPOINT_PATTERN=None).good()
    assert got.all("have") == (0, "1 scr.dataset.1"), got
    assert (here.prefix / "f1").exists(), got


@case
def patterns_that_come_later(here):
    """A cache of calls alone is taken over by a launch with the shim, and the other way round; what
    patterns have matched is not, by launches without them: both doors then do without it."""
    words = checkpoints("a")
    crash(here, 2, *words, SCR_CHECKPOINT_PATTERN=None, SCR_FLUSH="0")
    for shim, pattern in ((True, "ckpt/{id}/*"), (False, None), (True, "ckpt/step_{id}/*")):
        got = here.says(2, "init", *READ, "finalize", shim=shim, SCR_CHECKPOINT_PATTERN=pattern,
                        SCR_FLUSH="0")
        assert got.all("have") == (0, "1 a"), got
        assert got.of("read:f%r")[1] == (0, "'a/f1 of 1' 1000"), got
    (here.prefix / "ckpt/step_1").mkdir(parents=True)
    crash(here, 2, "plain:ckpt/step_1/r%r", "barrier", "barrier", shim=True,
          SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/*", SCR_FLUSH="0", SCR_SETTLE_MILLISECONDS="0")
    got = here.says(2, "init", "have", "start", "write:d/f%r:10", "complete:1", "finalize",
                    shim=True, SCR_CHECKPOINT_PATTERN="other/{id}/*")
    assert got.got.err.count("it has checkpoints of other patterns") == 1, got
    assert got.all("have") == (0, "0 -") and (here.prefix / "d/f1").exists(), got


@case
def settings_come_too_late_under_the_shim(here):
    got = here.says(2, "config:SCR_FLUSH=1", "init", "start", "write:f%r:10", "complete:1",
                    "finalize", shim=True)
    assert got.got.err.count("comes too late") == 1, got


@case
def linked_with_another_implementation(here):
    """A program that was linked with a library of that name, and without versions of its symbols,
    runs with ours in its place."""
    ours = DIST / "lib"
    listed = subprocess.run(["nm", "-D", "--defined-only", ours / "libscr.so"], check=True,
                            text=True, capture_output=True).stdout
    names = sorted({word.split("@")[0] for word in listed.split() if word.startswith("SCR_")})
    other = here.base / "other"
    other.mkdir()
    (other / "stub.c").write_text("".join(f"int {name}(void) {{ return 7; }}\n" for name in names))
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-Wl,-soname,libscr.so", "-o",
                    other / "libscr.so", other / "stub.c"], check=True)
    program = other / "says"
    subprocess.run([f"mpicc.{here.mpi}", f"-I{INCLUDE}", "-o", program, PROGRAMS / "says.c",
                    f"-L{other}", "-lscr"], check=True)
    words = ["init", "start", "write:f%r:10", "complete:1", "have", "finalize"]
    command = [f"mpirun.{here.mpi}", "-n", "2", str(program)]
    theirs = finish(here.start(2, "", shim=False, command=[*command, "init"],
                               LD_LIBRARY_PATH=str(other)))
    assert sorted(theirs.out.splitlines()) == ["0 init 7 ", "1 init 7 "], theirs
    got = finish(here.start(2, "", shim=False, command=[*command, *words],
                            LD_LIBRARY_PATH=str(ours)))
    assert got.status == 0 and not got.err.strip(), got
    answers = Answers(got)
    assert answers.all("complete:1")[0] == 0, got
    assert answers.all("have") == (0, "1 scr.dataset.1"), got
