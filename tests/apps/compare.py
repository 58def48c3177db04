"""Runs of an application on this host, with and without the shim, and what must be equal."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

from application import HERE, ROOT, files

sys.path.insert(0, str(ROOT / "tests" / "hard"))

# pylint: disable-next=wrong-import-position
from support import LAUNCH_ENVIRONMENT, SHIM, finish  # noqa: E402

import pool  # noqa: E402
import yields  # noqa: E402

PLACE = ROOT / "target" / "apps"
PREPARING = threading.Lock()  # programs are compiled there that several applications have
TALLY = re.compile(
    r"SCR: in this run: (?P<datasets>\d+) sealed, (?P<amended>\d+) amended "
    r"\((?P<most>\d+) in one series\), (?P<voided>\d+) seals voided; files opened for writing: "
    r"(?P<cached>\d+) in cache, (?P<prefix>\d+) on the prefix; (?P<fell>\d+) fell back to it; "
    r"(?P<agreements>\d+) agreements, \d+ conferences; an allreduce takes (?P<us>[0-9.]+) us; "
    r"seconds: (?P<start>[0-9.]+) start, (?P<middle>[0-9.]+) agreements and seals, "
    r"(?P<end>[0-9.]+) end, (?P<all>[0-9.]+) in all"
)
COUNTS = ("datasets", "amended", "voided", "cached", "prefix", "fell", "agreements")


@contextlib.contextmanager
def directory(application):
    """A fresh one with the application's input, gone afterwards."""
    PLACE.mkdir(parents=True, exist_ok=True)
    made = pathlib.Path(tempfile.mkdtemp(dir=PLACE))
    try:
        with PREPARING:
            application.prepare(made)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def shim_settings(application, where, **settings):
    """Of a run under the shim, without the bases of cache and control."""
    return {
        "LD_PRELOAD": str(SHIM), "SCR_CONF_FILE": str(application.configuration()),
        "SCR_PREFIX": str(where), "SCR_DEBUG": "1", **settings,
    }


def stage_environment(application, settings):
    """The environment of a run on this host."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SCR_")}
    env.update(LAUNCH_ENVIRONMENT)
    env.update(application.environment)
    env.update(settings)
    return yields.resting(env, application.mpi)


def run_stage(application, stage, where, settings):
    """One mpirun on this host; returns its output. SCR's words are in the error output."""
    env = stage_environment(application, settings)
    done = finish(subprocess.Popen(
        [f"mpirun.{application.mpi}", "-n", str(stage.ranks), *stage.words], cwd=where, env=env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True,
    ))
    assert stage.status in (None, done.status), f"{' '.join(stage.words)}: {done}"
    return done


def run_all(application, where, **settings):
    """All stages under the shim (without `settings`: without it); returns their outcomes."""
    if not settings:
        return [run_stage(application, stage, where, {}) for stage in application.stages]
    return run_shimmed(application, application.stages, where, **settings)


def run_shimmed(application, stages, where, **settings):
    """Stages under the shim, with a cache of their own; returns their outcomes."""
    base = pathlib.Path(tempfile.mkdtemp(prefix="scr-apps-", dir="/dev/shm"))
    usual = {"SCR_CNTL_BASE": str(base), "SCR_CACHE_BASE": str(base), "SCR_COPY_TYPE": "SINGLE"}
    settings = shim_settings(application, where, **usual, **settings)
    try:
        return [run_stage(application, stage, where, settings) for stage in stages]
    finally:
        shutil.rmtree(base, ignore_errors=True)


def tally(outcomes):
    """What SCR counted and measured, over all stages; every stage must have told."""
    found = [TALLY.search(outcome.err) for outcome in outcomes]
    assert all(found), f"SCR did not say what it did: {outcomes[found.index(None)].err}"
    told = [{key: float(text) for key, text in one.groupdict().items()} for one in found]
    row = {key: int(sum(one[key] for one in told)) for key in COUNTS}
    run_seconds = sum(one["all"] for one in told)
    agreeing_us = sum(one["agreements"] * one["us"] for one in told)
    row["most"] = int(max(one["most"] for one in told))
    row["us"] = round(agreeing_us / max(1, row["agreements"]), 1)
    row["share"] = f"{agreeing_us / 1e4 / run_seconds:.2f} %"
    row["shim s"] = f"{sum(one['start'] + one['middle'] + one['end'] for one in told):.2f}"
    row["run s"] = f"{run_seconds:.2f}"
    return row


class Undisturbed:
    """The runs without the shim: what was printed, the files, which vary or are the newest."""

    _known = {}

    def __init__(self, application):
        with directory(application) as where:
            self.outcomes = run_all(application, where)
            self.files = files(where)
            self.varying = matching(self.files, application.varying, where)
            self.newest = matching(self.files, application.newest, where)

    @classmethod
    def of(cls, application):
        """Runs it, once for all cases."""
        if application.name not in cls._known:
            cls._known[application.name] = cls(application)
        return cls._known[application.name]


def same_output(application, wanted, found):
    for stage, one, two in zip(application.stages, wanted, found):
        if stage.status is None:
            continue  # stopped by its time limit, wherever that was
        expected, got = application.result(one.out), application.result(two.out)
        assert expected and expected == got, f"{stage.words}: {got}, not {expected}\n{two.err}"


def matching(names, globs, where):
    """Those of `names` that one of the globs finds below `where`."""
    hits = {str(path.relative_to(where)) for glob in globs for path in where.glob(glob)}
    return {name for name in names if name in hits}


def same_files(plain, shimmed, newest_only):
    """Every file of the plain run, byte for byte; or those of the newest datasets."""
    found = files(shimmed)
    names = plain.newest if newest_only else set(plain.files)
    assert names, "nothing to compare"
    absent = sorted(names - set(found))
    assert not absent, f"missing under the shim: {absent}"
    differ = sorted(n for n in names - plain.varying if plain.files[n] != found[n])
    assert not differ, f"other content under the shim: {differ}"
    more = sorted(set(found) - set(plain.files))
    assert not more, f"only under the shim: {more}"


def shared_files_are_synced(application):
    """Shared files are made durable, whatever the program does."""
    tool = build_fsync_log()
    stage = application.stages[0]
    with directory(application) as where:
        settings = {"SCR_FLUSH": "0", "LD_PRELOAD": f"{SHIM}:{tool}"}
        done = run_shimmed(application, [stage], where, **settings)[0]
        synced = [line.split(" ", 1)[1] for line in done.err.splitlines() if line[:6] == "fsync "]
        names = [str(path) for glob in application.shared for path in where.glob(glob)]
        assert names, "no shared file"
        few = sorted(name for name in names if not is_synced(name, synced))
        assert not few, f"never made durable: {few}\n{done}"


def is_synced(name, synced):
    """By its name, or as it was staged out of the cache."""
    folder, file = name.rsplit("/", 1)
    staged = f"{folder}/.{file}.scr-"
    return any(one == name or one.startswith(staged) for one in synced)


@pool.once
def build_fsync_log():
    """A library that says which files are made durable. Made once: a run that begins while it is
    written anew would go without it."""
    made = PLACE / "fsync_log.so"
    source = HERE / "programs" / "fsync_log.c"
    subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-o", made, source], check=True)
    return made
