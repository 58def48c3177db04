"""A process or a node dies on the way; the program goes on and ends as an undisturbed run does."""

import os
import random
import re
import sys
import time

import compare
from application import ROOT, Stage, files

sys.path.insert(0, str(ROOT / "tests" / "cluster"))

from cluster import LIMIT_SECONDS, Cluster  # noqa: E402  pylint: disable=wrong-import-position
from samples import environment  # noqa: E402  pylint: disable=wrong-import-position

RANKS, NODES = 4, 4
TRIES = 4
SEALED = re.compile(r"SCR: checkpoint (\d+) is sealed")


def seed():
    """SCR_APPS_SEED draws other moments."""
    return int(os.environ.get("SCR_APPS_SEED", "1"))


def start(application, words, cluster, where, scheme):
    """On the virtual nodes under the shim; nothing is flushed before the end."""
    settings = compare.shim_settings(application, where, SCR_FLUSH="0", SCR_COPY_TYPE=scheme)
    own = [f"{key}={value}" for key, value in application.environment.items()]
    env = environment(application.mpi, **settings)
    return cluster.start(application.mpi, RANKS, ["env", *own, *words], where, env)


def progress_of(outcome, strike):
    """Lines of progress in the output."""
    return sum(1 for line in outcome.out.splitlines() if strike.progress.match(line))


def wait_for_progress(run, strike, lines):
    """Until the output has `lines` lines of progress, or the run has come to its end."""
    deadline, read = time.monotonic() + LIMIT_SECONDS, -1
    while True:
        ended, written = run.ended(), run.written()
        if ended or written != read:
            outcome, read = run.outcome(), written
            if progress_of(outcome, strike) >= lines or outcome.status == 0:
                return
            assert outcome.status is None, f"ended before line {lines}: {outcome}"
        assert time.monotonic() < deadline, f"does not come to line {lines}: {outcome}"
        time.sleep(0.002)


def undisturbed(application, plain):
    """A run without the shim that keeps every checkpoint."""
    application.strike.keep_all(plain)
    stage = Stage(RANKS, application.strike.first)
    return compare.run_stage(application, stage, plain, {})


def reference(application, plain, checkpoint):
    """Result and last files of a run without the shim that goes on from `checkpoint`."""
    strike = application.strike
    with compare.directory(application) as where:
        strike.rewind(where, plain, checkpoint)
        outcome = compare.run_stage(application, Stage(RANKS, strike.resume), where, {})
        return outcome, last_files(strike, where)


def last_files(strike, where):
    """The newest checkpoint at the end."""
    every = files(where)
    names = compare.matching(every, strike.newest, where)
    assert names or not strike.newest, "the reference has no last checkpoint"
    return {name: every[name] for name in names}


def check_way(lost, checkpoint, story):
    """What SCR has called complete was there, whole; the program says from which one it goes on."""
    sealed = max(map(int, SEALED.findall(lost.err)), default=0)
    assert int(checkpoint) >= sealed, f"{sealed} was sealed; {story}"


def killed(application, scheme, hit):
    """Runs, is hit at a random line of its output, goes on. A step takes less than a hit does now
    and then: who was too late for a run hits another one in its middle."""
    strike = application.strike
    draw = random.Random(f"{application.name} {scheme} {seed()}")
    middle = strike.steps // 2
    lines = [draw.randrange(middle, strike.steps - 1)] + [middle] * (TRIES - 1)
    with compare.directory(application) as plain:
        whole = undisturbed(application, plain)
        for line in lines:
            with (
                compare.directory(application) as where, Cluster(NODES, spare=1) as cluster,
            ):
                first = start(application, strike.first, cluster, where, scheme)
                wait_for_progress(first, strike, line)
                hit(cluster, draw, strike)
                lost = first.finish()
                story = f"seed {seed()}, hit at line {line}\n--- the first run: {lost}"
                if lost.status != 0 and progress_of(lost, strike) < strike.steps:
                    cluster.epilogue()
                    checkpoint = gone_on(
                        application, cluster, where, scheme, (plain, whole), lost, story
                    )
                    return f"hit at line {line} of {strike.steps}, went on from {checkpoint}"
        raise AssertionError(f"no run of {TRIES} died before its end; {story}")


def gone_on(application, cluster, where, scheme, undisturbed_run, lost, story):
    """Restarts what was hit; it ends as an undisturbed run. Returns where it went on from."""
    strike, (plain, whole) = application.strike, undisturbed_run
    second = start(application, strike.resume, cluster, where, scheme).finish()
    story += f"\n--- the restart: {second}"
    assert second.status == 0, f"the restart fails; {story}"
    checkpoint = strike.went_on(second.out)
    assert checkpoint, f"the restart did not go on from a checkpoint; {story}"
    if strike.rewind:
        wanted, last = reference(application, plain, checkpoint)
    else:
        wanted, last = whole, last_files(strike, plain)
        check_way(lost, checkpoint, story)
    result = strike.result or application.result
    assert result(wanted.out) == result(second.out), f"another result: {wanted}; {story}"
    found = files(where)
    differ = sorted(name for name in last if found.get(name) != last[name])
    assert not differ, f"last files differ: {differ}; {story}"
    assert not strike.cached or "in the cache" in second.err, f"no word of SCR; {story}"
    return checkpoint


def lost_process(application, _table):
    """One process dies; the caches stay."""
    def hit(cluster, draw, strike):
        node = f"node{draw.randrange(NODES) + 1}"
        # Nobody of that name is there any more if the run has come to its end.
        cluster.kill_process(node, os.path.basename(strike.first[0]), check=False)

    return killed(application, "SINGLE", hit)


def lost_node(application, _table):
    """One node dies with its cache; XOR rebuilds it on the spare."""
    def hit(cluster, draw, _strike):
        cluster.kill(f"node{draw.randrange(NODES) + 1}")

    return killed(application, "XOR", hit)
