//! One file on its way to the prefix: staged beside its target, synced, renamed. In the target's
//! own directory ownership, ACLs, striping and quotas come out as if the program had created the
//! file, and the rename cannot cross file systems.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::parts::{finish_whole, write_part};
use super::staged::{is_staged_name, staged_path};
use crate::error::{Error, Result};
use crate::files::{
    CopyOptions, Together, copy_unsynced, create_dirs, join_relative, remove_file_if_there,
};
use crate::records::FileMeta;

/// A smaller file becomes durable together with others.
const SMALL_BYTES: u64 = 1 << 20;

/// Copies `source` into the staged file of `target`, durably, and checks it against `expected`.
/// After an error nothing is left, unless another copy can go on from what is durable.
pub(crate) fn stage(
    source: &Path,
    target: &Path,
    epoch: u64,
    expected: Option<&FileMeta>,
    how: CopyOptions<'_>,
) -> Result<FileMeta> {
    if let Some(parent) = target.parent() {
        create_dirs(parent, 0o777)?;
    }
    let resumable = how.durable.is_some();
    let (meta, file) = stage_unsynced(source, target, epoch, expected, how)?;
    file.sync_all().map(|()| meta).map_err(|error| {
        if !resumable {
            let _ = remove_staged(target, epoch);
        }
        Error::io("cannot sync", target, error)
    })
}

fn stage_unsynced(
    source: &Path,
    target: &Path,
    epoch: u64,
    expected: Option<&FileMeta>,
    how: CopyOptions<'_>,
) -> Result<(FileMeta, File)> {
    let staged = staged_path(target, epoch)?;
    let resumable = how.durable.is_some();
    let outcome = copy_checked(source, &staged, expected, how);
    let goes_on = |error: &Error| resumable && !matches!(error, Error::Corrupt { .. });
    if outcome.as_ref().is_err_and(|error| !goes_on(error)) {
        // The copy's error is what a person needs.
        let _ = fs::remove_file(&staged);
    }
    outcome
}

/// Stages files one after another. Small ones become durable together, and so do new directories.
#[derive(Default)]
pub(crate) struct Stager {
    together: Together,
    waiting: Vec<(String, u64)>,
    durable: Vec<(String, u64)>,
}

impl Stager {
    /// Stages a file of the dataset in `dir`, or a part of one. Returns the checksum that counts on
    /// the prefix ([`FileMeta::prefix_checksum`]), if it was known or computed on the way.
    pub fn stage(
        &mut self,
        dir: &Path,
        prefix: &Path,
        epoch: u64,
        file: &FileMeta,
        how: CopyOptions<'_>,
    ) -> Result<Option<u32>> {
        let (source, target) = (dir.join(&file.name), join_relative(prefix, file.whole_name())?);
        if let Some(parent) = target.parent() {
            self.together.create_dirs(parent, 0o777)?;
        }
        let (found, copy) = match &file.part {
            Some(part) => write_part(dir, &staged_path(&target, epoch)?, file, part, how)?,
            None => {
                let (found, copy) = stage_unsynced(&source, &target, epoch, Some(file), how)?;
                (found.crc32, copy)
            }
        };
        let checksum = file.prefix_checksum().or(found);
        let one = (source.display().to_string(), file.size);
        if file.size >= SMALL_BYTES {
            copy.sync_all().map_err(|error| Error::io("cannot sync", &target, error))?;
            self.durable.push(one);
            return Ok(checksum);
        }
        self.waiting.push(one);
        if self.together.add(copy, &target)? {
            self.durable.append(&mut self.waiting);
        }
        Ok(checksum)
    }

    pub fn finish(&mut self) -> Result<()> {
        self.together.finish()?;
        self.durable.append(&mut self.waiting);
        Ok(())
    }

    pub fn take_durable(&mut self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.durable)
    }
}

fn copy_checked(
    source: &Path,
    staged: &Path,
    expected: Option<&FileMeta>,
    how: CopyOptions<'_>,
) -> Result<(FileMeta, File)> {
    let (pace, resumed, begin) = (how.pace, how.resume_at, Instant::now());
    let (copied, file) = copy_unsynced(source, staged, how)?;
    if let Some(pace) = pace {
        pace.note(copied.bytes.saturating_sub(resumed), begin.elapsed());
    }
    let name = expected.map_or("", |meta| &meta.name);
    let found = crate::cache::disk::describe(staged, name)?;
    let found = FileMeta { crc32: copied.crc32, ..found };
    let differs = |expected: &FileMeta| {
        let known = expected.crc32.is_some() && found.crc32.is_some();
        expected.size != found.size || known && expected.crc32 != found.crc32
    };
    match expected.is_some_and(differs) {
        true => Err(Error::corrupt(source, "it is not what it was when the dataset was sealed")),
        false => Ok((found, file)),
    }
}

/// Gives the staged file of `meta` its final name; a repeated completion, or who has another part
/// of it, finds that done.
pub(crate) fn publish_staged_of(prefix: &Path, meta: &FileMeta, epoch: u64) -> Result<PathBuf> {
    let target = join_relative(prefix, meta.whole_name())?;
    if meta.part.is_some() || meta.is_shared {
        finish_whole(&staged_path(&target, epoch)?, meta)?;
    }
    publish_staged(&target, epoch)
}

/// Gives the staged file its final name; a repeated completion finds that done. A symbolic link of
/// that name is replaced: a program that opens one writes to what it leads to by itself, which may
/// be somebody's input. The caller syncs the directory that is returned.
pub(crate) fn publish_staged(target: &Path, epoch: u64) -> Result<PathBuf> {
    let staged = staged_path(target, epoch)?;
    let dir = target.parent().unwrap_or(Path::new("/")).to_path_buf();
    match fs::rename(&staged, target) {
        Ok(()) => Ok(dir),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && target.is_file() => Ok(dir),
        Err(e) => Err(Error::io("cannot publish", target, e)),
    }
}

pub(crate) fn remove_staged(target: &Path, epoch: u64) -> Result<()> {
    remove_file_if_there(&staged_path(target, epoch)?)
}

/// Renames a directory without what a thread has staged there: nobody would look for it. `Err` is
/// what rename(2) says.
pub(crate) fn move_directory(from: &Path, to: &Path) -> std::result::Result<(), i32> {
    fs::rename(from, to).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?;
    // Now: before, a thread could stage something there again.
    remove_staged_below(to);
    Ok(())
}

/// Removes all that is staged below `dir`, as far as it can be removed.
pub fn remove_staged_below(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_staged_below(&entry.path());
        } else if entry.file_name().to_str().is_some_and(is_staged_name) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Durable;
    use crate::transfer::staged_name;

    #[test]
    fn what_is_stopped_goes_on_from_what_is_durable() {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (dir.path().join("source"), dir.path().join("target"));
        let content: Vec<u8> = (0..5000u32).map(|n| n as u8).collect();
        fs::write(&source, &content).unwrap();
        let staged = dir.path().join(staged_name("target", 7));
        let expected = crate::cache::disk::describe(&source, "target").unwrap();
        // Stops after some bytes; says how many were moved and what was noted.
        let copy = |expected: &FileMeta, resume_at, stop_at, notes: bool| {
            let (mut moved, mut noted) = (0, 0);
            let mut progress = |bytes| {
                moved += bytes;
                if moved < stop_at { Ok(()) } else { Err(Error::Stopped) }
            };
            let mut note = |bytes| {
                noted = bytes;
                Ok(())
            };
            let durable = notes.then_some(Durable { every_bytes: 1000, note: &mut note });
            let how = CopyOptions { buffer_bytes: 500, resume_at, durable, ..Default::default() };
            let how = CopyOptions { progress: Some(&mut progress), ..how };
            (stage(&source, &target, 7, Some(expected), how).is_ok(), moved, noted)
        };
        assert_eq!(copy(&expected, 0, 2500, true), (false, 2500, 2000));
        assert!(staged.exists());
        assert_eq!(copy(&expected, 2000, u64::MAX, true), (true, 3000, 5000));
        assert_eq!(fs::read(&staged).unwrap(), content);
        let other = FileMeta { size: 1, ..expected.clone() };
        assert!(!copy(&other, 0, u64::MAX, true).0 && !staged.exists(), "damaged");
        assert!(!copy(&expected, 0, 2500, false).0 && !staged.exists(), "nothing noted");
    }

    #[test]
    fn small_files_are_durable_when_all_are() {
        let dir = tempfile::tempdir().unwrap();
        let mut stager = Stager::default();
        let mut stage_one = |name: &str, bytes: u64| {
            let source = dir.path().join(name);
            File::create(&source).and_then(|file| file.set_len(bytes)).unwrap();
            let meta = crate::cache::disk::describe(&source, name).unwrap();
            stager
                .stage(dir.path(), &dir.path().join("to"), 7, &meta, CopyOptions::default())
                .unwrap();
            stager.take_durable()
        };
        assert_eq!(stage_one("small", 10), []);
        let source = |name: &str| dir.path().join(name).display().to_string();
        assert_eq!(stage_one("large", SMALL_BYTES), [(source("large"), SMALL_BYTES)]);
        let together: Vec<usize> = (0..200).map(|at| stage_one(&at.to_string(), 0).len()).collect();
        assert!(together.iter().all(|count| *count == 0 || *count > 50), "{together:?}");
        assert!(together.iter().sum::<usize>() > 100, "few are held open at a time");
        assert_eq!(stage_one("one more", 1), []);
        stager.finish().unwrap();
        assert_eq!(stager.take_durable().last(), Some(&(source("one more"), 1)));
    }

    #[test]
    fn what_is_staged_in_a_tree_goes_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (top, other) = (dir.path().join("top"), dir.path().join("other"));
        for folder in [&top.join("a"), &other] {
            fs::create_dir_all(folder).unwrap();
            for name in ["file", &staged_name("file", 7)] {
                fs::write(folder.join(name), "").unwrap();
            }
        }
        std::os::unix::fs::symlink(&other, top.join("link")).unwrap();
        remove_staged_below(&top);
        remove_staged_below(&top.join("missing"));
        let left = |dir: &Path| fs::read_dir(dir).unwrap().count();
        assert_eq!((left(&top.join("a")), left(&top), left(&other)), (1, 2, 2));
        assert!(top.join("a/file").exists());
    }
}
