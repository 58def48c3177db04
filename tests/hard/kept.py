"""What the program keeps is kept, and what it deletes by itself costs the prefix nothing."""

from support import assert_same, assert_same_files, messages, place

CASES = []

SMALL = {"SCR_CACHE_SIZE": "2", "SCR_LEARN": "0"}


def case(function):
    CASES.append(function)
    return function


def behind(got):
    """What it has told, but for a flush that could not keep up: that depends on the machine."""
    return [line for line in messages(got) if "SCR-4016" not in line]


@case
def reads_the_best_of_twelve_at_its_end(mpi, program):
    for learn in ("0", "1"):
        with place(mpi, program) as plain, place(mpi, program) as here:
            want = plain.run(2, "best_of", 12, 0, shim=False)
            got = here.run(2, "best_of", 12, 0, **{**SMALL, "SCR_LEARN": learn})
            assert_same(want, got)
            assert_same_files(plain, here, got)
            assert not behind(got), f"{got}"


@case
def reads_all_again_after_it_was_killed(mpi, program):
    with place(mpi, program) as plain, place(mpi, program) as here:
        want = plain.run(2, "best_of", 12, 0, shim=False)
        killed = here.run(2, "best_of", 9, 0, "killed", **SMALL)
        assert killed.status != 0, f"{killed}"
        got = here.run(2, "best_of", 12, 0, **SMALL)
        assert got.out.splitlines()[0] == "restart 9", f"{got}"
        assert got.out.splitlines()[1:] == want.out.splitlines()[1:], f"{want}\n{got}"
        assert_same_files(plain, here, got)


@case
def deletes_its_older_ones_at_no_cost(mpi, program):
    with place(mpi, program) as here:
        killed = here.run(2, "best_of", 12, 2, "killed", **SMALL)
        assert killed.status != 0, f"{killed}"
        flushed = list(here.prefix.glob("ckpt/step_*/*"))
        assert not flushed, f"{flushed}\n{killed}"
        got = here.run(2, "best_of", 12, 2, **SMALL)
        assert got.out.splitlines()[:3] == ["restart 12", "found 12", "found 11"], f"{got}"
        left = sorted(path.name for path in here.prefix.glob("ckpt/*"))
        assert left == ["step_11", "step_12"], f"{left}\n{got}"


@case
def deletes_what_was_flushed_before_it_was_killed(mpi, program):
    """It keeps five, which is more than the cache is made for: some are flushed before SCR knows.
    The last deletion before the kill may be undone."""
    with place(mpi, program) as here:
        killed = here.run(2, "best_of", 9, 5, "killed", **SMALL)
        assert killed.status != 0, f"{killed}"
        got = here.run(2, "best_of", 20, 5, **SMALL)
        found = [line for line in got.out.splitlines() if line.startswith("found")]
        assert found[:5] == [f"found {step}" for step in range(20, 15, -1)], f"{got}"
        assert found[5:] in ([], ["found 4"]), f"{got}"
        left = {path.name for path in here.prefix.glob("ckpt/*")} - {"step_4"}
        assert left == {f"step_{step}" for step in range(16, 21)}, f"{left}\n{got}"
