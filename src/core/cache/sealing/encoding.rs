//! What a record tells of the encodings of a dataset: two, while it is protected anew for another
//! placement of the ranks.

use std::path::{Path, PathBuf};

use super::own_part::protection_of;
use crate::cache::node::disk::matches;
use crate::cache::node::names::OWN_FOLDER;
use crate::comm::ranks::{parse_ranks, ranks_text};
use crate::kvtree::KvTree;
use crate::records::DatasetRecord;

const NEXT: &str = "next.";

/// What a claim tells of one encoding.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoding {
    /// Counts the encodings of a dataset, from 0.
    pub number: u64,
    /// World ranks of the owner's redundancy set.
    pub set: Vec<usize>,
    /// The redundancy files are there.
    pub protected: bool,
}

impl Encoding {
    /// Returns all encodings that `record` tells, the newest first. The files are below `dir`.
    pub(crate) fn list(owner: usize, record: &DatasetRecord, dir: &Path) -> Vec<Encoding> {
        let describe = |record: &DatasetRecord| Encoding {
            number: number(record),
            set: parse_ranks(record.descriptor.get_value("MEMBERS").unwrap_or_default()),
            protected: is_protected(owner, record, dir),
        };
        let older = before(record);
        std::iter::once(record).chain(older.as_ref()).map(describe).collect()
    }

    pub(crate) fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("MEMBERS", ranks_text(&self.set));
        tree.set_flag("PROTECTED", self.protected);
        tree
    }

    pub(crate) fn from_tree(number: &str, tree: &KvTree) -> Option<Encoding> {
        Some(Encoding {
            number: number.parse().ok()?,
            set: parse_ranks(tree.get_value("MEMBERS")?),
            protected: tree.get_flag("PROTECTED"),
        })
    }
}

pub(crate) fn number(record: &DatasetRecord) -> u64 {
    record.descriptor.get_u64("ENCODING").unwrap_or(0)
}

pub(crate) fn before(record: &DatasetRecord) -> Option<DatasetRecord> {
    let descriptor = record.descriptor.get("BEFORE")?.clone();
    Some(DatasetRecord { descriptor, ..record.clone() })
}

pub(crate) fn next_dir(dir: &Path, owner: usize) -> PathBuf {
    dir.join(OWN_FOLDER).join(format!("{NEXT}{owner}"))
}

/// A redundancy file may also be where its rank encodes anew. While there are two encodings, only
/// the content tells to which one a file belongs.
fn is_protected(owner: usize, record: &DatasetRecord, dir: &Path) -> bool {
    let next = next_dir(dir, owner);
    let content = next.exists();
    protection_of(record)
        .iter()
        .all(|file| matches(dir, file, content) || matches(&next, file, true))
}
