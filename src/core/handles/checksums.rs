//! Checksums that were taken while the program wrote: a seal need not read those files. They count
//! only if the door has seen all that was written, in order, and nobody else can have written
//! since: other ranks of the node and children are heard of before they do ([`Checksums::doubt`]).

use std::collections::{BTreeSet, HashMap};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use crate::records::FileMeta;

/// More than a rank has open or unsealed at a time; the rest is read.
const FILES_MAX: usize = 1 << 14;

type FileId = (u64, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileThen {
    size: u64,
    modified: (i64, i64),
    /// Another file may get the number of one that was removed.
    made: Option<SystemTime>,
    crc32: u32,
}

impl FileThen {
    fn of(found: &Metadata, crc32: u32) -> FileThen {
        let modified = (found.mtime(), found.mtime_nsec());
        FileThen { size: found.len(), modified, made: found.created().ok(), crc32 }
    }
}

#[derive(Debug, Default)]
pub struct Checksums {
    taken: HashMap<FileId, FileThen>,
    /// Names of files that somebody else may have written.
    doubted: BTreeSet<String>,
    /// Nobody knows any more who writes what.
    useless: bool,
}

impl Checksums {
    /// Notes the checksum of all `bytes` of the file `name`, which was `found` then.
    pub fn put(&mut self, name: &str, found: &Metadata, bytes: u64, crc32: u32) {
        let whole = found.is_file() && found.len() == bytes;
        if whole && !self.useless && !self.doubted.contains(name) && self.taken.len() < FILES_MAX {
            self.taken.insert(id(found), FileThen::of(found, crc32));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    pub fn forget(&mut self, found: &Metadata) {
        self.taken.remove(&id(found));
    }

    /// Returns `None` if the file has to be read.
    pub fn take(&mut self, name: &str, path: &Path) -> Option<FileMeta> {
        if self.taken.is_empty() {
            return None;
        }
        let found = path.symlink_metadata().ok()?;
        let taken = self.taken.remove(&id(&found))?;
        let same = found.is_file() && taken == FileThen::of(&found, taken.crc32);
        (same && !self.useless && !self.doubted.contains(name)).then(|| FileMeta {
            name: name.to_string(),
            size: taken.size,
            crc32: Some(taken.crc32),
            mtime_seconds: taken.modified.0,
            mtime_nanoseconds: taken.modified.1,
            ..FileMeta::default()
        })
    }

    pub fn doubt(&mut self, name: &str) {
        self.doubted.insert(name.to_string());
    }

    pub fn doubt_all(&mut self) {
        self.useless = true;
    }
}

fn id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const CRC32: u32 = 0xcbf4_3926;

    fn known() -> (tempfile::TempDir, std::path::PathBuf, Checksums) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "123456789").unwrap();
        let mut checksums = Checksums::default();
        checksums.put("f", &path.metadata().unwrap(), 9, CRC32);
        (dir, path, checksums)
    }

    #[test]
    fn it_counts_once_for_the_same_file_under_any_name() {
        let (dir, path, mut checksums) = known();
        let other = dir.path().join("g");
        fs::rename(&path, &other).unwrap();
        let meta = checksums.take("g", &other).unwrap();
        assert_eq!((meta.size, meta.crc32), (9, Some(CRC32)));
        assert_eq!(checksums.take("g", &other), None);
    }

    #[test]
    fn a_file_that_is_another_one_now_is_read() {
        let changes: [&dyn Fn(&Path); 3] = [
            &|path| fs::write(path, "12345678").unwrap(),
            &|path| {
                let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            },
            &|path| {
                fs::copy(path, path.with_extension("copy")).unwrap();
                fs::rename(path.with_extension("copy"), path).unwrap();
            },
        ];
        for change in changes {
            let (_dir, path, mut checksums) = known();
            change(&path);
            assert_eq!(checksums.take("f", &path), None);
        }
        let (_dir, path, mut checksums) = known();
        checksums.forget(&path.metadata().unwrap());
        assert_eq!(checksums.take("f", &path), None, "it is open again");
        checksums.put("f", &path.metadata().unwrap(), 8, CRC32);
        assert!(checksums.is_empty(), "not all of it was seen");
    }

    #[test]
    fn what_others_may_write_is_read() {
        let (_dir, path, mut checksums) = known();
        checksums.doubt("f");
        assert_eq!(checksums.take("f", &path), None);
        checksums.put("f", &path.metadata().unwrap(), 9, CRC32);
        assert!(checksums.is_empty());
        let (_dir, path, mut checksums) = known();
        checksums.doubt_all();
        assert_eq!(checksums.take("f", &path), None);
    }
}
