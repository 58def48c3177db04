//! Redundancy files that nobody has touched since their seal: a start does not read them.
//!
//! What the program restarts from is compared in full at every start. Redundancy is not read by the
//! program, and is as large as that or larger (PARTNER, RS), so of a file that is the same one, on
//! a node that has not been started anew, the content is taken for what it was. It is compared
//! before it serves: a rebuild compares all that it reads, and if it is not right, the start looks
//! at everything again.
//!
//! ```text
//! UNTOUCHED   BOOT <boot id of the node>
//!             FILE <name> <inode> <bytes> <modified, s.ns> <changed, s.ns>
//! ```

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, FileMeta};
use crate::system::boot_id;

const KEY: &str = "UNTOUCHED";

/// To read smaller files costs no time, to remember them would.
const BYTES_MIN: u64 = 1 << 20;

/// Remembers the redundancy `files` below `dir`, which have just been written and made durable.
pub(super) fn remember(record: &mut DatasetRecord, dir: &Path, files: &[FileMeta]) {
    forget(&mut record.descriptor);
    let Some(boot) = boot_id() else { return };
    let mut tree = KvTree::new();
    tree.set_value("BOOT", boot);
    for file in files.iter().filter(|file| file.size >= BYTES_MIN) {
        if let Some(identity) = identity(&dir.join(&file.name)) {
            tree.child_mut("FILE").set_value(&file.name, identity);
        }
    }
    record.descriptor.set(KEY, tree);
}

/// Leaves out what was remembered: of another encoding.
pub(super) fn forget(descriptor: &mut KvTree) {
    descriptor.remove(KEY);
}

/// Tells whether the redundancy `file` below `dir` is the one that was remembered, on the same boot
/// of the node, and nobody has written to it or renamed it since.
pub(super) fn is_untouched(record: &DatasetRecord, dir: &Path, file: &FileMeta) -> bool {
    let tree = record.descriptor.child(KEY);
    let boot = tree.get_value("BOOT");
    let known = tree.child("FILE").get_value(&file.name);
    let same_boot = boot.is_some() && boot == boot_id().as_deref();
    same_boot && known.is_some() && known == identity(&dir.join(&file.name)).as_deref()
}

/// What changes when somebody writes to a file, replaces, copies or renames it.
fn identity(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(format!(
        "{} {} {}.{:09} {}.{:09}",
        found.ino(),
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{FileTimes, OpenOptions};
    use std::io::Write as _;

    /// A remembered file of the least size, `r`.
    fn remembered() -> (tempfile::TempDir, DatasetRecord, FileMeta) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("r"), vec![1; BYTES_MIN as usize]).unwrap();
        let file = FileMeta { name: "r".into(), size: BYTES_MIN, ..FileMeta::default() };
        let mut record = DatasetRecord::default();
        remember(&mut record, dir.path(), std::slice::from_ref(&file));
        assert!(is_untouched(&record, dir.path(), &file));
        (dir, record, file)
    }

    /// Acts until the clock of the file system has gone on.
    fn changed(dir: &Path, act: impl Fn(&Path)) {
        let (path, before) = (dir.join("r"), identity(&dir.join("r")));
        while identity(&path) == before {
            act(&path);
        }
    }

    #[test]
    fn whoever_writes_to_it_is_seen_even_if_he_puts_the_time_back() {
        let (dir, record, file) = remembered();
        changed(dir.path(), |path| {
            let mut open = OpenOptions::new().write(true).open(path).unwrap();
            let before = open.metadata().unwrap().modified().unwrap();
            open.write_all(b"x").unwrap();
            open.set_times(FileTimes::new().set_modified(before)).unwrap();
        });
        assert!(!is_untouched(&record, dir.path(), &file));
    }

    #[test]
    fn a_copy_another_boot_and_an_unknown_name_do_not_count() {
        let (dir, mut record, file) = remembered();
        let other = FileMeta { name: "s".into(), ..file.clone() };
        fs::copy(dir.path().join("r"), dir.path().join("s")).unwrap();
        assert!(!is_untouched(&record, dir.path(), &other));
        record.descriptor.child_mut(KEY).child_mut("BOOT").clear();
        assert!(!is_untouched(&record, dir.path(), &file), "no boot is known");
        record.descriptor.child_mut(KEY).set_value("BOOT", "another");
        assert!(!is_untouched(&record, dir.path(), &file));

        let (dir, record, file) = remembered();
        fs::rename(dir.path().join("r"), dir.path().join("old")).unwrap();
        fs::copy(dir.path().join("old"), dir.path().join("r")).unwrap();
        assert!(!is_untouched(&record, dir.path(), &file), "a copy in its place");
    }

    #[test]
    fn small_files_are_not_remembered() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("r"), "small").unwrap();
        let file = FileMeta { name: "r".into(), size: 5, ..FileMeta::default() };
        let mut record = DatasetRecord::default();
        remember(&mut record, dir.path(), std::slice::from_ref(&file));
        assert!(!is_untouched(&record, dir.path(), &file));
    }
}
