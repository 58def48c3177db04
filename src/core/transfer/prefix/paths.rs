//! Where our files lie on the prefix, and whether a file there is the one that was published.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::join_relative;
use crate::records::{FileMeta, PrefixIndex, Record as _, Summary, update};

/// Before umask: others may look, and plant nothing.
pub(crate) const OWN_MODE: u32 = 0o755;

pub(crate) fn own_folder(prefix: &Path) -> PathBuf {
    prefix.join(".scr")
}

pub(super) fn folder_name(id: u64) -> String {
    format!("scr.dataset.{id}")
}

pub(crate) fn folder(prefix: &Path, id: u64) -> PathBuf {
    own_folder(prefix).join(folder_name(id))
}

pub(crate) fn index_path(prefix: &Path) -> PathBuf {
    own_folder(prefix).join(PrefixIndex::NAME)
}

pub(crate) fn read_index(prefix: &Path) -> Result<PrefixIndex> {
    Ok(PrefixIndex::read(&index_path(prefix))?.unwrap_or_default())
}

pub(crate) fn change_index<T>(
    prefix: &Path,
    change: impl FnOnce(&mut PrefixIndex) -> T,
) -> Result<T> {
    update(&index_path(prefix), |index| Ok(change(index)))
}

/// Lists the files of dataset `id` by its summary; `None` without one.
pub(crate) fn files_of(prefix: &Path, id: u64) -> Result<Option<Vec<FileMeta>>> {
    let summary = Summary::read_from(&folder(prefix, id))?;
    Ok(summary.map(|summary| summary.files.into_values().flatten().collect()))
}

pub(super) const FILES: &str = "files";

pub(crate) fn copy_place(prefix: &Path, id: u64, name: &str) -> Result<PathBuf> {
    join_relative(&folder(prefix, id).join(FILES), name)
}

/// The summary of a dataset that a person has taken out of the index.
pub const DROPPED_NAME: &str = "summary.scr.dropped";

/// Tells whether `path` is the published copy of `meta`, by its size and its time of modification,
/// which a publish carries over.
pub fn is_published(path: &Path, meta: &FileMeta) -> bool {
    fs::metadata(path).is_ok_and(|found| {
        let times = Times {
            seconds: found.mtime(),
            nanoseconds: found.mtime_nsec(),
            changed_nanoseconds: found.ctime_nsec(),
        };
        found.len() == meta.size && times.are_of(meta)
    })
}

/// When a file was modified, and the fraction of when its inode was changed last.
struct Times {
    seconds: i64,
    nanoseconds: i64,
    changed_nanoseconds: i64,
}

impl Times {
    /// Where the last change of the inode, which nobody can set, is in whole seconds, so is all
    /// that the file system keeps. On others a whole second comes from whoever has set it: two
    /// generations of one second would be taken for each other.
    fn are_of(&self, meta: &FileMeta) -> bool {
        let keeps_seconds = self.nanoseconds == 0 && self.changed_nanoseconds == 0;
        let same_fraction = self.nanoseconds / 1000 == meta.mtime_nanoseconds / 1000;
        self.seconds == meta.mtime_seconds && (keeps_seconds || same_fraction)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_whole_second_is_no_proof_where_fractions_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        fs::write(&path, "generation 2").unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
        // Both generations have one size, and were written in the same second.
        let older = FileMeta {
            size: 12,
            mtime_seconds: 1_700_000_000,
            mtime_nanoseconds: 987_654_321,
            ..FileMeta::default()
        };
        assert!(!is_published(&path, &older));
        assert!(is_published(&path, &FileMeta { mtime_nanoseconds: 0, ..older.clone() }));
        let whole = |seconds| Times { seconds, nanoseconds: 0, changed_nanoseconds: 0 };
        assert!(whole(1_700_000_000).are_of(&older));
        assert!(!whole(1_700_000_001).are_of(&older));
        // Some keep microseconds.
        let some = Times { nanoseconds: 987_654_000, changed_nanoseconds: 5, ..whole(7) };
        assert!(some.are_of(&FileMeta { mtime_seconds: 7, ..older }));
    }
}
