//! The XOR file (000 7.3.2): a tree in file form, then the chunk.
//!
//! ```text
//! 0                          header size          header size + CHUNK
//! | tree in file form (3.4.2) | chunk data          |
//!
//! CKPT <id>  DSET <id>  EPOCH <hex>  RANKS <ranks in the world>  CHUNK <bytes>
//! GROUP     RANKS <members>   RANK <rank in the set> <world rank>
//! CURRENT   the member's own list (member_list.rs)
//! PARTNER   the left neighbour's list
//! PADDING   so many `-` as make the size independent of the checksums
//! ```
//! The checksums in the lists are known only after the pass that also yields the chunk. Because the
//! header's size does not depend on them, the chunk can be written first, behind a gap. The header
//! comes last: a file that was cut off has none.

use std::fs::File;
use std::path::Path;

use super::{MemberList, REDUNDANCY_DIR, RedundancySet};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::kvtree::file::to_file_bytes;
use crate::records::text::{epoch_text, parse_epoch};

/// What the header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XorHeader {
    /// Dataset id.
    pub id: u64,
    /// Epoch of the seal.
    pub epoch: u64,
    /// Ranks in the world.
    pub world_size: usize,
    /// World ranks of the members, in set order.
    pub group: Vec<usize>,
    /// Size of the chunk in bytes: the least with which `n - 1` chunks hold every member's files.
    pub chunk_bytes: u64,
    /// The list of the member that the file belongs to.
    pub current: MemberList,
    /// The list of its left neighbour.
    pub partner: MemberList,
}

impl XorHeader {
    /// Name of a member's XOR file, relative to the dataset directory:
    /// `<rank in the set + 1>_of_<members>_in_<smallest world rank>.xor`.
    #[must_use]
    pub fn file_name(set: &RedundancySet) -> String {
        let (rank, size) = (set.comm.rank() + 1, set.comm.size());
        format!("{REDUNDANCY_DIR}/{rank}_of_{size}_in_{}.xor", set.group_id)
    }

    /// The file form; its size depends on everything but the checksums of the files.
    ///
    /// # Errors
    /// If the record is nested too deeply to be stored.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut widest = self.clone();
        for file in widest.current.files.iter_mut().chain(&mut widest.partner.files) {
            file.crc32 = Some(u32::MAX);
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
        tree.set("PARTNER", self.partner.to_tree(self.id, self.world_size));
        tree
    }

    fn from_tree(tree: &KvTree) -> Option<Self> {
        let group = tree.child("GROUP");
        let members: usize = group.parse("RANKS")?;
        Some(XorHeader {
            id: tree.parse("DSET")?,
            epoch: parse_epoch(tree.get_value("EPOCH")?)?,
            world_size: tree.parse("RANKS")?,
            // Ends at the first rank that is not there, whatever the count claims.
            group: (0..members)
                .map(|rank| group.child("RANK").parse(&rank.to_string()))
                .collect::<Option<_>>()?,
            chunk_bytes: tree.parse("CHUNK")?,
            current: MemberList::from_tree(tree.get("CURRENT")?)?,
            partner: MemberList::from_tree(tree.get("PARTNER")?)?,
        })
    }

    /// Reads the header of an XOR file; gives its size in bytes, too. The chunk is there in full.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn read(path: &Path) -> Result<(Self, u64)> {
        let mut file = File::open(path).map_err(|error| Error::io("cannot open", path, error))?;
        let length = file.metadata().map_err(|error| Error::io("cannot read", path, error))?.len();
        let (tree, header_bytes) = KvTree::read_prefix(&mut file, path)?;
        let header = Self::from_tree(&tree)
            .ok_or_else(|| Error::corrupt(path, "its header lacks a field or has a wrong one"))?;
        if header_bytes.checked_add(header.chunk_bytes) != Some(length) {
            let what = format!(
                "header and chunk have {header_bytes} and {} bytes, the file has {length}",
                header.chunk_bytes
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

    fn header() -> XorHeader {
        let file = FileMeta { name: "a".into(), size: 5, ..FileMeta::default() };
        let list = |world_rank| MemberList {
            world_rank,
            files: vec![file.clone(); 2],
            ..MemberList::default()
        };
        XorHeader {
            id: 6,
            epoch: 0xabc,
            world_size: 4,
            group: vec![0, 2, 3],
            chunk_bytes: 5,
            current: list(2),
            partner: list(0),
        }
    }

    #[test]
    fn the_size_does_not_depend_on_the_checksums() {
        let size = header().to_bytes().unwrap().len();
        for crc32 in [0, 0xff, 0x0123_4567, u32::MAX] {
            let mut header = header();
            header.current.files[1].crc32 = Some(crc32);
            header.partner.set_crcs(&[Some(1), Some(crc32)]);
            assert_eq!(header.to_bytes().unwrap().len(), size);
        }
    }

    #[test]
    fn reads_what_it_wrote_and_refuses_a_file_that_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.xor");
        let mut bytes = header().to_bytes().unwrap();
        let size = bytes.len() as u64;
        bytes.extend([7; 5]);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(XorHeader::read(&path).unwrap(), (header(), size));
        for length in [0, 10, size as usize, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(matches!(XorHeader::read(&path), Err(Error::Corrupt { .. })), "{length}");
        }
        for at in 0..size as usize {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            std::fs::write(&path, &flipped).unwrap();
            assert!(XorHeader::read(&path).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_claim_of_many_members_costs_nothing() {
        let mut tree = header().to_tree();
        tree.child_mut("GROUP").set_value("RANKS", u64::MAX);
        assert_eq!(XorHeader::from_tree(&tree), None);
    }
}
