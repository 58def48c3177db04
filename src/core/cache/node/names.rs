//! Names of what lies in the directories of a node.

use std::path::{Path, PathBuf};

/// Folder inside a dataset directory for what is ours: redundancy files, catalog, markers.
pub const OWN_FOLDER: &str = ".scr";

/// First part of the directory name of a sealed dataset.
pub(super) const SEALED_PREFIX: &str = "scr.dataset.";

/// Which launches share what a control directory, or a shared store, has.
pub(crate) const LAUNCH: &str = "launch.scr";

/// Returns where `base` is on a node whose files begin at `root`: `/`, unless several nodes live on
/// one machine and share its file system.
#[must_use]
pub fn on_node(root: &Path, base: &Path) -> PathBuf {
    root.join(base.strip_prefix("/").unwrap_or(base))
}

/// Reads the id in a sealed dataset's directory name.
#[must_use]
pub fn sealed_id(name: &str) -> Option<u64> {
    name.strip_prefix(SEALED_PREFIX)?.parse().ok()
}

/// Tells whether `name` is a filemap in a control directory, the list of them and the merged one
/// included.
pub(crate) fn is_filemap_name(name: &str) -> bool {
    name.starts_with("filemap") && name.ends_with(".scrinfo")
}
