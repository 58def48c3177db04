"""Every call in every state, wrong arguments, calls that not all ranks make alike."""

CASES = []


def case(function):
    CASES.append(function)
    return function


# How the program comes into each state, and how it comes out of it.
STATES = {
    "Uninit": ([], ["init"]),
    "Init": (["init"], []),
    "Idle": (["init", "start", "complete:1"], []),
    "Restart": (["init", "have", "restart"], ["complete_restart:1"]),
    "Checkpoint": (["init", "start"], ["complete:1"]),
    "Output": (["init", "output:o:2"], ["complete_output:1"]),
}

# The call, its name in C, and the states in which it is valid. One that is not changes nothing.
CALLS = [
    ("init", "SCR_Init", ["Uninit"]),
    ("finalize", "SCR_Finalize", ["Init", "Idle"]),
    ("should_exit", "SCR_Should_exit", ["Init", "Idle", "Restart", "Checkpoint", "Output"]),
    ("route:x", "SCR_Route_file", ["Init", "Idle", "Checkpoint", "Output"]),
    ("need", "SCR_Need_checkpoint", ["Init", "Idle"]),
    ("start", "SCR_Start_checkpoint", ["Init", "Idle"]),
    ("complete:1", "SCR_Complete_checkpoint", ["Checkpoint"]),
    ("output:p:1", "SCR_Start_output", ["Init", "Idle"]),
    ("complete_output:1", "SCR_Complete_output", ["Output"]),
    ("have", "SCR_Have_restart", ["Init", "Idle"]),
    ("restart", "SCR_Start_restart", []),
    ("complete_restart:1", "SCR_Complete_restart", ["Restart"]),
    ("current:first", "SCR_Current", ["Init", "Idle"]),
    ("drop:none", "SCR_Drop", []),
    ("delete:none", "SCR_Delete", []),
]


@case
def every_call_in_every_state(here):
    """What is not valid is an error with one message that names call and state, and no more."""
    here.says(2, "init", "output:first:3", "write:f%r:10", "complete_output:1", "finalize").good()
    for state, (into, out) in STATES.items():
        wrong = [(word, name) for word, name, valid in CALLS if state not in valid
                 and not (word, state) in (("route:x", "Restart"),)]
        if state in ("Init", "Idle"):
            # They are valid, but there is nothing of that name, or nothing was offered.
            told = {"restart": "SCR_Have_restart has not offered any", "drop:none": "no checkpoint",
                    "delete:none": "no checkpoint"}
        else:
            told = {}
        words = [*into, *(word for word, _ in wrong), *out, "finalize"]
        got = here.says(2, *words)
        lines = [line for line in got.got.err.splitlines() if line.startswith("SCR:")]
        for word, name in wrong:
            at = into.count(word)
            assert got.all(word, at)[0] != 0, f"{state}: {word}: {got}"
            mine = [line for line in lines if line.startswith(f"SCR: {name}:")
                    or f": {name}: " in line]
            expected = told.get(word, f"(state {state})")
            assert mine and all(expected in line for line in mine), f"{state} {word}: {got}"
            assert len(mine) == 1 or state == "Uninit", f"{state} {word} is told twice: {got}"
        # Nothing has changed: what is valid still is.
        assert got.all("finalize", 1 if ("finalize", "SCR_Finalize") in wrong else 0)[0] == 0, got


@case
def before_mpi(here):
    """Nothing but settings and the version before MPI_Init, and no crash."""
    got = here.says(1, "without", "version", "config:SCR_FLUSH=2", "config:SCR_FLUSH", "init",
                    "start", "route:x", "mpi_init", "init", "finalize")
    assert got.all("version")[0] == 0 and got.all("config:SCR_FLUSH") == (0, "2"), got
    assert [got.all(word)[0] for word in ("init", "start", "route:x")] == [1, 1, 1], got
    assert got.all("init", 1)[0] == 0 and got.all("finalize")[0] == 0, got
    assert "MPI_Init comes first" in got.got.err, got


@case
def once_and_no_more(here):
    got = here.says(2, "init", "finalize", "init", "start")
    assert got.all("init", 1)[0] == 1 and got.all("start")[0] == 1, got
    assert "it is to be called once" in got.got.err, got


@case
def no_place_for_an_answer(here):
    got = here.says(2, "init", "nulls", "current:NULL", "drop:NULL", "delete:NULL", "finalize")
    assert got.all("nulls") == (0, ""), got
    assert all(got.all(f"{word}:NULL")[0] == 1 for word in ("current", "drop", "delete")), got


@case
def an_error_on_one_rank_is_one_on_all(here):
    """Other names, other calls: all ranks hear of it, and none waits."""
    got = here.says(3, "init", "output:same%r:1", "complete_output:1", "0@start", "1@output:a:1",
                    "2@start", "output:b:0", "output:b:9", "start", "write:f%r:10",
                    "complete:v@2", "have", "start", "write:f%r:10", "complete:1", "have",
                    "finalize")
    assert got.all("output:same%r:1")[0] == 1, got
    assert got.all("output:b:0")[0] == 1 and got.all("output:b:9")[0] == 1, got
    assert {code for word in ("0@start", "1@output:a:1", "2@start")
            for code, _ in got.of(word).values()} == {1}, got
    assert got.all("complete:v@2")[0] == 1 and got.all("have") == (0, "0 -"), got
    assert got.all("complete:1")[0] == 0 and got.all("have", 1)[1].startswith("1 "), got
    err = got.got.err
    differ = ('the ranks give different arguments: rank 0 "same0" (flags 1), '
              'rank 1 "same1" (flags 1)')
    for words in (differ, "the ranks call different functions",
                  "rank 2: the program says", "flags 9 are not"):
        assert err.count(words) == 1, f"{words}: {got}"
