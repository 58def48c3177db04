//! Where index and flush file are that count.

use std::fs;
use std::path::{Path, PathBuf};

/// File name of an index, ours and theirs.
pub const INDEX_NAME: &str = "index.scr";

/// Returns `path` with a suffix.
pub(super) fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns where ours lies beside the index or flush file at `path`.
pub fn beside(path: &Path) -> PathBuf {
    with(path, ".ours")
}

/// Returns where the index is that counts: ours beside `path`, unless the C implementation has
/// written its own since.
pub fn index_place(path: &Path) -> PathBuf {
    let written = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let ours = beside(path);
    match written(&ours) {
        Some(time) if written(path).is_none_or(|theirs| theirs <= time) => ours,
        _ => path.to_owned(),
    }
}

/// Returns where the flush file is that counts: beside `path`, as long as the index is.
pub fn flush_place(path: &Path) -> PathBuf {
    match beside(&path.with_file_name(INDEX_NAME)).exists() {
        true => beside(path),
        false => path.to_owned(),
    }
}
