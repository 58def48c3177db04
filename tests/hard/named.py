"""What the program does while a thread of its rank gives a file its name on the prefix."""

import time

from support import finish, messages, place, wait_for

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def rank_that_goes_on_while_a_file_gets_its_name(mpi, program):
    """However long the file system takes for that: reads, and writes under other names, go on.
    What is written under the same name comes after it, and stays."""
    with place(mpi, program) as here:
        stopped, before, after = (here.base / name for name in ("stopped", "before", "after"))
        run = [program("while_named"), str(stopped), str(before), str(after)]
        pause = ["env", f"SCR_TEST_PAUSE=publish.name:{stopped}"]
        command = [f"mpirun.{mpi}", "-n", "1", *pause, *run, ":", "-n", "1", *run]
        started = here.start(2, "while_named", command=command, SCR_FLUSH="1", SCR_FLUSH_ASYNC="1")
        wait_for(before.exists, started)
        for _ in range(25):  # it would not be long
            time.sleep(0.02)
            assert not after.exists(), "the new content did not wait"
        stopped.with_name("stopped.go").touch()
        got = finish(started)
        assert got.status == 0 and got.out.split() == "read 1 size 1 status 0".split(), f"{got}"
        assert (here.prefix / "ckpt/step_1/rank_0.dat").read_text() == "newer\n", f"{got}"


@case
def rank_that_makes_a_file_while_its_checkpoint_is_sealed(mpi, program):
    """Its directory has its final name already, and the rank does not know: a thread that opens a
    file there waits, and the checkpoint is sealed again with it."""
    with place(mpi, program) as here:
        stopped, before, after = (here.base / name for name in ("stopped", "before", "after"))
        run = [program("while_sealed"), str(stopped), str(before), str(after)]
        pause = ["env", f"SCR_TEST_PAUSE=seal.committed:{stopped}"]
        command = [f"mpirun.{mpi}", "-n", "1", *pause, *run, ":", "-n", "1", *run]
        started = here.start(2, "while_sealed", command=command, SCR_FLUSH="1",
                             SCR_CHECKPOINT_PATTERN="ckpt/step_{id}/**")
        wait_for(before.exists, started)
        for _ in range(25):  # it would not be long
            time.sleep(0.02)
            if after.exists():
                break
        stopped.with_name("stopped.go").touch()
        got = finish(started)
        assert got.status == 0 and not messages(got), f"{got}"
        assert (here.prefix / "ckpt/step_1/late.dat").read_text() == "late\n", f"{got}"
