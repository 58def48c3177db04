"""What the program has deleted stays so after a crash."""

from support import finish, lines, place

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def thrown_away_in_an_open_checkpoint_and_beside_complete_ones(mpi, program):
    """A file that was written in part and unlinked before its checkpoint was complete, and a flag
    beside checkpoints that was unlinked when they were: the restart finds neither."""
    pattern = "ckpt/step_{id}/rank_{rank}.dat, ckpt/step_{id}/rank_{rank}.other, ckpt/RUNNING"
    for learn in ("0", "1"):
        settings = {"SCR_CHECKPOINT_PATTERN": pattern, "SCR_LEARN": learn, "SCR_COPY_TYPE": "XOR"}
        with place(mpi, program) as here:
            killed = finish(here.start_on_nodes(2, 1, "thrown_away", **settings))
            assert killed.status != 0, f"{killed}"
            got = finish(here.start_on_nodes(2, 1, "thrown_away", "look", **settings))
            assert got.status == 0, f"{got}"
            found = {tuple(line.split()[1:3]): line.split()[3] for line in lines(got)}
            there = {path for (rank, path), is_there in found.items() if is_there == "1"}
            assert "ckpt/RUNNING" not in there, f"{learn}: {killed}\n{got}"
            assert "ckpt/step_4/rank_1.dat" not in there, f"{learn}: {killed}\n{got}"
            assert "ckpt/step_3/rank_1.dat" in there, f"{learn}: {killed}\n{got}"
