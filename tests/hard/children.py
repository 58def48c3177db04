"""What processes that a rank starts see of checkpoint files, and change."""

import os
import time

import support
from bad_input import check_message
from support import place, same

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def children_see_what_their_rank_sees(mpi, program):
    """Shells, popen, spawned and forked processes; before the seal and after it, long after, when
    the checkpoint has left the cache, and after MPI_Finalize."""
    for flush, cached in (("1", "1"), ("0", "9")):
        same(mpi, program, 2, "children", "read", files=flush == "1", SCR_FLUSH=flush,
             SCR_CACHE_SIZE=cached)


@case
def children_change_files(mpi, program):
    """Their rank finds what they have made of them, and so does the prefix in the end."""
    same(mpi, program, 2, "children", "change", 20, SCR_CACHE_SIZE="9")


@case
def children_write_what_their_rank_has_open(mpi, program):
    """No checkpoint is complete as long as one of its files can change, and nothing is lost."""
    same(mpi, program, 2, "children", "lent", 4, SCR_CACHE_SIZE="9")


@case
def children_write_all_checkpoints(mpi, program):
    """What the rank deletes of them is gone at once, and the end of the run says that no checkpoint
    was protected."""
    for own in (":own", ""):
        pattern = "ckpt/step_{id}/rank_{rank}.dat" + own
        got = same(mpi, program, 2, "children", "keep", 6, SCR_CHECKPOINT_PATTERN=pattern)
        check_message(got, ["no checkpoint was protected", "ckpt/step_1/rank_0.dat", "SCR-1016"])


@case
def spawned_processes_write_what_posix_spawn_opens(mpi, program):
    """Under the right name, and once: the rank finds it, and so does the prefix in the end."""
    same(mpi, program, 2, "spawned", SCR_CACHE_SIZE="9")


@case
def children_of_threaded_ranks_and_of_ranks_that_are_gone(mpi, program):
    """A fork finds no lock held; who outlives the rank finds what the prefix has, at once, and so
    does a child while the rank is stopped."""
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        reports = []
        for here, shim in ((plain, False), (shimmed, True)):
            got = here.run(2, "children", "threads", shim=shim, SCR_FLUSH="1")
            report = here.prefix / "report"
            deadline = time.monotonic() + support.LIMIT_SECONDS
            while not (report.exists() and report.read_text().endswith("\n")):
                assert time.monotonic() < deadline, f"no report: {got}"
                time.sleep(0.02)
            reports.append((got.status, got.out, report.read_text()))
        assert reports[0] == reports[1], f"{reports}\n{got}"


@case
def children_copy_files_of_another_node(mpi, program):
    """What stat says of a name, fstat says of its descriptor: else cp(1) takes it for another file,
    and copies nothing."""
    with place(mpi, program) as plain, place(mpi, program) as shimmed:
        want = plain.run(2, "copies", shim=False)
        got = shimmed.run_on_nodes(2, "copies")
        assert (got.status, got.out) == (want.status, want.out), f"{want}\n{got}"
        for copy in plain.prefix.glob("copy_*"):
            assert copy.read_bytes() == (shimmed.prefix / copy.name).read_bytes(), f"{copy} {got}"


@case
def programs_among_checkpoint_files(mpi, program):
    """They run from the cache; from the prefix, where the cache may not run any."""
    settings = {"SCR_CHECKPOINT_PATTERN": "ckpt/step_{id}/*", "SCR_LEARN": "0"}
    with place(mpi, program) as plain:
        want = plain.run(1, "runs", shim=False)
    with place(mpi, program) as here:
        got = here.run(1, "runs", SCR_FLUSH="0", **settings)
        support.assert_same(want, got)
    with place(mpi, program) as here:
        mount = f'mount -t tmpfs -o noexec,mode=0700 none {here.base} && exec "$@"'
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        command = ["unshare", "--mount", "--propagation", "private", *user, "sh", "-c", mount, "sh",
                   *here.command(1, "runs", [])]
        got = support.finish(here.start(1, "runs", command=command, **settings))
        support.assert_same(want, got)
        check_message(got, ["no checkpoint was protected", "SCR-1016"])
