//! What a member of a set had: its rank, its files in order, its record (manual 1.1, section 7.3.2,
//! CURRENT).
//!
//! The right neighbour keeps a copy (PARTNER), from which a lost member learns what it had.
//!
//! ```text
//! RANK <world rank>   HOST <host>   FILES <count>
//! FILE  <index>       FILE <name>  TYPE FULL  COMPLETE 1  SIZE <bytes>  CRC <crc32>  MODE ...
//!                     CKPT <id>  RANKS <ranks in the world>  RANK <world rank>
//! RECORD ...          the rank's record as it was given
//! ```

use super::{MemberData, RedundancySet};
use crate::files::is_safe_relative;
use crate::kvtree::KvTree;
use crate::records::FileMeta;

/// What a member had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberList {
    pub world_rank: usize,
    /// Host it was on when it was protected: a tag for scavenge, never relied on.
    pub host: String,
    /// Its files, in the order of concatenation.
    pub files: Vec<FileMeta>,
    pub record: KvTree,
}

impl MemberList {
    pub(super) fn of(set: &RedundancySet, data: &MemberData) -> Self {
        let me = set.comm.rank();
        MemberList {
            world_rank: set.world_ranks[me],
            host: set.hosts.get(me).cloned().unwrap_or_default(),
            // What others keep, and bring back, are files of their own.
            files: data.files.iter().map(FileMeta::as_copy).collect(),
            record: data.record.clone(),
        }
    }

    pub(super) fn total_bytes(&self) -> u64 {
        // The parser has checked that this does not overflow.
        self.files.iter().filter(|file| !file.on_prefix).map(|file| file.size).sum()
    }

    /// Makes the tree as drawn above.
    pub fn to_tree(&self, id: u64, world_size: usize) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("RANK", self.world_rank);
        tree.set_value("HOST", &self.host);
        tree.set_value("FILES", self.files.len());
        for (index, file) in self.files.iter().enumerate() {
            let fields = tree.child_mut("FILE").set(index, file.to_tree());
            fields.set_value("TYPE", "FULL");
            fields.set_value("COMPLETE", 1);
            fields.set_value("CKPT", id);
            fields.set_value("RANKS", world_size);
            fields.set_value("RANK", self.world_rank);
        }
        tree.set("RECORD", self.record.clone());
        tree
    }

    /// Reads what [`MemberList::to_tree`] makes; `None` if a name leads out of the directory.
    #[must_use]
    pub fn from_tree(tree: &KvTree) -> Option<Self> {
        let count: usize = tree.parse("FILES")?;
        let (mut files, mut total) = (Vec::new(), 0_u64);
        for index in 0..count {
            // A count without files ends here, whatever it claims.
            let file = FileMeta::from_tree(tree.get_path(&["FILE", &index.to_string()])?)?;
            if !is_safe_relative(&file.name) {
                return None;
            }
            total = total.checked_add(file.size)?;
            files.push(file);
        }
        Some(MemberList {
            world_rank: tree.parse("RANK")?,
            host: tree.get_value("HOST").unwrap_or_default().to_owned(),
            files,
            record: tree.child("RECORD").clone(),
        })
    }

    pub(super) fn fits(&self, files: &[FileMeta]) -> bool {
        let what = |file: &FileMeta| (file.name.clone(), file.size, file.on_prefix);
        self.files.len() == files.len()
            && self.files.iter().zip(files).all(|(mine, theirs)| what(mine) == what(theirs))
    }

    pub(super) fn set_crcs(&mut self, crcs: &[Option<u32>]) {
        for (file, crc32) in self.files.iter_mut().zip(crcs) {
            file.crc32 = *crc32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> MemberList {
        let mut record = KvTree::new();
        record.set_value("TYPE", "XOR");
        let file = |name: &str, size| FileMeta { name: name.into(), size, ..FileMeta::default() };
        let files = (0..12).map(|i| file(&format!("d/f{i}"), i)).collect();
        MemberList { world_rank: 3, host: "node1".into(), files, record }
    }

    #[test]
    fn survives_the_tree_in_index_order() {
        let tree = list().to_tree(6, 4);
        assert_eq!(tree.child("FILE").child("10").get_value("FILE"), Some("d/f10"));
        assert_eq!(tree.child("FILE").child("0").get_value("CKPT"), Some("6"));
        assert_eq!(MemberList::from_tree(&tree), Some(list()));
    }

    #[test]
    fn a_malformed_list_is_refused() {
        let bad = |change: &dyn Fn(&mut KvTree)| {
            let mut tree = list().to_tree(6, 4);
            change(&mut tree);
            assert_eq!(MemberList::from_tree(&tree), None);
        };
        let set = |key: &'static str, value: &'static str| {
            move |tree: &mut KvTree| {
                *tree.child_mut("FILE").child_mut("2").child_mut(key) = {
                    let mut only = KvTree::new();
                    only.child_mut(value);
                    only
                }
            }
        };
        bad(&|tree| tree.set_value("FILES", 13));
        bad(&|tree| tree.set_value("FILES", u64::MAX));
        bad(&|tree| {
            tree.set("RANK", KvTree::new());
        });
        bad(&set("FILE", "../../etc/passwd"));
        bad(&set("SIZE", "18446744073709551615"));
    }
}
