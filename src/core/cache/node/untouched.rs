//! Files that nobody has touched since their seal: a start does not read a large one that is the
//! same, on a node that has not been started anew. It is compared before it serves: a rebuild
//! compares all that it reads, and what the program restarts from is compared while it runs
//! (`recheck.rs`). A start before notes that; until it has been done, the next one compares the
//! program's files in full.
//!
//! ```text
//! UNTOUCHED   BOOT <boot id of the node>
//!             OFFERED 1   a start has offered the program's files since they were compared
//!             FILE <name> <inode> <bytes> <modified, s.ns> <changed, s.ns>
//! ```

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, FileMeta, RecordedState};
use crate::system::boot_id;

const KEY: &str = "UNTOUCHED";
const OFFERED: &str = "OFFERED";

/// To read a smaller file takes no longer than to remember it.
const BYTES_MIN: u64 = 1 << 20;

/// Remembers the redundancy `files` below `dir`, which are durable, and, with `program`, those of
/// the record's own files that are as they were measured.
pub(crate) fn remember(record: &mut DatasetRecord, dir: &Path, files: &[FileMeta], program: bool) {
    forget(&mut record.descriptor);
    let mut known = KnownFiles::default();
    files.iter().filter(|file| is_large(file)).for_each(|file| known.add(dir, file));
    for file in record.files.iter().filter(|file| program && is_large(file)) {
        let times = |found: fs::Metadata| (found.mtime(), found.mtime_nsec());
        let found = fs::symlink_metadata(dir.join(file.place())).ok().map(times);
        if found == Some((file.mtime_seconds, file.mtime_nanoseconds)) {
            known.add(dir, file);
        }
    }
    known.note(&mut record.descriptor);
}

pub(crate) fn forget(descriptor: &mut KvTree) {
    descriptor.remove(KEY);
}

/// Notes that a start offers what the record describes. If an earlier one has done so, and nobody
/// has compared the content since, the program's files are no longer known.
pub(crate) fn offer(record: &mut DatasetRecord) {
    if record.state != RecordedState::Prepared || !record.files.iter().any(is_large) {
        return;
    }
    let tree = record.descriptor.child_mut(KEY);
    if tree.get_flag(OFFERED) {
        let files = tree.child_mut("FILE");
        record.files.iter().for_each(|file| drop(files.remove(&file.name)));
    }
    tree.set_flag(OFFERED, true);
}

/// Tells whether a start has offered it, and nobody has compared the content since.
pub(crate) fn is_offered(record: &DatasetRecord) -> bool {
    record.descriptor.child(KEY).get_flag(OFFERED)
}

/// Tells whether `file` below `dir` is the one that was remembered on the same boot of the node,
/// and nobody has written to it or renamed it since.
pub(crate) fn is_untouched(record: &DatasetRecord, dir: &Path, file: &FileMeta) -> bool {
    let tree = record.descriptor.child(KEY);
    let boot = tree.get_value("BOOT");
    let known = tree.child("FILE").get_value(&file.name);
    let same_boot = boot.is_some() && boot == boot_id().as_deref();
    same_boot && known.is_some() && known == identity(&dir.join(file.place())).as_deref()
}

/// Tells whether files of this size in the cache are remembered.
pub(crate) fn is_large(file: &FileMeta) -> bool {
    !file.on_prefix && file.size >= BYTES_MIN
}

/// Files whose content is what was sealed.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles(KvTree);

impl KnownFiles {
    fn add(&mut self, dir: &Path, file: &FileMeta) {
        if let Some(identity) = identity(&dir.join(file.place())) {
            self.insert(file, identity);
        }
    }

    /// Adds a file whose `identity` was found before the content was compared.
    pub fn insert(&mut self, file: &FileMeta, identity: String) {
        self.0.set_value(&file.name, identity);
    }

    pub fn note(self, descriptor: &mut KvTree) {
        let Some(boot) = boot_id() else { return forget(descriptor) };
        let mut tree = KvTree::new();
        tree.set_value("BOOT", boot);
        if !self.0.is_empty() {
            tree.set("FILE", self.0);
        }
        descriptor.set(KEY, tree);
    }
}

/// Changes when somebody writes to a file, replaces, copies or renames it.
pub(crate) fn identity(path: &Path) -> Option<String> {
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

    fn remembered() -> (tempfile::TempDir, DatasetRecord, FileMeta) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("r"), vec![1; BYTES_MIN as usize]).unwrap();
        let file = FileMeta { name: "r".into(), size: BYTES_MIN, ..FileMeta::default() };
        let mut record = DatasetRecord::default();
        remember(&mut record, dir.path(), std::slice::from_ref(&file), true);
        assert!(is_untouched(&record, dir.path(), &file));
        (dir, record, file)
    }

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
        record.descriptor.child_mut(KEY).set("BOOT", KvTree::new());
        assert!(!is_untouched(&record, dir.path(), &file), "no boot is known");
        record.descriptor.child_mut(KEY).set_value("BOOT", "another");
        assert!(!is_untouched(&record, dir.path(), &file));

        let (dir, record, file) = remembered();
        fs::rename(dir.path().join("r"), dir.path().join("old")).unwrap();
        fs::copy(dir.path().join("old"), dir.path().join("r")).unwrap();
        assert!(!is_untouched(&record, dir.path(), &file), "a copy in its place");
    }

    #[test]
    fn what_was_offered_and_not_compared_since_is_known_no_more() {
        let (dir, mut record, file) = remembered();
        let program = FileMeta { name: "p".into(), mode: 0o600, ..file.clone() };
        fs::write(dir.path().join("p"), vec![1; BYTES_MIN as usize]).unwrap();
        record.files = vec![program.clone()];
        remember(&mut record, dir.path(), std::slice::from_ref(&file), true);
        assert!(!is_untouched(&record, dir.path(), &program), "changed since it was measured");
        let found = fs::metadata(dir.path().join("p")).unwrap();
        record.files[0].mtime_seconds = found.mtime();
        record.files[0].mtime_nanoseconds = found.mtime_nsec();
        remember(&mut record, dir.path(), std::slice::from_ref(&file), false);
        assert!(!is_untouched(&record, dir.path(), &program), "where other nodes reach it");
        remember(&mut record, dir.path(), std::slice::from_ref(&file), true);
        assert!(is_untouched(&record, dir.path(), &program));

        offer(&mut record);
        assert!(!is_offered(&record), "it is not sealed");
        record.state = RecordedState::Prepared;
        offer(&mut record);
        assert!(is_offered(&record) && is_untouched(&record, dir.path(), &program));
        offer(&mut record);
        assert!(!is_untouched(&record, dir.path(), &program));
        assert!(is_untouched(&record, dir.path(), &file), "redundancy is not offered");
    }

    #[test]
    fn small_files_are_not_remembered() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("r"), "small").unwrap();
        let file = FileMeta { name: "r".into(), size: 5, ..FileMeta::default() };
        let mut record = DatasetRecord::default();
        remember(&mut record, dir.path(), std::slice::from_ref(&file), true);
        assert!(!is_untouched(&record, dir.path(), &file));
    }
}
