#!/usr/bin/env python3
"""Runs the commands of docs/guide/first.md from its text, as a newcomer would: all of its `sh`
blocks in one shell, in a home of its own. What follows in a `text` block has to be in the output of
that block's commands, in that order. Blocks of `sh build` are what `make build` has done already:
target/dist stands for the installation.
Links between the pages lead somewhere, and every `scr` command that a page names is there.

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
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SCR_")}
    env = {**clean, **AS_ROOT, "HOME": str(home), "SCR_SIM": "guide"}
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


def main():
    failed = 0
    tests = (links, commands, first_page)
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
