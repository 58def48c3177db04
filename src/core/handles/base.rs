//! Which file a private copy was made from.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    device: u64,
    number: u64,
    /// On the PFS it may be changed in place; a sealed copy is not.
    stamp: Option<Stamp>,
}

impl Base {
    pub fn of(path: &Path, on_prefix: bool) -> Option<Base> {
        let found = path.symlink_metadata().ok()?;
        let stamp = if on_prefix { Some(stamp(path)?) } else { None };
        Some(Base { device: found.dev(), number: found.ino(), stamp })
    }

    pub fn is_at(&self, path: &Path) -> bool {
        Base::of(path, self.stamp.is_some()).as_ref() == Some(self)
    }
}

/// Size, and seconds and nanoseconds of the last modification.
pub type Stamp = (u64, i64, i64);

pub fn stamp(path: &Path) -> Option<Stamp> {
    path.metadata().ok().map(|found| (found.len(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::fs::{rename, write};

    use super::*;

    #[test]
    fn another_file_of_the_name_is_not_the_base() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("f"), dir.path().join("g"));
        assert_eq!(Base::of(&path, true), None);
        write(&path, "one").unwrap();
        let [sealed, on_prefix] =
            [false, true].map(|on_prefix| Base::of(&path, on_prefix).unwrap());
        assert!(sealed.is_at(&path) && on_prefix.is_at(&path));
        // What is on the PFS may be changed in place, and is another state then.
        write(&path, "longer").unwrap();
        assert!(sealed.is_at(&path) && !on_prefix.is_at(&path));
        write(&other, "one").unwrap();
        rename(&other, &path).unwrap();
        assert!(!sealed.is_at(&path));
    }
}
