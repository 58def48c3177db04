"""A place for one job that is run again and again: with calls that fail, and from a state that was
saved. Two ranks, on one node or on two."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import nodes  # noqa: E402
import yields  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
DIST = pathlib.Path(os.environ.get("SCR_DIST", ROOT / "target" / "dist"))
RANKS = 2
LONGER_SECONDS = 15  # than without faults: more is a defect
HANG_SECONDS = 80  # longer than every limit of ours
CALL = re.compile(r"(\d+) (failed|-) ([-s][-r][-c]) (\w+) (.*)")
# Names of files that are not complete yet, as `shape` has them: `.name.N-N.scrtmp`, `.name.scrH`
TEMPORARY = re.compile(r"/\.([^/]*?)(\.N-N)?\.scr(tmp|-?H)$")

# As root and with more ranks than cores, both MPIs have to be asked to yield.
LAUNCH_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_odls_base_sigkill_timeout": "0",  # a killed job ends at once
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}
# The program is calm for longer after each checkpoint, so all runs seal it before the next one.
SETTINGS = {
    "SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/rank_{rank}.dat, ckpt/latest",
    "SCR_LEARN": "0",
    "SCR_FLUSH": "3",
    "SCR_SETTLE_MILLISECONDS": "5",
}
SCHEMES = {"single": 1, "xor": 2}  # and the number of nodes


def build(into):
    """Compiles the injector, and the program for both MPIs, into a directory."""
    flags = ["-Wall", "-Wextra", "-O1"]
    subprocess.run(["cc", *flags, "-o", into / "inject", HERE / "inject.c"], check=True)
    for mpi in ("openmpi", "mpich"):
        program = HERE / "programs" / "steps.c"
        subprocess.run([f"mpicc.{mpi}", *flags, "-o", into / f"steps.{mpi}", program], check=True)


class Call:
    """A line of the injector's report on a rank. `store` is the directory below which it is."""

    def __init__(self, line, rank, stores):
        found = CALL.fullmatch(line)
        self.rank = rank
        self.number, self.can = int(found[1]), found[3]
        self.failed, self.name, self.path = found[2] == "failed", found[4], found[5]
        self.store = next(s for s in stores if f"{self.path}/".startswith(f"{stores[s]}/"))
        self.place = shape(self.path.replace(str(stores[self.store]), f"<{self.store}>", 1))

    def __str__(self):
        return f"{self.name} {self.place}"

    def step(self):
        """What a failure for good has in common from the first such call on: the file under its
        final name, and whether it is looked at or changed."""
        place = TEMPORARY.sub(r"/\1", self.place)
        return ("looks at " if self.can == "---" else "changes ") + place


def shape(text):
    """A path or a message without what differs from run to run and from step to step."""
    text = re.sub(r"[0-9a-f-]*[0-9][0-9a-f-]{7,}", "H", text)
    text = re.sub(r"\.scr-\w+", ".scr-H", text)
    return re.sub(r"\d+(\.\d+)?", "N", text)


class Outcome:
    """What came of one run. `status` is None if it had to be killed."""

    def __init__(self, status, out, err, seconds, calls):
        self.status, self.seconds, self.calls = status, seconds, calls
        self.out, self.err = out, err
        lines = out.splitlines()
        self.failed = sorted(line for line in lines if line.startswith("failed "))
        starts = (int(line.split()[1]) for line in lines if line.startswith("from "))
        self.start = next(starts, None)
        self.result = next((line for line in lines if line.startswith("result ")), None)
        self.messages = [line for line in err.splitlines() if line.startswith("SCR: ")]

    def hits(self):
        """The calls that failed by our will."""
        return [call for calls in self.calls for call in calls if call.failed]

    def __str__(self):
        head = f"status {self.status}, {self.seconds:.1f} s"
        own = [line for line in self.err.splitlines() if line.startswith(("SCR: ", "rank process"))]
        return "\n".join([head, *self.out.splitlines(), *(own or self.err.splitlines()), ""])


class Scene:
    """Prefix, control and cache directories of a job under one MPI and one scheme."""

    def __init__(self, top, scheme, mpi):
        self.scheme, self.mpi, self.built = scheme, mpi, top
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="scene-", dir=top))
        self.memory = pathlib.Path(tempfile.mkdtemp(prefix="scr-faults-", dir="/dev/shm"))
        self.prefix, self.base = self.top / "prefix", self.memory / "base"
        self.clear()
        self.cache = self.nodes.here if self.nodes else self.base
        self.stores = {"cache": self.cache, "prefix": self.prefix}

    def shape(self, message):
        """A message without what differs from run to run, from rank to rank and step to step."""
        for name, store in {**self.stores, "base": self.base}.items():
            message = message.replace(str(store), f"<{name}>")
        return shape(message)

    def clear(self):
        """Makes all directories empty."""
        for folder in (self.prefix, self.base):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        count = SCHEMES[self.scheme]
        self.nodes = nodes.Nodes(self.base, count, RANKS // count) if count > 1 else None

    def lose_node(self):
        """What the last node held is gone."""
        node = self.nodes.node(self.nodes.count - 1)
        shutil.rmtree(node)
        node.mkdir()

    def save(self):
        """Keeps the state as it is for `restore`."""
        for folder in (self.prefix, self.base):
            copy_tree(folder, folder.with_suffix(".saved"))

    def restore(self):
        """Makes the state what it was at `save`."""
        for folder in (self.prefix, self.base):
            copy_tree(folder.with_suffix(".saved"), folder)

    def run(self, *steps, wrapper=()):
        """Runs the job behind `wrapper` (see `injector`)."""
        reports = [self.top / f"calls.{rank}" for rank in range(RANKS)]
        for report in reports:
            report.unlink(missing_ok=True)
        program = [*wrapper, str(self.built / f"steps.{self.mpi}"), *map(str, steps)]
        command = [f"mpirun.{self.mpi}", "-n", str(RANKS)]
        command = self.nodes.command(command, program) if self.nodes else [*command, *program]
        begun = time.monotonic()
        process = subprocess.Popen(
            command, cwd=self.prefix, env=self.environment(), text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )
        status, out, err = self.finish(process)
        calls = [[Call(line, rank, self.stores) for line in report.read_text().splitlines()]
                 if report.exists() else [] for rank, report in enumerate(reports)]
        return Outcome(status, out, err, time.monotonic() - begun, calls)

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SCR_")}
        env.update(LAUNCH_ENVIRONMENT)
        env.update(SETTINGS)
        env["LD_PRELOAD"] = str(DIST / "lib" / "libscr_preload.so")
        env["SCR_COPY_TYPE"] = self.scheme.upper()
        env["SCR_CNTL_BASE"] = env["SCR_CACHE_BASE"] = str(self.cache)
        env["FAULTS_SCENE"] = str(self.top)  # to find the ranks of a run that hangs
        return yields.resting(env, self.mpi)

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            where = [f"rank process {pid}: in {waits_in(pid)}\n" for pid in self.processes()]
            for pid in [process.pid, *self.processes()]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            out, err = process.communicate()
            return None, out, err + "".join(where)
        return process.returncode, out, err

    def processes(self):
        """Every process of the run, the launcher's own ones too."""
        mark, found = f"FAULTS_SCENE={self.top}\0".encode(), []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes() + b"\0":
                    found.append(int(entry.name))
            except OSError:
                pass  # it has gone, or is not ours
        return found

    def injector(self, *options):
        """The wrapper that counts calls, all of them or what `options` say."""
        report = ["--report", str(self.top / "calls.%r")]
        below = [] if "--below" in options else [
            word for store in self.stores.values() for word in ("--below", str(store))]
        return [str(self.built / "inject"), *below, *report, *map(str, options), "--"]

    def remove(self):
        shutil.rmtree(self.memory, ignore_errors=True)


def waits_in(pid):
    """The system calls that the threads of a process are in, as the kernel tells it."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/syscall")
    try:
        name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        return name + " " + ", ".join(thread.read_text().split()[0] for thread in threads)
    except OSError:
        return "nothing any more"


def copy_tree(source, target):
    """`target` becomes what `source` is, times and links included."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", source, target], check=True)
