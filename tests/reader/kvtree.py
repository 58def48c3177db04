"""The hash file of manual 1.1, sections 3.4.1 and 3.4.2, read without a line of the project's own
code. A tree is a dict of dicts; a value is a key with nothing below it."""

import struct
import zlib

MAGIC, TYPE_HASH, VERSION, FLAG_CRC32 = 0x951FC3F5, 1, 1, 1
HEADER = struct.Struct(">IHHQI")  # magic, type, version, size of the file, flags


class Malformed(Exception):
    """What is wrong with the bytes."""


def unpack(data, at):
    """One packed hash at `at`; returns it and where it ends. Elements merge under equal keys."""
    count, at, tree = struct.unpack_from(">I", data, at)[0], at + 4, {}
    for _ in range(count):
        end = data.index(b"\0", at)
        below, after = unpack(data, end + 1)
        merge(tree.setdefault(data[at:end].decode(), {}), below)
        at = after
    return tree, at


def merge(into, other):
    for key, below in other.items():
        merge(into.setdefault(key, {}), below)


def parse(data, alone=True):
    """The tree at the begin of `data` and its length; `alone`: nothing may follow."""
    if len(data) < HEADER.size:
        raise Malformed(f"{len(data)} bytes are no header")
    magic, kind, version, size, flags = HEADER.unpack_from(data)
    if (magic, kind, version) != (MAGIC, TYPE_HASH, VERSION):
        raise Malformed(f"magic {magic:#x}, type {kind}, version {version}")
    if size > len(data) or (alone and size != len(data)):
        raise Malformed(f"the header says {size} bytes, there are {len(data)}")
    tree, end = unpack(data, HEADER.size)
    if flags & FLAG_CRC32:
        want = struct.unpack_from(">I", data, end)[0]
        if zlib.crc32(data[:end]) != want:
            raise Malformed(f"CRC32 is {zlib.crc32(data[:end]):#x}, recorded is {want:#x}")
        end += 4
    if end != size:
        raise Malformed(f"the tree ends at {end} of {size}")
    if not flags & FLAG_CRC32:
        raise Malformed("no CRC32: what we write has one")
    return tree, size


def read(path):
    try:
        return parse(path.read_bytes())[0]
    except (Malformed, struct.error, ValueError) as error:
        raise AssertionError(f"{path}: {error}") from error


def read_head(path):
    """A tree and the bytes behind it."""
    data = path.read_bytes()
    try:
        tree, size = parse(data, alone=False)
    except (Malformed, struct.error, ValueError) as error:
        raise AssertionError(f"{path}: {error}") from error
    return tree, data[size:]


def value(tree, *keys):
    """The one value below `keys`."""
    for key in keys:
        assert key in tree, f"no {key} in {list(tree)} (of {keys})"
        tree = tree[key]
    assert len(tree) == 1, f"not one value under {keys}: {list(tree)}"
    return next(iter(tree))


def number(tree, *keys):
    return int(value(tree, *keys))


def flag(tree, key):
    """A flag is a key that is there; some writers put 1 below it."""
    return key in tree and list(tree[key]) in ([], ["1"])
