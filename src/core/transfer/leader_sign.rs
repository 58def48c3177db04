//! What a node's leader has seen on the prefix, for the other ranks of the node: an empty file in
//! the control directory. So the prefix bears one reader a node, not one a rank.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::remove_file_if_there;

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sign {
    /// The nodes before are done.
    Turn,
    /// Rank 0 has committed.
    Commit,
}

impl Sign {
    /// Returns the path of the file for the flush of dataset `id`.
    pub fn path(self, control: &Path, id: u64) -> PathBuf {
        let kind = match self {
            Sign::Turn => "turn",
            Sign::Commit => "commit",
        };
        control.join(format!("flush.{id}.{kind}"))
    }

    /// Removes all signs of the flush of dataset `id`.
    pub fn clear(control: &Path, id: u64) -> Result<()> {
        let signs = [Sign::Turn, Sign::Commit];
        signs.iter().try_for_each(|sign| remove_file_if_there(&sign.path(control, id)))
    }
}
