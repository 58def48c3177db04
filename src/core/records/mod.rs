//! Typed views over the durable records.

use crate::kvtree::KvTree;

/// What is known of one file (000 section 5; the sidecars are gone, the fields stay).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileMeta {
    /// Path relative to the dataset directory, which is the path relative to the prefix.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// CRC32 (IEEE) of the content, when computed.
    pub crc32: Option<u32>,
    /// Permission bits.
    pub mode: u32,
    /// Modification time, seconds since the epoch.
    pub mtime_seconds: i64,
    /// Its nanoseconds.
    pub mtime_nanoseconds: i64,
    /// The file lies on the PFS under its own name, not in the cache.
    pub on_prefix: bool,
}

impl FileMeta {
    /// Keys FILE, SIZE, CRC, MODE, MTIME, MTIME_NSECS, PFS.
    pub fn to_tree(&self) -> KvTree {
        todo!()
    }
    /// The inverse; `None` if a field is missing or malformed.
    pub fn from_tree(_tree: &KvTree) -> Option<Self> {
        todo!()
    }
}
