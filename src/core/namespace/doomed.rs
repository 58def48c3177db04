//! What the program has deleted, and the prefix still has until its deletion is real: known again
//! by more than its name, since a rank of another node may give that name to another file meanwhile
//! (it moves a directory there, say), which is not to go with it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A file as it was when the program deleted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doomed {
    /// Device and inode of the file on the prefix, and how it looks: a new file may get the inode
    /// of one that has gone.
    there: Option<(u64, u64, SizeAndTime)>,
    /// Size and time of the cached file, which a flush may yet bring there: it keeps both.
    cached: Option<SizeAndTime>,
}

/// Bytes, and seconds and nanoseconds of the last change.
type SizeAndTime = (u64, i64, i64);

impl Doomed {
    /// Notes the file at `path` on the prefix, and that in the cache, if it has one.
    pub fn of(path: &Path, cached: Option<&Path>) -> Doomed {
        let found = path.symlink_metadata().ok();
        let here = cached.and_then(|here| here.metadata().ok());
        Doomed {
            there: found.map(|found| (found.dev(), found.ino(), look(&found))),
            cached: here.map(|here| look(&here)),
        }
    }

    /// Tells whether that is what is at `path` now. One of which nothing was known is taken for it.
    pub fn is_at(&self, path: &Path) -> bool {
        let Ok(found) = path.symlink_metadata() else { return true };
        (self.there.is_none() && self.cached.is_none())
            || self.there == Some((found.dev(), found.ino(), look(&found)))
            || self.cached == Some(look(&found))
    }
}

fn look(found: &Metadata) -> SizeAndTime {
    (found.len(), found.mtime(), found.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_of_the_name_is_told_from_what_was_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let [path, cached, other] = ["file", "cached", "other"].map(|name| dir.path().join(name));
        std::fs::write(&path, "old").unwrap();
        std::fs::write(&cached, "in the cache").unwrap();
        let doomed = Doomed::of(&path, Some(&cached));
        assert!(doomed.is_at(&path));
        // A flush comes late.
        std::fs::rename(&cached, &path).unwrap();
        assert!(doomed.is_at(&path));
        std::fs::write(&other, "moved here by another rank").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(!doomed.is_at(&path));
        assert!(Doomed::of(&other, None).is_at(&path), "nothing was known of it");
        std::fs::remove_file(&path).unwrap();
        assert!(doomed.is_at(&path));
    }
}
