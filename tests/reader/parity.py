"""Redundancy files: the header of manual 1.1, section 7.3.2, what a member had, and the rebuild
of a lost member of an XOR set by the rules of section 7.3.1 alone."""

import pathlib
import re
import zlib

from kvtree import number, read_head, value

NAME = re.compile(r"(\d+)_of_(\d+)_in_(\d+)\.(xor|rs)")


class Listed:
    """One file as a header lists it."""

    def __init__(self, fields, rank):
        self.name, self.size = value(fields, "FILE"), number(fields, "SIZE")
        self.crc = int(value(fields, "CRC"), 16)
        assert value(fields, "TYPE") == "FULL" and number(fields, "COMPLETE") == 1, fields
        assert number(fields, "RANK") == rank, f"{self.name}: of another rank than its list"


def member(tree):
    """World rank and files, in the order of concatenation (CURRENT and PARTNER)."""
    rank, files = number(tree, "RANK"), tree.get("FILE", {})
    assert number(tree, "FILES") == len(files), f"rank {rank}: FILES differs from FILE"
    return rank, [Listed(files[str(index)], rank) for index in range(len(files))]


class Parity:
    """A parity file and the directory of its dataset."""

    def __init__(self, path):
        self.path, self.dataset = path, path.parent.parent
        found = NAME.fullmatch(path.name)
        assert found, f"{path}: not a name of 7.3.2"
        self.at, self.members, self.group_id = (int(found.group(i)) for i in (1, 2, 3))
        self.at -= 1
        tree, self.data = read_head(path)
        self.id, self.ranks, self.chunk = (number(tree, k) for k in ("CKPT", "RANKS", "CHUNK"))
        assert number(tree, "DSET") == self.id
        group = tree["GROUP"]
        assert number(group, "RANKS") == self.members, f"{path}: name and GROUP differ"
        self.world = [number(group, "RANK", str(i)) for i in range(self.members)]
        assert min(self.world) == self.group_id, f"{path}: the id is the smallest world rank"
        self.rank, self.files = member(tree["CURRENT"])
        assert self.rank == self.world[self.at], f"{path}: CURRENT is another member"
        self.failures = 1
        if found.group(4) == "rs":
            self.failures = number(tree, "FAILURES")
            lists = [tree["PARTNER"][str(i + 1)] for i in range(self.failures)]
        else:
            lists = [tree["PARTNER"]]
        self.partners = [member(one) for one in lists]
        for distance, (rank, _) in enumerate(self.partners, 1):
            left = self.world[(self.at - distance) % self.members]
            assert rank == left, f"{path}: PARTNER {distance} is {rank}, the left one is {left}"
        assert len(self.data) == self.failures * self.chunk, f"{path}: CHUNK and length differ"

    def logical(self):
        """The member's files as one, padded."""
        joined = b"".join((self.dataset / one.name).read_bytes() for one in self.files)
        room = self.chunk * (self.members - self.failures)
        assert len(joined) <= room, f"{self.path}: the files do not fit into the chunks"
        return joined + bytes(room - len(joined))


def check_set(parities):
    """All members of one set together: one chunk size, the least that holds the largest."""
    one = parities[0]
    assert sorted(p.at for p in parities) == list(range(one.members)), "members are missing"
    for other in parities:
        same = (other.world, other.chunk, other.id) == (one.world, one.chunk, one.id)
        assert same, f"{other.path} and {one.path} differ on their set"
        left = parities[other.at - 1]
        ours = [(f.name, f.size, f.crc) for f in other.partners[0][1]]
        assert ours == [(f.name, f.size, f.crc) for f in left.files], "PARTNER is no copy"
    largest = max(sum(f.size for f in p.files) for p in parities)
    parts = one.members - one.failures
    assert one.chunk == -(-largest // parts), f"CHUNK {one.chunk}, largest {largest}, {parts} parts"


def rebuild(parities, lost):
    """The files of member `lost` (path to bytes), and its chunk, from the others alone."""
    others = [p for p in parities if p.at != lost]
    chunk, members = others[0].chunk, others[0].members
    texts = {p.at: p.logical() for p in others}

    def piece(at, slot):
        """What member `at` adds in a slot: its chunk of data, or its parity in its own slot."""
        if slot == at:
            return next(p for p in others if p.at == at).data
        first = (slot if slot < at else slot - 1) * chunk
        return texts[at][first:first + chunk]

    def total(slot):
        word = 0
        for at in texts:
            word ^= int.from_bytes(piece(at, slot), "big")
        return word.to_bytes(chunk, "big")

    joined = b"".join(total(slot) for slot in range(members) if slot != lost)
    right = next(p for p in others if p.at == (lost + 1) % members)
    files, at = {}, 0
    for one in right.partners[0][1]:
        files[pathlib.PurePath(one.name)] = joined[at:at + one.size]
        assert zlib.crc32(joined[at:at + one.size]) == one.crc, f"{one.name}: CRC of the rebuilt"
        at += one.size
    assert not any(joined[at:]), "the padding is not zero"
    return files, total(lost)
