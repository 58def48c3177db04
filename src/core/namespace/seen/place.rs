//! Where a name is.

use std::path::PathBuf;

use super::answer::Attributes;
use super::layer::Remote;
use crate::machine::DatasetKey;

/// Where a name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On the PFS, or nowhere.
    Prefix,
    /// On this node, in the dataset of this key.
    Cached(DatasetKey, PathBuf),
    /// Under a temporary name, on this node.
    Private(PathBuf),
    /// On another node.
    Elsewhere(DatasetKey, Remote),
    /// Deleted by the program; what lies on the PFS or in the cache waits for its real deletion.
    Deleted,
    /// Evicted before it was due: the name is left, the content is gone.
    Evicted(Attributes),
}
