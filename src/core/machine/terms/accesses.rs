//! What one rank has done to a file that was watched.

use std::collections::BTreeSet;

use scr_abi::accesses::{Access, AccessLog, Deed, trait_bit};

use crate::bytes::{Reader, Writer};

/// What a rank has done to a file of several ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Accesses {
    /// [`name_hash`](super::name_hash) of its name with the id masked.
    pub name: u64,
    /// [`kind_hash`](super::kind_hash) of it.
    pub kind: u64,
    /// The same of its name as it is: of a later checkpoint's file it differs.
    pub file: u64,
    /// What is said of all of them (`trait_bit`).
    pub traits: u64,
    /// How long it was when the rank had closed it.
    pub bytes: u64,
    /// Sorted; what is alike and touches is one.
    pub all: Vec<Access>,
}

/// What counts for this rank of a file on the PFS that others may write, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileShare {
    /// 1 for one of its writers.
    pub files: u64,
    pub bytes: u64,
}

/// What has been heard of a name that ranks of several nodes write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartedNews {
    /// [`name_hash`](super::name_hash) of it with the id masked.
    pub name: u64,
    /// The ranks.
    pub writers: BTreeSet<usize>,
    /// Others read it meanwhile.
    pub is_read: bool,
}

impl Accesses {
    /// Reads a log.
    pub fn of(log: &AccessLog) -> Self {
        Accesses::new(log.traits(), log.all().collect())
    }

    pub fn new(traits: u64, all: Vec<Access>) -> Self {
        let mut found = Accesses { traits, all, ..Accesses::default() };
        found.order();
        found
    }

    /// Adds what the rank has done to the same file by another descriptor, or since.
    pub fn add(&mut self, more: &Accesses) {
        self.traits |= more.traits;
        self.bytes = self.bytes.max(more.bytes);
        self.all.extend(&more.all);
        self.order();
    }

    /// Returns what this rank has written; who has written the first byte counts the file. `None`:
    /// not all was seen.
    pub fn share(&self) -> Option<FileShare> {
        let unseen = trait_bit::UNSEEN | trait_bit::OVERFULL;
        let written = || self.all.iter().filter(|one| one.deed == Deed::Write);
        let bytes = written().map(|one| one.end.saturating_sub(one.start)).sum();
        let files = u64::from(written().any(|one| one.start == 0));
        (self.traits & unseen == 0).then_some(FileShare { files, bytes })
    }

    fn order(&mut self) {
        self.all.sort_unstable();
        self.all.dedup_by(|next, last| {
            let touches = is_alike(next, last) && next.start <= last.end;
            let joins = touches && matches!(last.deed, Deed::Write | Deed::Read);
            if joins {
                last.end = last.end.max(next.end);
            }
            joins || next == last
        });
    }

    /// Makes its bytes. Pieces at equal distances and of one length, as most are, take few.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new();
        for word in [self.name, self.kind, self.file, self.traits, self.bytes] {
            out.packed(word);
        }
        let (mut last, mut rest) = (0, self.all.as_slice());
        while let [first, ..] = rest {
            let step = |pair: &[Access]| pair[1].start.wrapping_sub(pair[0].start);
            let distance = rest.get(..2).map_or(0, step);
            let is_next = |pair: &&[Access]| {
                let length = |one: &Access| one.end.wrapping_sub(one.start);
                let same = is_alike(&pair[0], &pair[1]) && length(&pair[0]) == length(&pair[1]);
                same && step(pair) == distance
            };
            let count = 1 + rest.windows(2).take_while(is_next).count();
            out.packed(first.tag()).packed(first.stamp.round);
            out.packed(first.start.wrapping_sub(last));
            out.packed(first.end.wrapping_sub(first.start)).packed(distance).packed(count as u64);
            last = rest[count - 1].start;
            rest = &rest[count..];
        }
        out.take()
    }

    /// Reads it; `None` for what [`Accesses::to_bytes`] cannot have made.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let mut word = || from.packed();
        let (name, kind, file) = (word()?, word()?, word()?);
        let (traits, bytes) = (word()?, word()?);
        let (mut last, mut all) = (0_u64, Vec::new());
        while !from.is_done() {
            let (tag, round, gap) = (from.packed()?, from.packed()?, from.packed()?);
            let (length, distance, count) = (from.packed()?, from.packed()?, from.packed()?);
            if count > scr_abi::accesses::ENTRIES as u64 {
                return None;
            }
            let mut start = last.wrapping_add(gap);
            for _ in 0..count {
                all.push(Access::of(tag, round, start, start.wrapping_add(length))?);
                last = start;
                start = start.wrapping_add(distance);
            }
        }
        Some(Accesses { name, kind, file, traits, bytes, all })
    }
}

/// Tells whether two differ by their bytes only.
fn is_alike(one: &Access, other: &Access) -> bool {
    one.tag() == other.tag() && one.stamp.round == other.stamp.round
}

#[cfg(test)]
mod tests {
    use super::*;
    use scr_abi::accesses::{Moment, Within};

    fn access(deed: Deed, points: u64, start: u64, end: u64) -> Access {
        let stamp = Moment { points, round: points / 4 };
        Access { deed, within: Within::Nothing, stamp, start, end }
    }

    #[test]
    fn a_file_is_counted_by_who_has_written_its_first_byte() {
        let rows = [
            (0, vec![access(Deed::Write, 1, 0, 8), access(Deed::Write, 1, 20, 24)], Some((1, 12))),
            (0, vec![access(Deed::Read, 1, 0, 8), access(Deed::Write, 1, 8, 24)], Some((0, 16))),
            (0, vec![], Some((0, 0))),
            (trait_bit::UNSEEN, vec![access(Deed::Write, 1, 0, 8)], None),
        ];
        for (traits, all, share) in rows {
            let share = share.map(|(files, bytes)| FileShare { files, bytes });
            assert_eq!(Accesses::new(traits, all).share(), share);
        }
    }

    #[test]
    fn pieces_that_touch_are_one_and_all_survives_its_bytes() {
        let piece = |at: u64| access(Deed::Write, 3, at * 100, at * 100 + 40);
        let mut all: Vec<Access> = (0..1000).rev().map(piece).collect();
        all.push(access(Deed::Write, 3, 40, 60));
        all.extend([access(Deed::Size, 4, 0, 7); 2]);
        all.push(access(Deed::Cut, 4, 0, u64::MAX));
        let mut one = Accesses { name: 1, kind: 2, file: u64::MAX, traits: 5, bytes: 9, all };
        one.order();
        assert_eq!(one.all.len(), 1002);
        assert_eq!(one.all[0], access(Deed::Write, 3, 0, 60));
        let bytes = one.to_bytes();
        assert!(bytes.len() < 80, "{}", bytes.len());
        assert_eq!(Accesses::from_bytes(&bytes).as_ref(), Some(&one));
        (0..bytes.len()).for_each(|end| drop(Accesses::from_bytes(&bytes[..end])));
        let mut twice = one.clone();
        twice.add(&one);
        assert_eq!(twice, one);
    }
}
