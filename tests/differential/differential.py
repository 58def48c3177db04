#!/usr/bin/env python3
"""Random sequences of file operations on matching names and beside them, each run with and without
the shim: every return value, errno and content must be the same, and, with SCR_FLUSH=1, what is on
the PFS in the end. Those from number 10000 on know more operations (wide.h), and those from 20000
on still more (more.h). Last line: N passed, N failed.

usage: differential.py [FIRST [COUNT [LENGTH]]]
SCR_DIFFERENTIAL=N in the environment runs N sequences instead of 600. A failure prints the first
difference with what led to it; its number as FIRST and a COUNT of 1 replay it, mostly: datasets of
the sequences before are sealed and leave the cache while it runs.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hard"))
import support  # noqa: E402

COUNT = int(os.environ.get("SCR_DIFFERENTIAL", "600"))
WIDE = 10000  # sequences from here on do more, see wide.h; from twice that on, more.h
# Of all other sequences, the ones that have failed once, with what has to run before them.
REGRESSIONS = [(1540, 1588), (1867, 1867), (1831, 1831), (2019, 2019), (2090, 2118), (2246, 2246),
               (2350, 2411), (11261, 11261), (20060, 20164)]
LENGTH = 60
BATCH = 200
CONTEXT = 70  # lines before the difference
SHOWN = int(os.environ.get("SCR_DIFFERENTIAL_SHOWN", "3"))
LIMIT_SECONDS = 300
PATTERNS = {
    "SCR_CHECKPOINT_PATTERN": "q{id}/c[0-9], q{id}/**/c[0-9]",
    "SCR_CHECKPOINT_PATTERN_2": "q*/state, q*/state_old",
}


def run(program, mpi, prefix, base, shim, first, count, length):
    """Runs one batch; returns (status, lines of output, standard error, tree of the prefix)."""
    for folder in (prefix, base):
        folder.mkdir(mode=0o700)
    env = {k: v for k, v in os.environ.items() if not k.startswith("SCR_")}
    env.update(support.LAUNCH_ENVIRONMENT)
    if shim:
        env.update(PATTERNS, LD_PRELOAD=str(support.SHIM), SCR_CNTL_BASE=str(base),
                   SCR_CACHE_BASE=str(base), SCR_COPY_TYPE="SINGLE", SCR_LEARN="0",
                   SCR_FLUSH="1", SCR_SETTLE_MILLISECONDS="0")
    command = [f"mpirun.{mpi}", "-n", "1", program, first, count, length]
    done = subprocess.run(list(map(str, command)), cwd=prefix, env=env, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=LIMIT_SECONDS)
    tree = {}
    for path in sorted(prefix.rglob("*")):
        name = str(path.relative_to(prefix))
        if name.split("/")[0] == ".scr":
            continue
        if path.is_symlink():
            tree[name] = os.readlink(path)
        elif path.is_file():
            tree[name] = (oct(path.stat().st_mode), path.read_bytes(), attributes(path))
        else:
            tree[name] = "directory"
    shutil.rmtree(prefix)
    shutil.rmtree(base)
    return done.returncode, done.stdout.splitlines(), done.stderr, tree


def attributes(path):
    """What the program has set: extended attributes, and a time long ago."""
    names = sorted(name for name in os.listxattr(path) if name.startswith("user."))
    modified = path.stat().st_mtime_ns
    return ([(name, os.getxattr(path, name)) for name in names],
            modified if modified < 1_500_000_000 * 10**9 else None)


def sequences(lines):
    """Number of a sequence to its lines."""
    found, current = {}, []
    for line in lines:
        if line.startswith("== "):
            current = found.setdefault(int(line[3:]), [])
        current.append(line)
    return found


def compare(plain, shimmed, numbers):
    """Complaints by number of sequence."""
    complaints = {}
    want, got = sequences(plain[1]), sequences(shimmed[1])
    for number in numbers:
        a, b = want.get(number, []), got.get(number, [])
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        if a != b:
            before = "\n".join(a[max(0, at - CONTEXT):at])
            lines = [one[at] if at < len(one) else "(ends)" for one in (a, b)]
            complaints[number] = f"{before}\nwithout: {lines[0]}\nwith:    {lines[1]}"
    for name in sorted(plain[3].keys() | shimmed[3].keys()):
        a, b = plain[3].get(name), shimmed[3].get(name)
        if a != b:
            number = int(name.split("/")[0].lstrip("qby"))
            short = [f"{str(one)[:60]} {str(one)[-60:]}" for one in (a, b)]
            text = f"on the PFS: {name}: without {short[0]}, with {short[1]}"
            complaints.setdefault(number, text)
    return complaints


def unexpected(told):
    """Whether more is told than that something goes straight to the PFS: what these programs do to
    their files leaves no other way now and then, and the user is to know."""
    expected = ("are not protected: ", "is protected by ")
    return [line for line in told.splitlines()
            if line.strip() and not any(words in line for words in expected)]


def main(words):
    first, count, length = [int(w) for w in words] + [1, COUNT, LENGTH][len(words):]
    mpi, failed = "openmpi", 0
    with (tempfile.TemporaryDirectory(prefix="scr-differ-", dir="/dev/shm") as scratch,
          tempfile.TemporaryDirectory(prefix="scr-differ-", dir=support.ROOT / "target") as disk):
        scratch, disk = pathlib.Path(scratch), pathlib.Path(disk)
        program = scratch / "differ"
        subprocess.run([f"mpicc.{mpi}", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program,
                        HERE / "differ.c"], check=True)
        batches = [(begin, min(BATCH, first + count - begin))
                   for begin in range(first, first + count, BATCH)]
        if not words:  # of three batches two do more
            batches = [(begin + WIDE * (i % 3), size) for i, (begin, size) in enumerate(batches)]
            batches += [(begin, last + 1 - begin) for begin, last in REGRESSIONS]
            count = sum(size for _, size in batches)
        for begin, size in batches:
            runs = []
            for shim in (False, True):
                base = scratch / "run"
                # In wide sequences the cache is another file system than the prefix.
                prefix = (disk if begin >= WIDE else scratch) / "prefix"
                runs.append(run(program, mpi, prefix, base, shim, begin, size, length))
            complaints = compare(*runs, range(begin, begin + size))
            for number, text in list(complaints.items())[:SHOWN]:
                print(f"-- sequence {number}\n{text}", flush=True)
            if runs[1][0] != runs[0][0] or unexpected(runs[1][2]):
                print(f"status {runs[0][0]}, under the shim {runs[1][0]}:\n{runs[1][2]}")
                complaints.setdefault(begin, "status")
            failed += len(complaints)
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
