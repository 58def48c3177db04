"""Checkpoints and output: which files are in them, where these are, and what becomes of them."""

from calls import Answers, finish, index

CASES = []


def case(function):
    CASES.append(function)
    return function


def files(here, below=""):
    top = here.prefix / below
    found = (path.relative_to(top) for path in top.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != ".scr")


@case
def checkpoint_output_and_both(here):
    """A checkpoint stays in the cache, output goes to the prefix and leaves it, both do both; what
    is newest goes there at the end."""
    look = ["look:c/%r", "look:o/%r", "look:b/%r"]
    got = here.says(2, "init", "output:c:1", "write:c/%r:5000", "complete_output:1",
                    "output:o:2", "write:o/%r:100", "complete_output:1",
                    "output:b:3", "write:b/%r:100", "complete_output:1",
                    *look, "start", "write:d/%r:7", "complete:1", "finalize").good()
    assert got.all("look:c/%r")[1] == "unreadable", got
    assert got.of("look:o/%r")[1][1] == "'o/1 of 1' 100", got
    assert got.of("look:b/%r")[0][1] == "'b/0 of 0' 100", got
    # The first was not due.
    assert files(here) == ["b/0", "b/1", "d/0", "d/1", "o/0", "o/1"], (files(here), got)
    assert all(f" {name} " in index(here) for name in ("b", "o", "scr.dataset.4")), index(here)
    assert not list(here.base.rglob("scr.dataset.*")), "the cache is not empty"


@case
def flushed_by_threads(here):
    got = here.says(2, "init", *["start", "write:c/%r.dat:3000000", "complete:1"] * 5, "finalize",
                    SCR_FLUSH="1", SCR_FLUSH_ASYNC="1").good()
    assert files(here) == ["c/0.dat", "c/1.dat"], got
    names = [f"scr.dataset.{number}" for number in range(1, 6)]
    assert all(name in index(here) for name in names), index(here)


@case
def no_files_on_some_ranks(here):
    got = here.says(3, "init", "start", "1@write:only/%r:100", "complete:1", "have", "restart",
                    "1@read:only/1", "complete_restart:1", "output:o:2", "2@write:too/%r:100",
                    "complete_output:1", "finalize").good()
    assert got.all("have")[1] == "1 scr.dataset.1", got
    assert files(here) == ["only/1", "too/2"], got


@case
def no_file_at_all(here):
    """Nothing is no checkpoint; and no error."""
    got = here.says(2, "init", "start", "complete:1", "have", "start", "write:%r:5", "complete:1",
                    "have", "finalize").good()
    assert got.all("have") == (0, "0 -") and got.all("have", 1)[1].startswith("1"), got


@case
def many_files(here):
    got = here.says(2, "init", "output:many:3", "many:d/f:150", "complete_output:1", "have",
                    "restart", "read:f149.%r", "complete_restart:1", "finalize").good()
    assert got.of("read:f149.%r")[1][1] == "'d/f149.1 of 1' 64", got
    assert len(files(here, "d")) == 300, got


@case
def by_mpi_io_on_one_rank(here):
    """Whatever a routed file is written by: here rank 1 takes MPI-IO, the others as ever."""
    for shim in (False, True):
        got = here.says(3, "init", "output:mixed:1", "1@mpi_write:m/%r:70000", "0@write:m/%r:100",
                        "2@write:m/%r:100", "complete_output:1", "have", "restart", "read:m/%r",
                        "complete_restart:1", "finalize", shim=shim).good()
        assert got.all("have") == (0, "1 mixed"), got
        read = got.of("read:m/%r")
        assert read[1] == (0, "'m/1 of 1' 70000") and read[2] == (0, "'m/2 of 2' 100"), got
        assert (here.prefix / "m/1").stat().st_size == 70000, got


def parts(ranks, bytes=1000):
    return "".join(chr(ord("a") + rank) * bytes for rank in range(ranks))


@case
def one_file_of_all_ranks(here):
    """Each rank routes it and writes its part, one long after the other; also by MPI-IO. It is one
    file, in the cache of their node."""
    turns = [f"{rank}@part:o/shared:1000 barrier" for rank in range(4)]
    words = " ".join(turns).split()
    for kind, write in (("posix", words), ("mpi", ["mpi_part:o/shared:1000"])):
        at = [word.replace("o/", f"{kind}1/") for word in write]
        again = [word.replace("o/", f"{kind}2/") for word in write]
        got = here.says(4, "init", f"output:{kind}1:3", *at, "complete_output:1",
                        f"output:{kind}2:3", *again, "complete_output:1", "have", "restart",
                        f"read:{kind}2/shared", "complete_restart:1", "finalize").good()
        for name in (f"{kind}1", f"{kind}2"):
            assert (here.prefix / name / "shared").read_text() == parts(4), (name, got)
            assert f" {name} " in index(here), (index(here), got)
        second = got.of(next(word for word in again if "part" in word))
        assert f"{here.prefix}/" not in str(second), got


@case
def one_file_of_two_nodes(here):
    """No node has all of it: the first output fails on all ranks with one message, the next ones
    are on the prefix, in later runs from the first one on."""
    words = [word for name in ("t1", "t2") for word in
             (f"output:{name}:3", f"part:{name}/shared:1000", "complete_output:1")]
    on = {"SCR_COPY_TYPE": "XOR", "shim": False}
    got = finish(here.start_on_nodes(2, 2, "says", "init", *words, "finalize", **on))
    answers = Answers(got)
    assert got.status == 0, got
    assert [answers.all("complete_output:1", at)[0] for at in (0, 1)] == [1, 0], got
    told = [line for line in got.err.splitlines() if "SCR:" in line]
    assert len(told) == 1 and "t1/shared was written by ranks 0, 1, 2, 3" in told[0], got
    assert not (here.prefix / "t1/shared").exists(), got
    assert (here.prefix / "t2/shared").read_text() == parts(4), got
    words = ["output:t3:3", "part:t3/shared:1000", "complete_output:1"]
    got = finish(here.start_on_nodes(2, 2, "says", "init", *words, "finalize", **on))
    Answers(got).good()
    assert (here.prefix / "t3/shared").read_text() == parts(4), got


@case
def routed_and_never_written(here):
    got = here.says(2, "init", "start", "route:never/%r", "complete:1", "have", "finalize")
    assert got.all("complete:1")[0] == 1 and got.all("have") == (0, "0 -"), got
    assert got.got.err.count("was routed, and is not there") == 1, got


@case
def invalid_keeps_the_one_before(here):
    got = here.says(2, "init", "output:good:1", "write:f%r:100", "complete_output:1",
                    "output:bad:1", "write:f%r:100", "complete_output:v@1", "have", "finalize",
                    SCR_CACHE_SIZE="1")
    assert got.all("complete_output:v@1")[0] == 1, got
    assert got.all("have") == (0, "1 good"), got
    told = [line for line in got.got.err.splitlines() if "SCR:" in line]
    assert len(told) == 1 and "bad is not valid" in told[0] and "rank 1" in told[0], got
    assert "good" in index(here) and "bad" not in index(here), index(here)


@case
def paths(here):
    """Relative to where the program is at the call; sub-directories stay, equal base names apart;
    what is not below the prefix is refused by name, and nothing overflows."""
    (here.prefix / "link").symlink_to(here.prefix / "real")
    (here.prefix / "real").mkdir()
    got = here.says(2, "init", "start", "write:a/x%r:10", "write:b/x%r:20",
                    f"write:{here.prefix}/c%r:30", "write:./a/../d%r:40", "write:link/e%r:50",
                    "route:/etc/passwd",
                    "route:../outside", "route:.scr/index.scr", "route:a/x%r", "chdir:sub",
                    "write:f%r:60", "complete:1", "have", "restart", "read:x%r", "read:b/x%r",
                    "read:../b/x%r", "read:f%r", "read:e%r", "complete_restart:1", "finalize")
    for word, expected in (("route:/etc/passwd", "/etc/passwd is not below the prefix"),
                           ("route:../outside", "/outside is not below the prefix"),
                           ("route:.scr/index.scr", "SCR's own files")):
        assert got.all(word) == (1, ""), f"{word}: {got}"
        assert expected in got.got.err, f"{word}: {got}"
    assert got.all("read:x%r")[0] == 1 and "more than one file" in got.got.err, got
    assert got.of("read:../b/x%r")[1] == (0, "'b/x1 of 1' 20"), got
    assert got.of("read:f%r")[0] == (0, "'f0 of 0' 60"), got
    assert got.of("read:e%r")[1] == (0, "'link/e1 of 1' 50"), got
    names = [f"{name}{rank}" for name in ("a/x", "b/x", "c", "d", "real/e", "sub/f")
             for rank in (0, 1)]
    assert [name for name in files(here) if not name.startswith("link/")] == sorted(names), got


@case
def long_names(here):
    got = here.says(1, "init", "long_output:1023", "write:f:10", "complete_output:1", "have",
                    "long_output:1024", "start", "long:200", "long:1030", "long:3000", "route:x",
                    "complete:0", "finalize")
    assert got.all("long_output:1023")[0] == 0 and got.all("complete_output:1")[0] == 0, got
    assert got.all("have") == (0, "1 " + "n" * 1023), got
    assert got.all("long_output:1024")[0] == 1, got
    assert got.all("long:200")[0] == 0, got
    for word in ("long:1030", "long:3000"):
        assert got.all(word) == (1, "0"), got
    assert "SCR_MAX_FILENAME" in got.got.err, got


@case
def same_name_again(here):
    """The newer one has the name; the older one leaves the index with the first flush of it."""
    got = here.says(2, "init", *["output:again:3", "write:f%r:10", "complete_output:1"] * 3, "have",
                    "finalize").good()
    assert got.all("have") == (0, "1 again"), got
    later = here.says(2, "init", "have", "restart", "read:f%r", "complete_restart:1", "finalize")
    assert later.all("have") == (0, "1 again"), later
    assert later.of("read:f%r")[0] == (0, "'f0 of 0' 10"), later


@case
def straight_to_the_prefix(here):
    """SCR_CACHE_BYPASS=1: the same calls, files under their own names."""
    got = here.says(2, "init", "start", "write:c/%r:10", "route:c/%r", "complete:1", "have",
                    "restart", "read:%r", "complete_restart:1", "finalize", SCR_CACHE_BYPASS="1")
    got.good()
    assert got.of("route:c/%r")[1] == (0, f"{here.prefix}/c/1"), got
    assert got.of("read:%r")[0] == (0, "'c/0 of 0' 10"), got
    assert files(here) == ["c/0", "c/1"] and "scr.dataset.1" in index(here), got
    again = here.says(2, "init", "have", "restart", "read:%r", "complete_restart:1", "finalize",
                      SCR_CACHE_BYPASS="1").good()
    assert again.of("read:%r")[1] == (0, "'c/1 of 1' 10"), again
