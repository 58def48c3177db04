#!/usr/bin/env python3
"""The demonstration: an unmodified MPI program loses a node and goes on from its cached checkpoint.

Needs root (virtual nodes) and what `make build` made. Exit status 0 only if all went as told.
"""

import pathlib
import shutil
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))

from cluster import SHIM, WORK, Cluster  # noqa: E402  pylint: disable=wrong-import-position
from samples import SAMPLES, environment  # noqa: E402  pylint: disable=wrong-import-position

RANKS, NODES, STEPS, EVERY, KILL_AT = 8, 4, 60, 10, 45
MPI = "openmpi"
SAMPLE = next(sample for sample in SAMPLES if sample.name == "heat_posix")
NOISE = ("[", "--", "ORTE", "*", "  ", "mpirun", "Primary", "a non-zero", "the job")


def title(text):
    print(f"\n=== {text}", flush=True)


def show(text, of=lambda line: True):
    for line in text.splitlines():
        if line.strip() and of(line):
            print(f"    {line}")
    sys.stdout.flush()


def program_lines(outcome):
    """What the program and SCR said, without mpirun's own remarks about lost nodes."""
    show(outcome.out)
    show(outcome.err, lambda line: not line.startswith(NOISE))


def run(cluster, directory, title_text, *arguments, shim):
    """Starts the program and says how; returns its Run."""
    words = ["--steps", STEPS, "--every", EVERY, "--delay", 20, *arguments]
    title(title_text)
    preload = f"LD_PRELOAD={SHIM.name} " if shim else ""
    print(f"    $ {preload}mpirun -n {RANKS} {SAMPLE.name} {' '.join(map(str, words[:6]))}")
    settings = {}
    if shim:
        settings = {
            "LD_PRELOAD": str(SHIM), "SCR_CONF_FILE": str(directory / "scr.conf"),
            "SCR_PREFIX": str(directory),
        }
    return cluster.start(
        MPI, RANKS, SAMPLE.words(MPI, *words), directory, environment(MPI, **settings)
    )


def tree(directory):
    """The checkpoints of the prefix: step to number of files."""
    steps = {}
    for path in directory.glob("ckpt/step_*/*"):
        step = int(path.parent.name.removeprefix("step_"))
        steps[step] = steps.get(step, 0) + 1
    return ", ".join(f"step {step} ({count} files)" for step, count in sorted(steps.items()))


def checksum(outcome):
    line = outcome.line("step ")
    return line.split()[-1] if line else None


def demonstrate(cluster, directory):
    """The story; returns the complaints."""
    title("Virtual nodes (own host name, memory, processes, network)")
    show(cluster.sim("status").out)
    plain = directory / "plain"
    plain.mkdir()
    undisturbed = run(cluster, plain, "1. An undisturbed run without the shim", shim=False).finish()
    program_lines(undisturbed)

    work = directory / "work"
    work.mkdir()
    config = SAMPLE.config().read_text() + "SCR_COPY_TYPE=XOR\n"
    (work / "scr.conf").write_text(config)
    title("The whole configuration")
    show(config, lambda line: not line.startswith("#"))
    mark = work / "at-step"
    first = run(
        cluster, work, "2. The same program under the shim", "--pause", "step", KILL_AT, mark,
        shim=True,
    )
    first.wait_for_file(mark)
    before = tree(work)
    print(f"    ... step {KILL_AT}. On the parallel file system: {before or 'nothing'};")
    cached = cluster.on("node3", "du", "-sh", "/dev/shm").out.split()[0]
    print(f"    in node3's memory: {cached} of newer checkpoints and redundancy, never flushed.")
    title("3. node3 dies (SIGKILL to all of it; its memory is gone)")
    print("    $ scr sim kill node3")
    begun = time.monotonic()
    cluster.kill("node3")
    lost = first.finish()
    print(f"    mpirun ended with status {lost.status} after {time.monotonic() - begun:.1f} s")
    cluster.epilogue()
    mark.unlink()
    show(cluster.sim("status").out)

    second = run(cluster, work, "4. Started again on the nodes that are left", shim=True).finish()
    program_lines(second)
    title("5. Result")
    print(f"    undisturbed: {checksum(undisturbed)}\n    this run:    {checksum(second)}")
    print(f"    on the parallel file system now: {tree(work)}")
    return judge(undisturbed, before, second)


def judge(undisturbed, before, second):
    complaints = []
    for name, outcome in (("the undisturbed run", undisturbed), ("the restart", second)):
        if outcome.status != 0:
            complaints.append(f"{name} failed: {outcome}")
    newest = KILL_AT // EVERY * EVERY
    if f"step {newest} " in before:
        complaints.append(f"step {newest} was on the parallel file system before the node died")
    if second.line("going on") != f"going on from step {newest}":
        complaints.append(f"the restart did not go on from step {newest}")
    if not checksum(second) or checksum(second) != checksum(undisturbed):
        complaints.append("the checksums differ")
    if "rebuilt" not in second.err:
        complaints.append("nothing was said about rebuilt ranks")
    return complaints


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="demo-", dir=WORK))
    begun = time.monotonic()
    try:
        with Cluster(NODES, spare=1) as cluster:
            complaints = demonstrate(cluster, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    for complaint in complaints:
        print(f"    PROBLEM: {complaint}")
    print(f"    {'not as it should be' if complaints else 'equal'}: "
          f"{time.monotonic() - begun:.0f} s in all")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
