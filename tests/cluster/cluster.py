"""Virtual nodes for tests: a cluster of `scr sim`, programs on it, processes and nodes that die."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
DIST = pathlib.Path(os.environ.get("SCR_DIST", ROOT / "target" / "dist"))
SCR = DIST / "bin" / "scr"
SHIM = DIST / "lib" / "libscr_preload.so"
LIMIT_SECONDS = 300  # a hang; on a busy machine spinning ranks take long
WORK = ROOT / "target" / "cluster"  # seen by all nodes, unlike /tmp

_numbers = iter(range(1 << 30))
_numbers_lock = threading.Lock()


class Outcome:
    """Exit status and output of one run."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def line(self, word):
        """The first line of the output that starts with `word`, or None."""
        return next((line for line in self.out.splitlines() if line.startswith(word)), None)

    def __repr__(self):
        return f"status {self.status}\n--- out\n{self.out}\n--- err\n{self.err}"


def text_of(file):
    """What it holds. No seek: whoever runs writes to the same open file, at the same place."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode(errors="replace")


class Run:
    """One mpirun, whose output goes to files: nobody has to read while it runs."""

    def __init__(self, command, cwd, env):
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
        )

    def ended(self):
        return self.process.poll() is not None

    def written(self):
        """How many bytes its output has so far."""
        return os.fstat(self.out.fileno()).st_size

    def outcome(self):
        """As it is so far."""
        return Outcome(self.process.poll(), text_of(self.out), text_of(self.err))

    def finish(self, limit_seconds=LIMIT_SECONDS):
        """Waits for the end; a run that hangs is ended and fails the test with its output."""
        try:
            self.process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"hangs: {self.outcome()}") from None
        return self.outcome()

    def wait_for_file(self, path):
        """Waits until a program has made `path`; it must not end before."""
        self._wait_for(path.exists, path.name)

    def wait_for_words(self, *words):
        """Waits until a line of the errors has all the words; returns the outcome so far. What a
        rank says passes its node's daemon and mpirun: it may come later than a file of the rank."""
        def told():
            outcome = self.outcome()
            lines = outcome.err.split("\n")[:-1]  # whole ones
            return outcome if any(all(word in line for word in words) for line in lines) else None

        return self._wait_for(told, words)

    def _wait_for(self, look, what):
        """Waits until `look()` gives something; returns it."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            ended = self.ended()  # asked first: what came last counts, too
            found = look()
            if found:
                return found
            if ended:
                raise AssertionError(f"ended before it came to {what}: {self.outcome()}")
            if time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"does not come to {what}: {self.outcome()}")
            time.sleep(0.005)


class Cluster:
    """A cluster of its own for one test; it ends with the test, or with this process."""

    def __init__(self, nodes=4, spare=0, shm=None, owner=None, slots=2):
        with _numbers_lock:
            self.name = f"t{os.getpid()}-{next(_numbers)}"
        self.nodes = nodes + spare
        options = [f"--spare={spare}", f"--owner={owner or os.getpid()}", f"--slots={slots}"]
        options += [f"--shm={shm}"] if shm else []
        if str(ROOT).startswith(("/tmp/", "/dev/shm/")):
            options.append(f"--share={ROOT}")
        self.sim("start", str(nodes), *options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sim("stop")

    def command(self, *words):
        return [str(SCR), "sim", "--name", self.name, *map(str, words)]

    def sim(self, *words, check=True):
        """Runs `scr sim ...`; returns its Outcome."""
        # Output goes to a file: a pipe would stay open in what the command leaves running.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            status = subprocess.run(
                self.command(*words), stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False,
            ).returncode
            out.seek(0), err.seek(0)
            outcome = Outcome(status, out.read(), err.read())
        if check and status != 0:
            raise AssertionError(f"scr sim {' '.join(map(str, words))}: {outcome}")
        return outcome

    def start(self, mpi, ranks, words, cwd, env, nodes=()):
        """Starts a program on the nodes that are up, or on the named ones; returns its Run."""
        option = [f"--nodes={','.join(nodes)}"] if nodes else []
        command = self.command("run", "--mpi", mpi, "-n", ranks, *option, "--", *words)
        return Run(command, cwd, env)

    def on(self, node, *words, check=True):
        """Runs a command on a node; returns its Outcome."""
        return self.sim("exec", "--on", node, "--", *words, check=check)

    def kill(self, *nodes):
        self.sim("kill", *nodes)

    def kill_process(self, node, name, check=True):
        """Ends one process of that name on a node."""
        self.on(node, "pkill", "-9", "-o", "-x", name, check=check)

    def up(self):
        """Names of the nodes that are up."""
        lines = [line.split() for line in self.sim("status").out.splitlines()]
        return [words[0] for words in lines if words[2].startswith("up")]

    def epilogue(self):
        """What a batch system does between two runs: no process of the first one is left."""
        for node in self.up():
            self.on(node, "sh", "-c", "kill -9 -1", check=False)
