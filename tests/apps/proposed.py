"""`scr learn` on every program: its proposal has all files that the configuration which comes with
SCR for that program has, and no others, but for those that are named here."""

import itertools
import json
import re
import subprocess

import compare
from application import ROOT, files

SCR = ROOT / "target/dist/bin/scr"
LIMIT_SECONDS = 300
TOKENS = re.compile(r"\*\*|\*|\?|\[[^]]*\]|\{[^}]*\}|[^*?\[{]+")


def expression(pattern):
    """A pattern of a config file as a regular expression."""
    pattern = pattern.removesuffix(":own")
    if pattern.startswith("re:"):
        return re.compile(pattern[3:])

    def one(token):
        if token in ("**", "*", "?"):
            return {"**": ".*", "*": "[^/]*", "?": "[^/]"}[token]
        if token[0] == "[":
            return token
        if token[0] == "{":
            inner = token[1:-1].split(",")
            numbers = r"[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?"
            return numbers if len(inner) == 1 else f"(?:{'|'.join(map(re.escape, inner))})"
        return re.escape(token)

    return re.compile("".join(map(one, TOKENS.findall(pattern))))


def elements(text):
    """The patterns of a line: commas part them outside braces."""
    if text.startswith("re:"):
        return [text]
    return [part.strip() for part in re.split(r",(?![^{]*\})", text)]


def matched(lines, names):
    """The names of `names` that a configuration takes."""
    taken, ignored = [], []
    for line in lines:
        name, _, text = line.partition("=")
        if name.startswith(("SCR_CHECKPOINT_PATTERN", "SCR_OUTPUT_PATTERN")):
            taken += map(expression, elements(text))
        elif name.startswith("SCR_IGNORE_PATTERN"):
            ignored += map(expression, elements(text))
    fits = lambda patterns, name: any(one.fullmatch(name) for one in patterns)
    return {name for name in names if fits(taken, name) and not fits(ignored, name)}


def watched(application, stage, where):
    """Runs a stage below `scr learn`; returns what it says and the names that it left."""
    before = set(files(where))
    env = compare.stage_environment(application, {})
    words = [f"mpirun.{application.mpi}", "-n", str(stage.ranks), *stage.words]
    done = subprocess.run(
        [SCR, "learn", "--json", "--", *words], cwd=where, env=env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", timeout=LIMIT_SECONDS, check=False)
    # The program's own output comes first.
    at = done.stdout.rfind("\n{\n")
    assert at >= 0, f"{' '.join(words)}: {done}"
    return json.loads(done.stdout[at:]), set(files(where)) - before


def compared(application, stage, where):
    """(names that only the shipped configuration has, only the proposal)."""
    told, names = watched(application, stage, where)
    lines = application.configuration().read_text().splitlines()
    want = matched(lines, names)
    got = matched(told["config"].splitlines(), names)
    return told, want - got, got - want


def learned(application, _table):
    """The first run that the proposal can be made of, below `scr learn`."""
    with compare.directory(application) as where:
        stage = application.watch or application.stages[0]
        told, missing, more = compared(application, stage, where)
        left = [name for name in missing if not excused(application.unlearned, name)]
        wrong = [name for name in more if not excused(application.learned_more, name)]
        skipped = [f"{one['names']}: {one['reason']}" for one in told["skipped"]]
        said = "\n".join([told["config"], *skipped])
        assert not left, f"not proposed: {sorted(left)[:12]}\n{said}"
        assert not wrong, f"proposed: {sorted(wrong)[:12]}\n{said}"
        many = ", ".join(itertools.islice(sorted(missing), 3))
        return f"left alone: {many}" if many else ""


def excused(globs, name):
    return any(expression(glob).fullmatch(name) for glob in globs)
