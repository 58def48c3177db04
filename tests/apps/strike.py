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


def wait_for_progress(run, progress, lines):
    """Until the output has `lines` lines of progress; the run must not end before."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        size = os.fstat(run.out.fileno()).st_size
        text = os.pread(run.out.fileno(), size, 0).decode(errors="replace")
        if sum(1 for line in text.splitlines() if progress.match(line)) >= lines:
            return
        assert not run.ended(), f"ended before line {lines}: {run.outcome()}"
        assert time.monotonic() < deadline, f"does not come to line {lines}: {run.outcome()}"
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
    """Runs, is hit at a random line of its output, goes on."""
    strike = application.strike
    draw = random.Random(f"{application.name} {scheme} {seed()}")
    line = draw.randrange(strike.steps // 2, strike.steps - 1)
    with (
        compare.directory(application) as plain, compare.directory(application) as where,
        Cluster(NODES, spare=1) as cluster,
    ):
        whole = undisturbed(application, plain)
        first = start(application, strike.first, cluster, where, scheme)
        wait_for_progress(first, strike.progress, line)
        hit(cluster, draw, strike)
        lost = first.finish()
        story = f"seed {seed()}, hit at line {line}\n--- the first run: {lost}"
        assert lost.status != 0, f"the run that was hit ended well; {story}"
        cluster.epilogue()
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
        return f"hit at line {line} of {strike.steps}, went on from {checkpoint}"


def lost_process(application, _table):
    """One process dies; the caches stay."""
    def hit(cluster, draw, strike):
        node = f"node{draw.randrange(NODES) + 1}"
        cluster.kill_process(node, os.path.basename(strike.first[0]))

    return killed(application, "SINGLE", hit)


def lost_node(application, _table):
    """One node dies with its cache; XOR rebuilds it on the spare."""
    def hit(cluster, draw, _strike):
        cluster.kill(f"node{draw.randrange(NODES) + 1}")

    return killed(application, "XOR", hit)
