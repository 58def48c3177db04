"""Four nodes with a rank each, the program `spread`, and what its files must hold."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "hard"), str(ROOT / "tests" / "support")]
import nodes  # noqa: E402
import support  # noqa: E402

RANKS = 4
PATTERN = "ckpt/step_{id}/part_*_of_{rank}"


def content(step, rank, number, many=0):
    """As `spread` writes it."""
    if many:
        size = 16
    else:
        size = 0 if number == 1 else 20000 + 7001 * number + 1013 * rank + 17 * step
    state, data = 1 + step * 1000000 + rank * 10000 + number, bytearray()
    for _ in range(size):
        state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        data.append(state >> 56)
    return bytes(data)


def written(step, rank, many=0):
    """Name to content of what a rank writes."""
    count = many or (0 if rank == 1 else rank % 3 + 1)
    return {f"ckpt/step_{step}/part_{i}_of_{rank}": content(step, rank, i, many)
            for i in range(count)}


class Place:
    def __init__(self, mpi, program):
        self.mpi, self.program = mpi, program("spread")
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="scr-reader-", dir="/dev/shm"))
        self.prefix, self.pause = self.top / "prefix", self.top / "pause"
        self.prefix.mkdir()
        self.state = self.prefix / ".scr"
        self.nodes = nodes.Nodes(self.top / "nodes", RANKS, 1)
        for node in range(RANKS):
            for base in ("control", "cache"):
                (self.nodes.node(node) / base).mkdir(mode=0o700)

    def start(self, steps, many=0, ranks=RANKS, **settings):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SCR_")}
        env.update(support.LAUNCH_ENVIRONMENT)
        env.update({
            "LD_PRELOAD": str(support.SHIM), "SCR_LEARN": "0", "SCR_FLUSH": "1",
            "SCR_CNTL_BASE": str(self.nodes.here / "control"),
            "SCR_CACHE_BASE": str(self.nodes.here / "cache"), "SCR_CHECKPOINT_PATTERN": PATTERN,
            **settings,
        })
        env = support.yields.resting(env, self.mpi)
        program = [self.program, str(steps), str(many), str(self.pause)]
        command = self.nodes.command([f"mpirun.{self.mpi}", "-n", str(ranks)], program)
        return subprocess.Popen(
            command, cwd=self.prefix, env=env, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @contextlib.contextmanager
    def paused(self, *arguments, **settings):
        """A run that stands still after its last checkpoint; killed if the case fails."""
        run = self.start(*arguments, **settings)
        try:
            self.wait_for(self.pause.exists, run)
            yield run
        finally:
            if run.poll() is None:
                self.kill(run)

    def wait_for(self, condition, run):
        deadline = time.monotonic() + support.LIMIT_SECONDS
        while not condition():
            assert run.poll() is None, f"ended before the event: {support.finish(run)}"
            if time.monotonic() > deadline:
                self.kill(run)
                raise AssertionError("the event did not come")
            time.sleep(0.02)

    def go_on(self, run):
        """To the end."""
        self.pause.unlink()
        outcome = support.finish(run)
        assert outcome.status == 0 and not outcome.err, f"{outcome}"

    def kill(self, run):
        """The launcher's session and the ranks, which no other process resembles."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/cwd") == str(self.prefix) and \
                        os.readlink(f"/proc/{pid}/exe") == self.program:
                    os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGTERM)
        support.finish(run)
        self.pause.unlink(missing_ok=True)

    def below(self, node, base):
        """The prefix's directory on a node, below `control` or `cache`."""
        found = list((self.nodes.node(node) / base).glob("*/scr.*/*"))
        assert len(found) == 1, f"node {node}, {base}: {found}"
        return found[0]

    def outside(self, inside, node):
        """A path as a process on the node names it, seen from here."""
        relative = pathlib.PurePath(inside).relative_to(self.nodes.here)
        return self.nodes.node(node) / relative


@contextlib.contextmanager
def place(mpi, program):
    made = Place(mpi, program)
    try:
        yield made
    finally:
        shutil.rmtree(made.top, ignore_errors=True)
