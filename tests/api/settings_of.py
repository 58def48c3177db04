"""Settings of the program, when a checkpoint is due, halt conditions, and the end."""

import subprocess

from calls import DIST, finish, index

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def program_settings_are_weaker_than_the_users(here):
    (here.prefix / ".scrconf").write_text("SCR_FLUSH=7\nSCR_CHECKPOINT_INTERVAL=5\n")
    ask = [f"config:{name}" for name in ("SCR_FLUSH", "SCR_CHECKPOINT_INTERVAL", "SCR_RUNS",
                                         "SCR_CACHE_SIZE", "CKPT=0 TYPE", "STORE=/x COUNT")]
    said = [word.replace(" ", "_") for word in ask]
    got = here.says(1, "config:SCR_FLUSH=3", "config:SCR_CHECKPOINT_INTERVAL=2",
                    "config:SCR_CACHE_SIZE=4", "config:CKPT=0 INTERVAL=1 TYPE=SINGLE", *ask, "init",
                    *ask, "config:SCR_FLUSH=9", "finalize", SCR_CHECKPOINT_INTERVAL="6")
    for at in (0, 1):
        answers = [got.all(word, at)[1] for word in said]
        assert answers == ["7", "6", "-", "4", "SINGLE", "-"], f"{answers} {got}"
    assert got.got.err.count("comes too late") == 1, got


@case
def unset_and_wrong_settings(here):
    got = here.says(1, "config:SCR_FLUSH=3", "config:SCR_FLUSH=", "config:SCR_FLUSH",
                    "config:SCR_FLUHS=3", "config:SCR_FLUSH=many", "init", "finalize")
    assert got.all("config:SCR_FLUSH") == (0, "-"), got
    assert "did you mean SCR_FLUSH" in got.got.err and "many" in got.got.err, got


@case
def when_a_checkpoint_is_due(here):
    asks = ["need"] * 6
    def answers(**settings):
        got = here.says(2, "init", *asks, "finalize", **settings).good()
        return "".join(got.all("need", at)[1] for at in range(6))
    assert answers() == "111111"
    assert answers(SCR_CHECKPOINT_INTERVAL="3") == "001001"
    assert answers(SCR_CHECKPOINT_SECONDS="1000") == "000000"
    assert answers(SCR_CHECKPOINT_OVERHEAD="5") == "111111"


def halt(here, *arguments):
    subprocess.run([DIST / "bin" / "scr", "halt", *arguments, str(here.prefix)], check=True,
                   capture_output=True)


@case
def halts_when_the_program_asks(here):
    """By default the program ends itself; SCR_HALT_EXIT=1 ends it after its checkpoint."""
    here.says(1, "init", "start", "write:f:1", "complete:1", "finalize").good()
    halt(here, "--checkpoints", "2")
    words = ["start", "write:f%r:10", "complete:1", "should_exit"]
    got = here.says(2, "init", *words * 3, "need", "finalize", SCR_CHECKPOINT_SECONDS="1000")
    assert [got.all("should_exit", at)[1] for at in range(3)] == ["0", "1", "1"], got
    assert got.all("need")[1] == "1", got
    assert got.got.err.count("halt condition") == 1, got
    halt(here, "--unset", "all")
    halt(here, "--checkpoints", "1")
    ended = here.run(2, "says", "init", *words * 3, "finalize", shim=False, SCR_HALT_EXIT="1")
    assert ended.status == 0 and "finalize" not in ended.out, ended
    # Inside the call that completes the checkpoint, which is on the prefix then.
    assert "complete:1" not in ended.out and "should_exit" not in ended.out, ended
    assert (here.prefix / "f1").read_text().startswith("f1 of 1"), ended
    # One that is due before anything is done ends no program in SCR_Init, unless that is wished.
    halt(here, "--unset", "all")
    halt(here, "--after", "2001-01-01T00:00:00")
    got = here.says(2, "init", "should_exit", "finalize")
    assert got.all("should_exit") == (0, "1"), got
    ended = here.run(2, "says", "init", "should_exit", "finalize", shim=False, SCR_HALT_EXIT="1")
    assert ended.status == 0 and "should_exit" not in ended.out, ended


@case
def the_end_is_recorded(here):
    """SCR_Finalize, in the halt file: `scr run` starts a program no more that has called it, also
    one that fails afterwards; a person does. What dies before is started again."""
    words = ["init", "start", "write:f%r:10", "complete:1"]
    wrong = "no such word"  # it ends the program, as a failure of its own
    for shim, options in ((False, ["--api"]), (True, [])):
        for ends, expected in (([], 2), (["finalize"], 1)):
            last = [] if shim and ends else [wrong]  # the shim's session ends in MPI_Finalize
            command = [str(DIST / "bin" / "scr"), "run", "--runs", "2", "--pause", "0", *options,
                       "--", *here.command(2, "says", [*words, *ends, *last])]
            halt(here, "--unset", "all")
            got = finish(here.start(2, "", command=command, shim=False))
            assert got.out.count("0 init 0") == expected, (shim, ends, got)
            assert ("SCR_FINALIZE_CALLED" in exit_reason(here)) == bool(ends), (shim, ends, got)
        here.says(2, *words, "finalize", shim=shim).good()


def exit_reason(here):
    """The halt file, printed."""
    path = here.prefix / ".scr" / "halt.scr"
    got = subprocess.run([DIST / "bin" / "scr", "print", path], text=True, capture_output=True)
    return got.stdout


@case
def without_flush(here):
    """SCR_FLUSH=0: nothing is flushed, and the next run finds it in the cache."""
    got = here.says(2, "init", "output:kept:1", "write:f%r:10", "complete_output:1", "finalize",
                    SCR_FLUSH="0").good()
    assert not (here.prefix / "f0").exists() and "kept" not in index(here), got
    again = here.says(2, "init", "have", "restart", "read:f%r", "complete_restart:1", "finalize",
                      SCR_FLUSH="0")
    assert again.of("read:f%r")[1] == (0, "'f1 of 1' 10"), again


@case
def switched_off(here):
    """SCR_ENABLE=0: the same calls go well, and files are where they are called."""
    got = here.says(2, "init", "have", "need", "start", "write:d/f%r:10", "complete:1", "start",
                    "complete:0", "should_exit", "finalize", SCR_ENABLE="0")
    assert got.all("have") == (0, "0 -") and got.all("need") == (0, "1"), got
    assert got.all("complete:1")[0] == 0 and got.all("complete:0")[0] == 1, got
    assert (here.prefix / "d/f1").exists() and not (here.prefix / ".scr").exists(), got


@case
def switched_off_on_one_rank(here):
    """A launcher may hand the environment on to some ranks only: none waits for the others."""
    words = [here.program("says"), "init", "have", "start", "write:d/f%r:10", "complete:1",
             "finalize"]
    for off in (0, 1):
        ranks = [["-n", "1", *(["env", "SCR_ENABLE=0"] if rank == off else []), *words]
                 for rank in (0, 1)]
        got = finish(here.start(2, "", command=[f"mpirun.{here.mpi}", *ranks[0], ":", *ranks[1]],
                                shim=False))
        assert got.status == 0 and got.err.count("SCR:") == 1, got
        assert "switched off on some ranks" in got.err and got.out.count("complete:1 0") == 2, got
        assert (here.prefix / "d/f1").exists() and not (here.prefix / ".scr").exists(), got


@case
def a_start_that_fails(here):
    """One message, and the program goes on without the cache."""
    got = here.says(2, "init", "start", "write:d/f%r:10", "complete:1", "finalize",
                    SCR_CACHE_SIZE="none")
    assert (here.prefix / "d/f1").exists() and got.all("complete:1")[0] == 0, got
    assert got.got.err.count("SCR:") == 1 and "SCR_CACHE_SIZE" in got.got.err, got
