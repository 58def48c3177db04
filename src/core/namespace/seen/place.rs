//! Where a name is.

use std::path::PathBuf;

use scr_abi::wire::FileStat;

use super::layer::Remote;
use crate::machine::{DatasetKey, FileRef};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On the PFS, or nowhere.
    Prefix,
    /// On this node.
    Cached(DatasetKey, PathBuf),
    /// Under a temporary name, on this node.
    Private(PathBuf),
    Elsewhere(DatasetKey, Remote),
    /// What lies on the PFS or in the cache waits for its real deletion.
    Deleted,
    /// Evicted before it was due: the name is left, the content is gone.
    Evicted(FileStat),
}

impl Place {
    /// Tells whether several nodes have it, each a part of it.
    pub fn is_parted(&self) -> bool {
        matches!(self, Place::Elsewhere(_, remote) if remote.meta.is_shared)
    }
}

/// A name whose place is asked for. Of a `file` of a known checkpoint, fewer layers are asked.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'a> {
    pub name: &'a str,
    pub file: Option<&'a FileRef>,
}

impl<'a> From<&'a str> for Sought<'a> {
    fn from(name: &'a str) -> Self {
        Sought { name, file: None }
    }
}

impl<'a> From<&'a String> for Sought<'a> {
    fn from(name: &'a String) -> Self {
        Sought { name, file: None }
    }
}

impl<'a> From<&'a FileRef> for Sought<'a> {
    fn from(file: &'a FileRef) -> Self {
        Sought { name: &file.name, file: Some(file) }
    }
}
