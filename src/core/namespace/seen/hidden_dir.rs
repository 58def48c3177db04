//! Directories that the program is not to find.

use std::path::PathBuf;

use crate::files::modified;
use crate::records::FileMeta;

/// A directory on the PFS with nothing in it but hidden files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenDir {
    pub path: PathBuf,
    /// Its time of modification when it was hidden, seconds and nanoseconds. A later one tells that
    /// some rank has made it again.
    pub mtime: (i64, i64),
}

impl HiddenDir {
    pub fn of(path: PathBuf, look: &FileMeta) -> HiddenDir {
        HiddenDir { path, mtime: (look.mtime_seconds, look.mtime_nanoseconds) }
    }

    pub fn is_as_it_was(&self) -> bool {
        self.path.metadata().is_ok_and(|found| modified(&found) == self.mtime)
    }
}
