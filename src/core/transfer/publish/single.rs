//! One file by itself to the prefix. While it is staged, a note
//! `<prefix>/.scr/staged/<epoch>-<checksum of the path>` holds the path: no journal names it, and
//! the next start could not find it otherwise. The note is not synced: it has to outlive a process,
//! and mostly a node.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::stage::{publish_staged, remove_staged, stage};
use super::staged::{is_staged_name, staged_path};
use crate::cache::disk::names_in;
use crate::error::Result;
use crate::files::{CopyOptions, crc32, create_dirs, remove_file_if_there, sync_dir, write_ours};
use crate::records::FileMeta;
use crate::records::text::epoch_text;
use crate::system::random_u64;
use crate::transfer::prefix::paths::{OWN_MODE, own_folder};

fn notes_folder(prefix: &Path) -> PathBuf {
    own_folder(prefix).join("staged")
}

pub(in crate::transfer) struct StagedNote(PathBuf);

impl StagedNote {
    /// Leaves a note; without one the file goes to the prefix all the same. Each `node` of those
    /// that stage a file together has its own.
    pub fn leave(prefix: &Path, target: &Path, epoch: u64, node: usize) -> Option<StagedNote> {
        let staged = staged_path(target, epoch).ok()?;
        let path = staged.as_os_str().as_bytes();
        let sum = crc32(path) ^ node as u32;
        let note = notes_folder(prefix).join(format!("{}-{sum:08x}", epoch_text(epoch)));
        create_dirs(&notes_folder(prefix), OWN_MODE).ok()?;
        write_ours(&note, path).ok()?;
        Some(StagedNote(note))
    }

    /// Removes it; a note of a file that is not there any more is harmless.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Copies one file to its place below `prefix`, with mode and times of `source`. On an error the
/// target is untouched.
pub fn publish_file(prefix: &Path, source: &Path, target: &Path) -> Result<FileMeta> {
    publish_whole(prefix, source, target, random_u64())
}

/// Does the same, if `publish_if` calls its second argument, which renames the copy; it says
/// whether it has. The first argument is where the copy lies by then.
pub fn publish_file_if(
    prefix: &Path,
    source: &Path,
    target: &Path,
    publish_if: impl FnOnce(&Path, &mut dyn FnMut() -> Result<()>) -> Result<bool>,
) -> Result<bool> {
    let epoch = random_u64();
    let staged = staged_path(target, epoch)?;
    let publish_if = |publish: &mut dyn FnMut() -> Result<()>| publish_if(&staged, publish);
    publish_as(prefix, source, target, epoch, None, CopyOptions::default(), publish_if)
        .map(|(_, published)| published)
}

/// Does the same for a file whose dataset is not sealed: those who wait for it know the name of the
/// staged file and see it grow ([`crate::transfer::Awaited`]). Its rank alone does this, one file
/// at a time.
pub fn publish_unsealed(prefix: &Path, source: &Path, target: &Path) -> Result<FileMeta> {
    publish_whole(prefix, source, target, 0)
}

fn publish_whole(prefix: &Path, source: &Path, target: &Path, epoch: u64) -> Result<FileMeta> {
    let always = |publish: &mut dyn FnMut() -> Result<()>| publish().map(|()| true);
    let done = publish_as(prefix, source, target, epoch, None, CopyOptions::default(), always);
    done.map(|(meta, _)| meta)
}

/// Does the same under a given epoch; checks the content against `expected`. `publish_if` renames
/// by calling its argument, if the file is still wanted, and says whether it was; so does the
/// answer. Nothing staged is left of an unwanted file.
pub(crate) fn publish_as(
    prefix: &Path,
    source: &Path,
    target: &Path,
    epoch: u64,
    expected: Option<&FileMeta>,
    how: CopyOptions<'_>,
    publish_if: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<bool>,
) -> Result<(FileMeta, bool)> {
    let note = StagedNote::leave(prefix, target, epoch, 0);
    let publish = || {
        let meta = stage(source, target, epoch, expected, how)?;
        crate::system::test_pause("file.staged");
        let mut dir = None;
        let wanted = publish_if(&mut || {
            dir = Some(publish_staged(target, epoch)?);
            Ok(())
        });
        match dir {
            // After `publish_if`: its caller may be keeping the program waiting meanwhile.
            Some(dir) => sync_dir(&dir)?,
            None => remove_staged(target, epoch)?,
        }
        wanted.map(|wanted| (meta, wanted))
    };
    let done = publish();
    // What could not be removed is left to the next start.
    let is_left = done.is_err() && staged_path(target, epoch).is_ok_and(|staged| staged.exists());
    note.into_iter().filter(|_| !is_left).for_each(StagedNote::remove);
    done
}

/// Removes what an earlier launch has staged and not published. Rank 0 calls it at the start.
pub(crate) fn sweep_staged(prefix: &Path) -> Result<()> {
    for name in names_in(&notes_folder(prefix))? {
        let note = notes_folder(prefix).join(name);
        let staged = PathBuf::from(OsString::from_vec(fs::read(&note).unwrap_or_default()));
        // Whatever a damaged note says: nothing but a staged file goes.
        if staged.file_name().and_then(|name| name.to_str()).is_some_and(is_staged_name) {
            remove_file_if_there(&staged)?;
        }
        remove_file_if_there(&note)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn publishing_replaces_keeps_the_mode_and_leaves_no_staged_file() {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (dir.path().join("cached"), dir.path().join("a/b/file"));
        fs::write(&source, "new").unwrap();
        fs::set_permissions(&source, fs::Permissions::from_mode(0o640)).unwrap();
        let meta = publish_file(dir.path(), &source, &target).unwrap();
        assert_eq!((meta.size, meta.crc32), (3, Some(crc32(b"new"))));
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn wrong_content_is_refused_and_the_target_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (dir.path().join("cached"), dir.path().join("file"));
        fs::write(&source, "new").unwrap();
        fs::write(&target, "old").unwrap();
        let expected = FileMeta { size: 3, crc32: Some(1), ..FileMeta::default() };
        assert!(stage(&source, &target, 7, Some(&expected), CopyOptions::default()).is_err());
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("real")).unwrap();
        fs::write(dir.path().join("real/file"), "old").unwrap();
        symlink("real/file", dir.path().join("link")).unwrap();
        fs::write(dir.path().join("cached"), "new").unwrap();
        publish_file(dir.path(), &dir.path().join("cached"), &dir.path().join("link")).unwrap();
        assert_eq!(fs::read(dir.path().join("real/file")).unwrap(), b"old");
        assert_eq!(fs::read(dir.path().join("link")).unwrap(), b"new");
        assert!(fs::symlink_metadata(dir.path().join("link")).unwrap().is_file());
        // A link to a directory is replaced, too.
        symlink("real", dir.path().join("folder")).unwrap();
        publish_file(dir.path(), &dir.path().join("cached"), &dir.path().join("folder")).unwrap();
        assert_eq!(fs::read(dir.path().join("folder")).unwrap(), b"new");
        assert_eq!(names_in(&dir.path().join("real")).unwrap(), ["file"]);
    }

    #[test]
    fn what_a_crash_leaves_of_a_single_file_goes_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (dir.path().join("cached"), dir.path().join("a/file"));
        fs::write(&source, "new").unwrap();
        publish_file(dir.path(), &source, &target).unwrap();
        assert_eq!(names_in(&notes_folder(dir.path())).unwrap().len(), 0);
        // As a kill would leave it: neither renamed nor removed.
        StagedNote::leave(dir.path(), &target, 9, 0).unwrap();
        let staged = staged_path(&target, 9).unwrap();
        fs::write(&staged, "half").unwrap();
        fs::write(notes_folder(dir.path()).join("damaged"), target.as_os_str().as_bytes()).unwrap();
        sweep_staged(dir.path()).unwrap();
        assert_eq!(names_in(&dir.path().join("a")).unwrap(), ["file"]);
        assert_eq!(names_in(&notes_folder(dir.path())).unwrap().len(), 0);
    }
}
