"""What a rank pays while it writes nothing: time of a synchronising call, and memory."""

import statistics

import aims
from jobs import job, settings_of
from measure import ALONE, NOW, builds, row

ROUNDS, CALLS = 400, 500
TURNS = 5
CALL_NAMES = ("Allreduce", "Barrier")


def idle(mpi, programs, scratch, turns):
    found = {build: [] for build in (ALONE, *builds())}
    binding = ["--bind-to", "core"] if mpi == "openmpi" else ["-bind-to", "core"]
    for _ in range(turns or TURNS):
        for build, all_of_it in found.items():
            settings = settings_of("XOR") if build.dist else {}
            with job(mpi, scratch, build, ranks=2, **settings) as run:
                lines = run.run_to_death(programs["idle"], ROUNDS, CALLS, mpirun=binding)
            if len(lines) != 1 + len(CALL_NAMES):
                raise SystemExit(f"idle, {build.name}: no figures")
            all_of_it.append(lines)
    for build in builds():
        label = "" if build is NOW else f", {build.name}"
        for number, name in enumerate(CALL_NAMES, 1):
            hooked, direct, _, _ = map(
                statistics.median, zip(*(lines[number] for lines in found[build])))
            mean = statistics.median(
                lines[number][2] - lines[number][3] for lines in found[build])
            row(f"idle {name}, 2 ranks{label}", f"{direct:.0f} ns", f"{hooked:.0f} ns",
                f"+{hooked - direct:.0f} ns", f"agreements included +{mean:.0f} ns")
            if build is NOW:
                aims.note(f"idle {name}", hooked - direct)
        kinds = ("after MPI_Init", "after a checkpoint", "that nothing else shares")
        for number, when in enumerate(kinds):
            alone, shim = (statistics.median(lines[0][number] for lines in found[of]) / 1024
                           for of in (ALONE, build))
            row(f"memory of a rank {when}{label}", f"{alone:.1f} MiB", f"{shim:.1f} MiB",
                f"+{shim - alone:.1f} MiB")
            if build is NOW and when == "after a checkpoint":
                aims.note("memory", shim - alone)


PARTS = {"idle": idle}
