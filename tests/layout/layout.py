#!/usr/bin/env python3
"""Compares docs/layout.md with the trees of real runs.

An example runs under the shim on two nodes (host name and node-local directory of their own, made
with namespaces), is stopped in the middle of a checkpoint, killed, loses a node, and runs to its
end. All the while the trees are looked at: every path must match a row of the tables, and what a
row promises must be there. `N passed, N failed` comes last.

usage: layout.py [openmpi] [mpich]
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "hard"), str(ROOT / "tests" / "support")]
import nodes  # noqa: E402
import support  # noqa: E402

DOCUMENT = ROOT / "docs" / "layout.md"
EXAMPLES = pathlib.Path(os.environ.get("SCR_EXAMPLES", ROOT / "target" / "examples"))
RANKS, NODES = 4, 2
ARGUMENTS = ["--steps", "60", "--every", "10", "--delay", "5"]
PAUSE_STEP = 30
# What the cases have beside the scheme: as little as possible, and all that leaves files.
USUAL = {"SCR_LEARN": "0", "SCR_FLUSH": "10"}
EVERYTHING = {
    "SCR_LEARN": "1", "SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1", "SCR_LOG_ENABLE": "1",
    "SCR_LOG_DB_ENABLE": "1",
}
LEARNED_STEPS = 20  # their checkpoints are not in the cache, if SCR learns
CASES = [("SINGLE", USUAL), ("PARTNER", USUAL), ("XOR", USUAL), ("RS", USUAL), ("XOR", EVERYTHING)]
LOOK_SECONDS = 0.02
LIMIT_SECONDS = 300  # for what must come while the program stands still

NUMBER, WORD = "[0-9]+", "[^/]+"
PLACEHOLDERS = {
    "rank": NUMBER, "local-rank": NUMBER, "member": NUMBER, "members": NUMBER, "group": NUMBER,
    "index": NUMBER, "shard": NUMBER, "pid": NUMBER, "count": NUMBER, "generation": NUMBER,
    "id": "[A-Za-z0-9_%-]*", "epoch": "[0-9a-f]{16}", "checksum": "[0-9a-f]{8}",
    "path": "[0-9a-f]{16}", "anything": ".+",
    "user": WORD, "jobid": WORD, "series": WORD, "nonce": WORD, "host": WORD, "name": WORD,
    "guarded": WORD, "stage": "(?:staged|published|failed)",
}
WHEN = re.compile(r"(in a run|after)(?:: (XOR|RS|PARTNER))?")


class Row:
    """A line of a table: a pattern for paths, and when such a path is there on every node."""

    def __init__(self, text, there):
        self.text, self.promises, self.used = text, {}, False
        for part in filter(None, (part.strip() for part in there.split(","))):
            found = WHEN.fullmatch(part)
            assert found, f"{text}: '{part}' is not known in the column 'there'"
            self.promises[found.group(1)] = found.group(2)

    def compile(self, files, folders):
        """`files`, `folders`: the program's own, relative to the prefix."""
        own = {"file": files, "folder": folders}
        text = self.text.replace("<control>", "<control-base>/<user>/scr.<jobid>/prefix.<path>")
        text = text.replace("<cache>", "<cache-base>/<user>/scr.<jobid>/prefix.<path>")
        self.root, rest = re.fullmatch(r"<(control-base|cache-base|prefix)>(/.*)", text).groups()
        regex = ""
        for piece in re.split(r"(<[^>]+>)", rest):
            name = piece[1:-1] if piece.startswith("<") else None
            if name in own:
                regex += "(?:" + "|".join(map(re.escape, sorted(own[name]))) + ")"
            elif name:
                regex += PLACEHOLDERS[name]
            else:
                regex += re.escape(piece)
        self.pattern = re.compile(regex)

    def promised(self, moment, scheme):
        return moment in self.promises and self.promises[moment] in (None, scheme)


def read_rows():
    rows = []
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| `"):
            continue
        assert len(cells) == 6, f"{DOCUMENT.name}: a row with {len(cells)} columns: {line}"
        rows.append(Row(cells[0].strip("`"), cells[1]))
    assert len(rows) > 20, f"no tables found in {DOCUMENT}"
    return rows


def tree(top):
    """All paths below `top` as `/a/b`, directories as `/a/`; what vanishes meanwhile is not."""
    found = set()
    for folder, folders, files in os.walk(top):
        below = folder[len(str(top)):]
        found.update(f"{below}/{name}/" for name in folders)
        found.update(f"{below}/{name}" for name in files)
    return found


class Place:
    """Prefix and node directories of one case."""

    def __init__(self, mpi, scheme, settings):
        self.mpi, self.scheme, self.settings = mpi, scheme, settings
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="scr-layout-", dir="/dev/shm"))
        self.prefix, self.pause = self.top / "prefix", self.top / "pause"
        self.prefix.mkdir()
        self.nodes = nodes.Nodes(self.top / "nodes", NODES, RANKS // NODES)
        for node in range(NODES):
            self.make_bases(node)

    def make_bases(self, node):
        for name in ("control", "cache"):
            (self.nodes.node(node) / name).mkdir(mode=0o700)

    def lose(self, node):
        shutil.rmtree(self.nodes.node(node))
        self.nodes.node(node).mkdir()
        self.make_bases(node)

    def roots(self):
        """(kind of root, name for people, directory)"""
        yield "prefix", "prefix", self.prefix
        for node in range(NODES):
            yield "control-base", f"node{node}", self.nodes.node(node) / "control"
            yield "cache-base", f"node{node}", self.nodes.node(node) / "cache"

    def look(self):
        return {(kind, name): tree(top) for kind, name, top in self.roots()}

    def start(self, *extra, shim=True):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SCR_")}
        env.update(support.LAUNCH_ENVIRONMENT)
        mpirun = [f"mpirun.{self.mpi}", "-n", str(RANKS)]
        program = [str(EXAMPLES / self.mpi / "heat_posix"), *ARGUMENTS, *extra]
        if shim:
            env.update({
                **self.settings, "LD_PRELOAD": str(support.SHIM),
                "SCR_CNTL_BASE": str(self.nodes.here / "control"),
                "SCR_CACHE_BASE": str(self.nodes.here / "cache"), "SCR_COPY_TYPE": self.scheme,
                "SCR_SET_FAILURES": "1",
                "SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/rank_{rank}.dat, ckpt/step_{id}/header",
            })
        env = support.yields.resting(env, self.mpi)
        command = self.nodes.command(mpirun, program) if shim else [*mpirun, *program]
        return subprocess.Popen(
            command, cwd=self.prefix, env=env, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def kill_ranks(self):
        """Ends the processes that run in this place's prefix, which no other program uses."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if (os.readlink(f"/proc/{pid}/cwd") == str(self.prefix)
                        and os.readlink(f"/proc/{pid}/exe").endswith("/heat_posix")):
                    os.kill(int(pid), signal.SIGKILL)


@contextlib.contextmanager
def place(mpi, scheme, settings):
    made = Place(mpi, scheme, settings)
    try:
        yield made
    finally:
        shutil.rmtree(made.top, ignore_errors=True)


class Watch(threading.Thread):
    """Collects every path that is ever there, until told to stop."""

    def __init__(self, where):
        super().__init__(daemon=True)
        self.where, self.seen, self.over = where, {}, threading.Event()

    def run(self):
        while not self.over.is_set():
            for root, paths in self.where.look().items():
                self.seen.setdefault(root, set()).update(paths)
            self.over.wait(LOOK_SECONDS)

    def stop(self):
        self.over.set()
        self.join()
        return self.seen


def unlisted(rows, seen):
    """Paths that no row lists; marks the rows that list any."""
    strange = []
    for (kind, name), paths in seen.items():
        own = [row for row in rows if row.root == kind]
        for path in sorted(paths):
            matching = [row for row in own if row.pattern.fullmatch(path)]
            for row in matching:
                row.used = True
            if not matching:
                strange.append(f"{name}: {path}")
    return strange


def absent(rows, seen, moment, scheme):
    """Rows that promise what is not there."""
    return [
        f"{name}: {row.text}"
        for (kind, name), paths in seen.items() for row in rows
        if row.root == kind and row.promised(moment, scheme)
        and not any(map(row.pattern.fullmatch, paths))
    ]


def left_over(rows, seen):
    """Paths after the end of rows that promise them in a run only."""
    gone = [row for row in rows if "in a run" in row.promises and "after" not in row.promises]
    return [
        f"{name}: {path}"
        for (kind, name), paths in seen.items() for path in sorted(paths)
        if any(row.root == kind and row.pattern.fullmatch(path) for row in gone)
    ]


def in_the_middle(rows, where):
    """Stops in the middle of the third checkpoint; what is promised must come."""
    watch = Watch(where)
    watch.start()
    learned = LEARNED_STEPS if where.settings["SCR_LEARN"] == "1" else 0
    run = where.start("--pause", "write", str(PAUSE_STEP + learned), str(where.pause))
    deadline, missing = time.monotonic() + LIMIT_SECONDS, None
    while missing is None or (missing and time.monotonic() < deadline):
        assert run.poll() is None, f"ended before the pause: {support.finish(run)}"
        time.sleep(LOOK_SECONDS)
        if where.pause.exists():
            missing = absent(rows, where.look(), "in a run", where.scheme)
        elif time.monotonic() > deadline:
            missing = ["the pause"]
    where.kill_ranks()
    outcome = support.finish(run)
    strange = unlisted(rows, watch.stop())
    where.pause.unlink(missing_ok=True)
    assert not missing, f"not there in the middle of a run: {missing}\n{outcome}"
    assert not strange, f"not listed, in the middle of a run: {strange}"


def restart_and_end(rows, where, want):
    """Goes on, without what one node had if the scheme covers that, to the end."""
    if where.scheme != "SINGLE":
        where.lose(NODES - 1)
    watch = Watch(where)
    watch.start()
    outcome = support.finish(where.start())
    strange = unlisted(rows, watch.stop())
    assert outcome.line("step") == want.line("step"), f"another result: {want}\n{outcome}"
    # From step 10, if the seal of step 20 was not confirmed yet when the node was lost.
    assert outcome.line("going on from step"), f"began anew: {outcome}"
    assert not strange, f"not listed, in a restarted run: {strange}"
    seen = where.look()
    strange = unlisted(rows, seen)
    assert not strange, f"not listed, after the end: {strange}"
    missing = absent(rows, seen, "after", where.scheme)
    assert not missing, f"not there after the end: {missing}\n{outcome}"
    left = left_over(rows, seen)
    assert not left, f"still there after the end: {left}\n{outcome}"


def run_case(name, function, *arguments):
    begun = time.monotonic()
    try:
        function(*arguments)
        verdict = "ok"
    except Exception:
        verdict = "FAILED\n" + traceback.format_exc()
    print(f"{name:45} {time.monotonic() - begun:6.1f} s  {verdict}", flush=True)
    return verdict == "ok"


def main(arguments):
    rows, results = read_rows(), []
    for mpi in arguments or ["openmpi", "mpich"]:
        with place(mpi, "SINGLE", {}) as plain:
            want = support.finish(plain.start(shim=False))
            paths = tree(plain.prefix)
        files = {path[1:] for path in paths if not path.endswith("/")}
        folders = {path[1:-1] for path in paths if path.endswith("/")}
        for row in rows:
            row.compile(files, folders)
        for scheme, settings in CASES:
            with place(mpi, scheme, settings) as where:
                case = f"{mpi} {scheme}{', everything' if settings is EVERYTHING else ''}"
                results.append(run_case(f"{case} in the middle", in_the_middle, rows, where))
                results.append(
                    run_case(f"{case} after the end", restart_and_end, rows, where, want))
    unseen = sum(not row.used for row in rows)
    print(f"{len(rows)} rows, {unseen} of them for what did not happen in these runs")
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 1 if False in results or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
