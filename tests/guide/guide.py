#!/usr/bin/env python3
"""Runs the commands of docs/guide/first.md from its text, as a newcomer would: all of its `sh`
blocks in one shell, in a home of its own. What follows in a `text` block has to be in the output of
that block's commands, in that order. Blocks of `sh build` are what `make build` has done already:
target/dist stands for the installation.
Options of `scr` commands on any page of ours are options of theirs.
The program of api.md is built with the line of the page, and goes on from its checkpoint. The lines
for .scrconf of every page are settings that SCR takes. Links between the pages lead somewhere, and
every `scr` command that a page names is there.

usage: guide.py
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/guide"
SCR = ROOT / "target/dist/bin/scr"
LIMIT_SECONDS = 600
BLOCK = re.compile(r"^```(sh|text|sh build)\n(.*?)^```$", re.M | re.S)
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def blocks(page):
    """(commands, lines that they print) of a page."""
    found = []
    for kind, text in BLOCK.findall(page.read_text()):
        if kind == "sh":
            found.append((text, []))
        elif kind == "text":
            found[-1][1].extend(text.splitlines())
    return found


def first_page():
    """A newcomer's path, from the page."""
    work = ROOT / "target/guide"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    home = pathlib.Path(tempfile.mkdtemp(dir=work))
    (home / "scr-install").symlink_to(ROOT / "target/dist")
    steps = blocks(GUIDE / "first.md")
    assert len(steps) > 5, f"only {len(steps)} blocks"
    mark = "==== block"
    script = "set -e\n" + "".join(
        f"echo '{mark} {number}'\n{commands}" for number, (commands, _) in enumerate(steps))
    env = {**clean(), **AS_ROOT, "HOME": str(home), "SCR_SIM": "guide"}
    done = subprocess.run(["bash", "-c", script], env=env, cwd=home, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=LIMIT_SECONDS)
    print(done.stdout)
    assert done.returncode == 0, f"exit status {done.returncode}"
    printed = re.split(rf"^{mark} \d+\n", done.stdout, flags=re.M)[1:]
    for (commands, lines), output in zip(steps, printed):
        at = 0
        for line in lines:
            found = output.find(line.strip(), at)
            assert found >= 0, f"'{line}' is not in the output of\n{commands}\n{output}"
            at = found
    report = printed[-1]
    assert "or more" not in report, f"when it failed is not known: {report}"
    assert (home / "first/report.html").stat().st_size > 10000, "no report"
    shutil.rmtree(work)


def links():
    """Pages that a page leads to are there."""
    for page in GUIDE.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not target.startswith("http"):
                assert (GUIDE / target).exists(), f"{page.name}: {target}"


def commands():
    """Commands and parameters that the pages name are there."""
    said = subprocess.run([SCR, "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^  ([a-z-]+) ", said, re.M))
    listed = subprocess.run([SCR, "config"], capture_output=True, text=True, check=True).stdout
    header = (ROOT / "src/api/include/scr.h").read_text()
    template = (ROOT / "config/scr.conf").read_text() + listed + header
    for page in GUIDE.glob("*.md"):
        text = page.read_text()
        for name in re.findall(r"(?:`|^|\$ )scr ([a-z][a-z-]+)", text, re.M):
            assert name in known, f"{page.name}: scr {name}"
        for name in re.findall(r"\bSCR_[A-Z][A-Z_]+[A-Z]\b", text):
            assert name in template, f"{page.name}: {name}"


def options():
    """Every option that a page gives a command, it has."""
    known, checked = {}, 0

    def options_of(words):
        if words not in known:
            done = subprocess.run([SCR, *words, "--help"], capture_output=True, text=True,
                                  check=False)
            found = set(re.findall(r"(?<![\w-])(--?[A-Za-z][a-z-]*)", done.stdout))
            known[words] = found if done.returncode == 0 else set()
        return known[words]

    # What the shim says to the command is no business of users.
    docs = [page for page in (ROOT / "docs").glob("*.md") if page.name != "architecture.md"]
    pages = [ROOT / "README.md", *docs, *GUIDE.glob("*.md")]
    for page in pages:
        for line in re.findall(r"(?:`|^ {4}|\$ )scr ([a-z][^`\n]*)", page.read_text(), re.M):
            own = re.split(r" -- | #|[|;&]", line + " ")[0].split()
            tool = tuple(own[:1])
            action = tuple(word for word in own[1:] if re.fullmatch("[a-z-]+", word))[:1]
            wanted = {word.split("=")[0] for word in own[1:] if re.match("--?[A-Za-z]", word)}
            missing = wanted - options_of(tool) - options_of(tool + action)
            assert not missing, f"{page.name}: scr {line}: {sorted(missing)}"
            checked += len(wanted)
    assert checked > 20, f"only {checked} options"


def settings():
    """What a page has as lines of .scrconf SCR takes without a word."""
    found = 0
    for page in sorted(GUIDE.glob("*.md")):
        lines = re.findall(r"^(?:    )?(SCR_[A-Z0-9_]+=\S.*)$", page.read_text(), re.M)
        with tempfile.TemporaryDirectory() as place:
            (pathlib.Path(place) / ".scrconf").write_text("\n".join(lines) + "\n")
            done = subprocess.run([SCR, "config", "--explain"], cwd=place, env=clean(),
                                  capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, f"{page.name}: {done}"
        missing = [line for line in lines if line.partition("=")[0] not in done.stdout]
        assert not missing, f"{page.name}: {missing} {done.stdout}"
        found += len(lines)
    assert found >= 8, f"only {found} lines"


AROUND = """#include <stdio.h>
#include <stdlib.h>
%s
static int write_state(const char *path)
{
    FILE *file = fopen(path, "w");
    return file && fputs("state", file) >= 0 && fclose(file) == 0;
}

static int read_state(const char *path)
{
    char text[6] = "";
    FILE *file = fopen(path, "r");
    int good = file && fgets(text, 6, file);
    printf("read %%s\\n", text);
    return good;
}

int main(int argc, char **argv)
{
    int step = 7, rank = atoi(getenv("OMPI_COMM_WORLD_RANK"));
%s
    return 0;
}
"""


def api_page():
    """The calls of api.md in a program: the second run reads what the first has written."""
    text = (GUIDE / "api.md").read_text()
    code = re.search(r"^```\n(#include.*?)^```$", text, re.M | re.S).group(1)
    head, _, body = code.partition("\n\n")
    build = re.search(r"`(mpicc app\.c [^`]*)`", text).group(1)
    assert "pkg-config" in build, build
    with tempfile.TemporaryDirectory() as place:
        (pathlib.Path(place) / "app.c").write_text(AROUND % (head, body))
        env = {**clean(), **AS_ROOT, "PKG_CONFIG_PATH": str(ROOT / "target/dist/lib/pkgconfig"),
               "SCR_CHECKPOINT_INTERVAL": "1", "SCR_COPY_TYPE": "SINGLE", "SCR_PREFIX": place}
        line = f"{build.replace('mpicc', 'mpicc.openmpi')} -o app"
        subprocess.run(line, shell=True, cwd=place, env=env, check=True)
        run = ["mpirun.openmpi", "--oversubscribe", "-n", "2", "./app"]
        told = [subprocess.run(run, cwd=place, env=env, capture_output=True, text=True, check=True,
                               timeout=LIMIT_SECONDS) for _ in range(2)]
    assert [one.stdout.count("read state") for one in told] == [0, 2], f"{told}"
    assert not "".join(one.stderr for one in told), f"{told}"


def clean():
    """The environment without what SCR knows."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SCR_")}


def main():
    failed = 0
    tests = (links, commands, options, settings, api_page, first_page)
    for test in tests:
        try:
            test()
            print(f"ok     {test.__name__}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            print(f"FAILED {test.__name__}: {error}", flush=True)
            failed += 1
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
