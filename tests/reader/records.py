"""The files of manual 1.1, section 9 and the filemaps of section 4: what they must say of a run."""

import collections
import contextlib
import datetime
import os
import re
import sqlite3
import zlib

from kvtree import flag, number, read, value

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def one_file(fields, data, what):
    """Size and checksum as recorded are those of the bytes."""
    assert number(fields, "SIZE") == len(data), f"{what}: SIZE {fields['SIZE']}, {len(data)} bytes"
    crc = int(value(fields, "CRC"), 16)
    assert crc == zlib.crc32(data), f"{what}: CRC {crc:#x}, it is {zlib.crc32(data):#x}"


def listed(tree, files, what):
    """A list FILE / name / fields is that of `files` (name to content)."""
    names = sorted(tree.get("FILE", {}))
    assert names == sorted(files), f"{what}: lists {names}, written were {sorted(files)}"
    for name, data in files.items():
        one_file(tree["FILE"][name], data, f"{what}: {name}")


def packed(tree):
    """The FILE lists of a catalog by rank. An entry tells what differs from the one before."""
    assert value(tree, "VERSION") == "2", f"catalog of version {tree['VERSION']}"
    data, at, ranks = bytes.fromhex(value(tree, "FILES")), 0, {}

    def number():
        nonlocal at
        found = shift = 0
        while True:
            at += 1
            found |= (data[at - 1] & 0x7f) << shift
            shift += 7
            if data[at - 1] < 0x80:
                return found

    def signed():
        found = number()
        return found >> 1 if found % 2 == 0 else -(found >> 1) - 1

    def take(count):
        nonlocal at
        at += count
        assert at <= len(data), "a catalog that is cut"
        return data[at - count:at]

    name, numbers = b"", [0, 0, 0, 0]
    while at < len(data):
        flags = take(1)[0]
        same = number()
        name = name[:same] + take(number())
        numbers = [(before + signed()) % 2**64 for before in numbers]
        rank, size, mode, seconds = numbers
        fields = {"SIZE": size, "MODE": f"{mode:o}", "MTIME": seconds, "MTIME_NSECS": signed()}
        if flags & 1:
            fields["CRC"] = hex(int.from_bytes(take(4), "little"))
        assert not flags & 4, "these programs set no attributes"
        fields["PFS"] = flags >> 1 & 1
        files = ranks.setdefault(rank, {"FILE": {}})["FILE"]
        files[name.decode()] = {key: {str(field): {}} for key, field in fields.items()}
    return ranks


def filemap(path, rank, ids, files_of, scheme):
    """A process's filemap: the datasets `ids` of `rank`, each with its files and descriptor. What
    was evicted since the last change may still be listed."""
    tree = read(path)
    assert list(tree["RANK"]) == [str(rank)], f"{path}: ranks {list(tree['RANK'])}"
    datasets = tree["RANK"][str(rank)]["DSET"]
    kept = [id for id in sorted(map(int, datasets)) if id >= min(ids)]
    assert kept == ids, f"{path}: datasets {sorted(datasets)}, not {ids}"
    for text, record in datasets.items():
        files = files_of(int(text), rank)
        listed(record, files, f"{path}: {text}")
        assert number(record, "EXPECT") == len(files), f"{path}: EXPECT"
        assert value(record, "REDDESC", "TYPE") == scheme, f"{path}: {record['REDDESC']}"
        assert str(rank) in tree["DSET"][text]["RANK"], f"{path}: the index lacks {text}"


def master_filemap(path):
    """The paths of the node's filemaps."""
    return list(read(path)["Filemap"])


def index(path, ids):
    """The index: every dataset with its directory, complete and flushed; none failed."""
    tree = read(path)
    assert number(tree, "VERSION") >= 1
    assert sorted(map(int, tree["DSET"])) == ids, f"{path}: {list(tree['DSET'])}, not {ids}"
    for text in tree["DSET"]:
        for folder, fields in tree["DSET"][text]["DIR"].items():
            assert flag(fields, "COMPLETE"), f"{path}: {text} is not complete"
            assert "FAILED" not in fields, f"{path}: {text} has failed"
            assert TIME.fullmatch(value(fields, "FLUSHED")), f"{path}: {fields['FLUSHED']}"
            assert value(tree, "DIR", folder, "DSET") == text, f"{path}: DIR/{folder}"
            assert (path.parent / folder / "summary.scr").is_file(), f"{path}: {folder} is missing"
    return tree


def summary(folder, dataset, ranks, files_of):
    """The summary of a dataset, with its maps, and the files on the prefix themselves."""
    tree = read(folder / "summary.scr")
    assert number(tree, "VERSION") >= 5
    assert list(tree["DSET"]) == [str(dataset)], f"{folder}: {list(tree['DSET'])}"
    body = tree["DSET"][str(dataset)]
    assert flag(body, "COMPLETE") and number(body, "RANKS") == ranks, f"{folder}: {body.keys()}"
    shards = [body] if "RANK2FILE" not in body else maps(folder, dataset, body)
    by_rank = {rank: fields for shard in shards for rank, fields in shard.get("RANK", {}).items()}
    for rank in range(ranks):
        files = files_of(dataset, rank)
        listed(by_rank.get(str(rank), {}), files, f"{folder}: rank {rank}")
        for name, data in files.items():
            assert (folder.parents[1] / name).read_bytes() == data, f"{name} on the prefix differs"
    return len(shards)


def maps(folder, dataset, body):
    """The shards of a rank to file map: as many as the summary says, as their index says."""
    tree = read(folder / "rank2file.scr")
    assert value(tree, "DSET") == str(dataset)
    assert len(tree["SHARD"]) == number(body, "RANK2FILE"), f"{folder}: number of shards"
    shards = []
    for text, entry in sorted(tree["SHARD"].items(), key=lambda item: int(item[0])):
        shard = read(folder / f"rank2file.{text}.scr")
        assert shard["EPOCH"] == tree["EPOCH"], f"{folder}: shard {text} is of another seal"
        ranks = sorted(map(int, shard["RANK"]))
        assert (ranks[0], ranks[-1]) == (number(entry, "FIRST"), number(entry, "LAST")), text
        files = sum(len(fields.get("FILE", {})) for fields in shard["RANK"].values())
        assert files == number(entry, "FILES"), f"{folder}: FILES of shard {text}"
        shards.append(shard)
    return shards


def located(path, where):
    """Datasets that are there by the flush file."""
    datasets = read(path)["DSET"]
    return sorted(int(text) for text, fields in datasets.items() if where in fields["LOCATION"])


def flush_file(path, on_prefix, cached):
    for where, wanted in (("PFS", on_prefix), ("CACHE", cached)):
        got = located(path, where)
        assert got == wanted, f"{path}: {where} {got}, not {wanted}"


def log_of_events(folder, counts, files_of):
    """Text and database tell the same; a dataset's event has its files, bytes and seconds."""
    with contextlib.closing(sqlite3.connect(folder / "log.sqlite")) as database:
        rows = database.execute(
            "SELECT time, event, dataset, files, bytes, seconds, jobname, launch FROM events "
            "ORDER BY id").fetchall()
    lines = (folder / "log").read_text().splitlines()
    assert [re.search(r"event=(\w+)", line)[1] for line in lines] == [row[1] for row in rows]
    times = [datetime.datetime.fromisoformat(line.split(": ")[0]) for line in lines]
    in_utc = [time.astimezone(datetime.timezone.utc) for time in times]
    got = [time.strftime("%Y-%m-%dT%H:%M:%S") for time in in_utc]
    assert got == [row[0] for row in rows], "times differ"
    # A checkpoint may begin before the last one is sealed: then nothing is computed in between. And
    # the first one counts without the next if it was left alone for long, however long that is.
    told = (row[1] for row in rows if not row[1].startswith("COMPUTE"))
    got = collections.Counter(event for event in told if event != "TRUSTED")
    assert got == counts, f"{dict(got)}, not {counts}"
    assert len({row[7] for row in rows}) == 1 and {row[6] for row in rows} == {"wave"}
    for _, event, dataset, files, size, seconds, _, _ in rows:
        if event in ("SEALED", "FLUSH_END"):
            data = [data for rank in range(4) for data in files_of(dataset, rank).values()]
            want = (len(data), sum(map(len, data)))
            assert (files, size) == want, f"{event} {dataset}: {files}, {size}, not {want}"
            assert 0 < seconds < 60, f"{event}: {seconds} s"


def written_of(fields):
    """Bytes of a file that are durable on the prefix; none is said of one that is not begun."""
    return number(fields, "WRITTEN") if "WRITTEN" in fields else 0


def transfer_file(path, prefix, outside, bandwidth):
    """A flush under way: sources in the cache, staged files with at least WRITTEN good bytes."""
    tree = read(path)
    assert float(value(tree, "BW")) == bandwidth and float(value(tree, "PERCENT")) == 0.0, tree
    assert value(tree, "COMMAND") == "RUN" and value(tree, "STATE") == "RUNNING", tree
    assert "DONE" not in tree.get("FLAG", {}), f"{path}: done, and it has just begun"
    for source, fields in tree["FILES"].items():
        data, written = outside(source).read_bytes(), written_of(fields)
        assert number(fields, "SIZE") == len(data) and written <= len(data), f"{source}: {fields}"
        target = value(fields, "DESTINATION")
        assert target.startswith(f"{prefix}/"), f"{target} is not on the prefix"
        with open(target if written else os.devnull, "rb") as staged:
            assert staged.read(written) == data[:written], f"{target}: not what WRITTEN says"
