//! The parity file of XOR (manual 1.1, section 7.3.2) and of RS: a tree in file form, then the
//! chunks.
//!
//! ```text
//! 0                          header size          header size + chunks * CHUNK
//! | tree in file form (3.4.2) | chunk 0 | chunk 1 ... |
//!
//! CKPT <id>  DSET <id>  EPOCH <hex>  RANKS <ranks in the world>  CHUNK <bytes>
//! GROUP     RANKS <members>   RANK <rank in the set> <world rank>
//! CURRENT   the member's own list (member_list.rs)
//! PARTNER   the left neighbour's list
//! PADDING   so many `-` as make the size independent of the checksums
//! ```
//! An XOR file has one chunk. No document describes RS; its file is the same but for this:
//!
//! ```text
//! FAILURES <k>   losses that the set survives, and number of chunks
//! CODE      CAUCHY_11D: the code of `parity/field.rs`
//! PARTNER   <distance 1 to k>   the list of the left neighbour so far away
//! ```
//! The checksums in the lists are known only after the pass that also yields the chunks. Because
//! the header's size does not depend on them, the chunks can be written first, behind a gap. The
//! header comes last: a file that was cut off has none.

use std::fs::File;
use std::path::Path;

use super::code::Code;
use super::field::MEMBERS_MAX;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::kvtree::file::to_file_bytes;
use crate::records::text::{epoch_text, parse_epoch};
use crate::redundancy::folder::REDUNDANCY_DIR;
use crate::redundancy::{MemberList, RedundancySet};

const CODE: &str = "CAUCHY_11D";

/// What the header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParityHeader {
    /// Which code the chunks are of.
    pub code: Code,
    /// Dataset id.
    pub id: u64,
    /// Epoch of the seal.
    pub epoch: u64,
    /// Ranks in the world.
    pub world_size: usize,
    /// World ranks of the members, in set order.
    pub group: Vec<usize>,
    /// Losses that the set survives: 1 with XOR.
    pub failures: usize,
    /// Size of a chunk in bytes: the least with which as many chunks as a set has members, less the
    /// losses that it survives, hold every member's files.
    pub chunk_bytes: u64,
    /// The list of the member that the file belongs to.
    pub current: MemberList,
    /// The lists of its left neighbours, the nearest first: as many as losses are survived.
    pub partners: Vec<MemberList>,
}

impl ParityHeader {
    /// Makes the header of a member without its lists.
    pub(super) fn of(
        set: &RedundancySet,
        code: Code,
        failures: usize,
        chunk_bytes: u64,
        id: u64,
        epoch: u64,
    ) -> Self {
        ParityHeader {
            code,
            id,
            epoch,
            world_size: set.world_size,
            group: set.world_ranks.clone(),
            failures,
            chunk_bytes,
            current: MemberList::default(),
            partners: Vec::new(),
        }
    }

    /// Returns the name of a member's parity file, relative to the dataset directory:
    /// `<rank in the set + 1>_of_<members>_in_<smallest world rank>.xor` (`.rs`).
    #[must_use]
    pub fn file_name(code: Code, set: &RedundancySet) -> String {
        let (rank, size) = (set.comm.rank() + 1, set.comm.size());
        let ending = match code {
            Code::Xor => "xor",
            Code::ReedSolomon => "rs",
        };
        format!("{REDUNDANCY_DIR}/{rank}_of_{size}_in_{}.{ending}", set.group_id)
    }

    /// Counts the bytes of all chunks together. The parser has checked that this does not overflow.
    #[must_use]
    pub fn chunks_bytes(&self) -> u64 {
        self.chunk_bytes * self.failures as u64
    }

    /// Makes the file form; its size depends on everything but the checksums of the files.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut widest = self.clone();
        for list in std::iter::once(&mut widest.current).chain(&mut widest.partners) {
            list.files.iter_mut().for_each(|file| file.crc32 = Some(u32::MAX));
        }
        let mut tree = self.to_tree();
        let padding = widest.to_tree().packed_len() - tree.packed_len();
        tree.set_value("PADDING", "-".repeat(padding));
        to_file_bytes(&tree)
    }

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("CKPT", self.id);
        tree.set_value("DSET", self.id);
        tree.set_value("EPOCH", epoch_text(self.epoch));
        tree.set_value("RANKS", self.world_size);
        tree.set_value("CHUNK", self.chunk_bytes);
        let group = tree.child_mut("GROUP");
        group.set_value("RANKS", self.group.len());
        for (rank, world_rank) in self.group.iter().enumerate() {
            group.child_mut("RANK").set_value(rank, world_rank);
        }
        tree.set("CURRENT", self.current.to_tree(self.id, self.world_size));
        let mut partners = self.partners.iter().map(|l| l.to_tree(self.id, self.world_size));
        match self.code {
            Code::Xor => drop(partners.next().map(|list| tree.set("PARTNER", list).len())),
            Code::ReedSolomon => {
                tree.set_value("FAILURES", self.failures);
                tree.set_value("CODE", CODE);
                let below = tree.child_mut("PARTNER");
                for (distance, list) in (1_usize..).zip(partners) {
                    below.set(distance, list);
                }
            }
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Option<Self> {
        let group = tree.child("GROUP");
        let members: usize = group.parse("RANKS")?;
        let partner = tree.child("PARTNER");
        let (code, failures, partners) = if tree.contains("FAILURES") {
            let failures = tree.parse("FAILURES").filter(|k| (1..MEMBERS_MAX).contains(k))?;
            let list = |distance: usize| MemberList::from_tree(partner.get(&distance.to_string())?);
            let partners = (1..=failures).map(list).collect::<Option<_>>()?;
            tree.get_value("CODE").filter(|code| *code == CODE)?;
            (Code::ReedSolomon, failures, partners)
        } else {
            (Code::Xor, 1, vec![MemberList::from_tree(partner)?])
        };
        let chunk_bytes: u64 = tree.parse("CHUNK")?;
        chunk_bytes.checked_mul(failures as u64)?;
        Some(ParityHeader {
            // Version 1.1 has neither (manual 1.1, section 7.3.2).
            id: tree.parse("DSET").or_else(|| tree.parse("CKPT"))?,
            epoch: match tree.get("EPOCH") {
                None => 0,
                Some(_) => parse_epoch(tree.get_value("EPOCH")?)?,
            },
            world_size: tree.parse("RANKS")?,
            // Ends at the first rank that is not there, whatever the count claims.
            group: (0..members)
                .map(|rank| group.child("RANK").parse(&rank.to_string()))
                .collect::<Option<_>>()?,
            code,
            failures,
            chunk_bytes,
            current: MemberList::from_tree(tree.get("CURRENT")?)?,
            partners,
        })
    }

    /// Reads the header of a parity file, all of whose chunks are there; gives its bytes, too.
    pub fn read(path: &Path) -> Result<(Self, u64)> {
        let mut file = File::open(path).map_err(|error| Error::io("cannot open", path, error))?;
        let length = file.metadata().map_err(|error| Error::io("cannot read", path, error))?.len();
        let (tree, header_bytes) = KvTree::read_prefix(&mut file, path)?;
        let header = Self::from_tree(&tree)
            .ok_or_else(|| Error::corrupt(path, "its header lacks a field or has a wrong one"))?;
        if header_bytes.checked_add(header.chunks_bytes()) != Some(length) {
            let what = format!(
                "header and chunks have {header_bytes} and {} bytes, the file has {length}",
                header.chunks_bytes()
            );
            return Err(Error::corrupt(path, what));
        }
        Ok((header, header_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::FileMeta;

    fn headers() -> [ParityHeader; 2] {
        let xor = header();
        let mut rs = ParityHeader { code: Code::ReedSolomon, failures: 2, ..header() };
        rs.partners.push(MemberList { world_rank: 3, ..rs.partners[0].clone() });
        [xor, rs]
    }

    fn header() -> ParityHeader {
        let file = FileMeta { name: "a".into(), size: 5, ..FileMeta::default() };
        let list = |world_rank| MemberList {
            world_rank,
            files: vec![file.clone(); 2],
            ..MemberList::default()
        };
        ParityHeader {
            id: 6,
            epoch: 0xabc,
            world_size: 4,
            code: Code::Xor,
            group: vec![0, 2, 3],
            failures: 1,
            chunk_bytes: 5,
            current: list(2),
            partners: vec![list(0)],
        }
    }

    #[test]
    fn the_size_does_not_depend_on_the_checksums() {
        for original in headers() {
            let size = original.to_bytes().unwrap().len();
            for crc32 in [0, 0xff, 0x0123_4567, u32::MAX] {
                let mut header = original.clone();
                header.current.files[1].crc32 = Some(crc32);
                header.partners.iter_mut().for_each(|l| l.set_crcs(&[Some(1), Some(crc32)]));
                assert_eq!(header.to_bytes().unwrap().len(), size);
            }
        }
    }

    #[test]
    fn reads_what_it_wrote_and_refuses_a_file_that_is_cut_off() {
        // Thousands of files: on a disk they would take long.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let path = dir.path().join("x");
        for original in headers() {
            let mut bytes = original.to_bytes().unwrap();
            let size = bytes.len() as u64;
            bytes.extend(vec![7; original.chunks_bytes() as usize]);
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(ParityHeader::read(&path).unwrap(), (original, size));
            for length in [0, 10, size as usize, bytes.len() - 1] {
                std::fs::write(&path, &bytes[..length]).unwrap();
                assert!(
                    matches!(ParityHeader::read(&path), Err(Error::Corrupt { .. })),
                    "{length}"
                );
            }
            for at in 0..size as usize {
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x10;
                std::fs::write(&path, &flipped).unwrap();
                assert!(ParityHeader::read(&path).is_err(), "byte {at}");
            }
        }
    }

    #[test]
    fn a_claim_of_many_members_costs_nothing() {
        let mut tree = header().to_tree();
        tree.child_mut("GROUP").set_value("RANKS", u64::MAX);
        assert_eq!(ParityHeader::from_tree(&tree), None);
    }

    #[test]
    fn claims_about_the_code_are_checked() {
        let [_, rs] = headers();
        let refused = |key: &str, value: &str| {
            let mut tree = rs.to_tree();
            tree.set_value(key, value);
            assert_eq!(ParityHeader::from_tree(&tree), None, "{key} {value}");
        };
        refused("FAILURES", "0");
        refused("FAILURES", "3");
        refused("FAILURES", "18446744073709551615");
        refused("CODE", "CAUCHY_11B");
        refused("CHUNK", "18446744073709551615");
    }
}
