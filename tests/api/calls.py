"""What the API's cases share: programs that are linked with the library."""

import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "hard"))
from support import DIST, ROOT, Place, finish, wait_for  # noqa: E402,F401

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
INCLUDE = ROOT / "src" / "api" / "include"


def build(mpi, into):
    """Links every program for `mpi`; returns a function from name to path."""
    into.mkdir(parents=True, exist_ok=True)
    library = DIST / "lib"
    for source in [*sorted(PROGRAMS.glob("*.c")), ROOT / "examples" / "heat_scr.c"]:
        subprocess.run(
            [f"mpicc.{mpi}", "-Wall", "-Wextra", "-O1", f"-I{INCLUDE}", "-o", into / source.stem,
             source, f"-L{library}", "-lscr", f"-Wl,-rpath,{library}", "-lm"],
            check=True,
        )
    return lambda name: str(into / name)


class Here(Place):
    """A prefix with bases of its own, for programs that call SCR."""

    def environment(self, shim, settings):
        own = {"SCR_CNTL_BASE": str(self.base), "SCR_CACHE_BASE": str(self.base),
               "SCR_CACHE_BYPASS": "0", "SCR_COPY_TYPE": "SINGLE"}
        return super().environment(shim, {**own, **settings})

    def says(self, ranks, *words, shim=False, **settings):
        """Runs `says` with these words; a run that fails is a failure of the case."""
        got = self.run(ranks, "says", *words, shim=shim, **settings)
        assert got.status == 0, got
        return Answers(got)


class Answers:
    """What each rank has printed for each word."""

    def __init__(self, got):
        self.got, self.lines = got, [line.split(" ", 3) for line in got.out.splitlines()]

    def of(self, word, occurrence=0):
        """(code, answer) of each rank that has said `word`, by rank."""
        found = {}
        for rank, said, code, answer in self.lines:
            if said == word:
                found.setdefault(int(rank), []).append((int(code), answer))
        return {rank: answers[occurrence] for rank, answers in sorted(found.items())}

    def all(self, word, occurrence=0):
        """The one (code, answer) that all ranks have."""
        answers = set(self.of(word, occurrence).values())
        assert len(answers) == 1, f"{word}: {self.of(word, occurrence)}\n{self.got}"
        return answers.pop()

    def good(self):
        """Every call has gone well, and nobody has complained."""
        assert all(code == "0" for _, _, code, _ in self.lines), self.got
        assert "SCR:" not in self.got.err, self.got
        return self

    def __repr__(self):
        return repr(self.got)


def index(here):
    """Names that `scr index list` has, newest first."""
    got = subprocess.run([DIST / "bin" / "scr", "index", "list"], cwd=here.prefix, text=True,
                         capture_output=True, check=True)
    return got.stdout
