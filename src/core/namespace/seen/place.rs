//! Where a name is.

use std::path::PathBuf;

use super::answer::StatAttributes;
use super::layer::Remote;
use crate::machine::DatasetKey;

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
    Evicted(StatAttributes),
}
