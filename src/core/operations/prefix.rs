//! Where the records of a prefix are, and who changes them.

use std::path::{Path, PathBuf};

use crate::namespace::STATE_FOLDER;
use crate::system;

/// Returns the folder of a prefix directory in which the records are.
pub(super) fn state_dir(prefix: &Path) -> PathBuf {
    prefix.join(STATE_FOLDER)
}

/// Tells who we are, for whoever finds the locks taken.
pub(super) fn holder() -> String {
    format!("host {}, process {}", system::hostname(), std::process::id())
}
