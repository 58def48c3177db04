//! What a sealed dataset holds: every file of every rank.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::kvtree::KvTree;
use crate::records::{DatasetKey, FileMeta};

/// One file of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// World rank that wrote it.
    pub rank: usize,
    /// Path, size, checksum, times.
    pub meta: FileMeta,
}

/// All files of a dataset, sorted by name, then rank.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Dataset id.
    pub id: u64,
    /// Epoch of the seal.
    pub epoch: u64,
    /// Series, captured id, generation.
    pub key: DatasetKey,
    /// The files.
    pub entries: Vec<CatalogEntry>,
}
