//! Names of what lies in the directories of a node.

use std::path::{Path, PathBuf};

/// The folder of a dataset directory for redundancy files, catalog and markers.
pub const OWN_FOLDER: &str = ".scr";

pub(super) const SEALED_PREFIX: &str = "scr.dataset.";

/// The file that tells which launches share a control directory or a shared store.
pub(crate) const LAUNCH: &str = "launch.scr";

/// Returns where `base` is on a node whose files begin at `root`: not `/` if several nodes live on
/// one machine and share its file system.
pub fn on_node(root: &Path, base: &Path) -> PathBuf {
    root.join(base.strip_prefix("/").unwrap_or(base))
}

pub fn sealed_id(name: &str) -> Option<u64> {
    name.strip_prefix(SEALED_PREFIX)?.parse().ok()
}

/// Includes the list of filemaps and the merged one.
pub(crate) fn is_filemap_name(name: &str) -> bool {
    name.starts_with("filemap") && name.ends_with(".scrinfo")
}
