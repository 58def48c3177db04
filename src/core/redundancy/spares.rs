//! Files of the dataset that a rank evicted last, kept for its next ones to be written over: those
//! of redundancy, and large ones that the program wrote from start to end.
//!
//! The pages of a new file have to be found and cleared, those of a removed one given back: on a
//! RAM disk that is three quarters of what writing costs. Of a file that is written over they are
//! there.
//!
//! Spares are worth nothing: whoever needs the room removes them, and so do the end and the next
//! start. Whoever takes one must write every byte of it, or old content would pass for new; the
//! writers' checksums on the way say whether that was so.

use std::cmp::Reverse;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::folder::DIRECTORY_MODE;
use crate::error::{Error, Result};
use crate::files::{create_dirs, join_relative, remove_tree};
use crate::records::FileMeta;

/// First part of the name of the folder, in the directory that the datasets lie in.
const FOLDER_PREFIX: &str = "scr.spare.";

/// Last part of the name of the one that is lent to the program, beside that folder.
const LENT: &str = ".lent";

/// Most files that are kept: a search for one must not take long.
const FILES_MAX: usize = 32;

/// The spares of one rank in one store.
pub struct Spares {
    dir: PathBuf,
}

impl Spares {
    /// Smaller files gain nothing.
    pub const BYTES_MIN: u64 = 1 << 20;

    /// Returns those for the redundancy files of rank `world_rank` in the directory `dataset`.
    #[must_use]
    pub fn beside(dataset: &Path, world_rank: usize) -> Self {
        let cache = dataset.parent().unwrap_or(dataset);
        Spares { dir: cache.join(format!("{FOLDER_PREFIX}{world_rank}")) }
    }

    /// Tells whether a name in a cache directory is that of a rank's spares.
    #[must_use]
    pub fn is_folder(name: &str) -> bool {
        name.starts_with(FOLDER_PREFIX)
    }

    /// Takes the large ones of `files` out of `dataset`. What was kept before goes.
    pub fn keep(&self, dataset: &Path, files: &[FileMeta]) -> Result<()> {
        self.clear()?;
        let mut large: Vec<_> = files.iter().filter(|file| file.size >= Self::BYTES_MIN).collect();
        large.sort_by_key(|file| Reverse(file.size));
        large.truncate(FILES_MAX);
        if !large.is_empty() {
            create_dirs(&self.dir, DIRECTORY_MODE)?;
        }
        for (number, file) in large.into_iter().enumerate() {
            let from = join_relative(dataset, &file.name)?;
            // Under a second name it may still be of use to somebody.
            let only_name = |found: fs::Metadata| found.is_file() && found.nlink() == 1;
            if from.symlink_metadata().is_ok_and(only_name) {
                fs::rename(&from, self.dir.join(number.to_string()))
                    .map_err(|error| Error::io("cannot rename", &from, error))?;
            }
        }
        Ok(())
    }

    /// Creates the file `to`, of `size` bytes, for writing, in place of what may be there: of the
    /// spare that fits best, whose content it has until it is written, or else empty.
    pub(super) fn create(&self, to: &Path, size: u64) -> Result<File> {
        self.take(to, size).map_or_else(|| create_file(to, size), Ok)
    }

    fn take(&self, to: &Path, size: u64) -> Option<File> {
        if size < Self::BYTES_MIN {
            return None;
        }
        fs::rename(self.fitting(size)?.0, to).ok()?;
        let file = OpenOptions::new().write(true).open(to).ok()?;
        file.set_len(size).ok()?;
        Some(file)
    }

    /// Finds the smallest of those that are large enough, else the largest, and how long that is.
    fn fitting(&self, size: u64) -> Option<(PathBuf, u64)> {
        let spares = fs::read_dir(&self.dir).ok()?.flatten();
        let sized = spares.filter_map(|spare| Some((spare.path(), spare.metadata().ok()?.len())));
        sized.min_by_key(|(_, found)| (*found < size, found.abs_diff(size)))
    }

    /// Counts the bytes of those that nobody has taken.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let spares = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        spares.filter_map(|spare| Some(spare.metadata().ok()?.len())).sum()
    }

    /// Takes one out for a file of the program of about `size` bytes: `open` opens it to write, or
    /// has no use for it. It lies where no one looks for spares until it gets that file's name; if
    /// it never does, the next one takes its place there.
    pub fn lend<T>(&self, size: u64, open: impl FnOnce(&Path) -> Option<T>) -> Option<T> {
        let (spare, found) = self.fitting(size)?;
        let opened = if found >= size / 2 { open(&spare)? } else { return None };
        fs::rename(spare, self.lent()).ok().map(|()| opened)
    }

    fn lent(&self) -> PathBuf {
        let mut name = self.dir.clone().into_os_string();
        name.push(LENT);
        name.into()
    }

    /// Gives back the room of all, also of one that was lent: the program writes no more.
    pub fn end(&self) -> Result<()> {
        self.clear().and(remove_tree(&self.lent()))
    }

    /// Gives their room back.
    pub fn clear(&self) -> Result<()> {
        remove_tree(&self.dir)
    }
}

/// Creates an empty file of `size` bytes for writing, in place of what may be there.
pub(super) fn create_file(to: &Path, size: u64) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(to)
        .and_then(|file| file.set_len(size).map(|()| file))
        .map_err(|error| Error::io("cannot create", to, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const MIB: u64 = 1 << 20;

    fn make(dir: &Path, name: &str, size: u64) -> FileMeta {
        fs::write(dir.join(name), vec![7; size as usize]).unwrap();
        FileMeta { name: name.into(), size, ..FileMeta::default() }
    }

    fn cache() -> (tempfile::TempDir, PathBuf, Spares) {
        let cache = tempfile::tempdir().unwrap();
        let dataset = cache.path().join("scr.dataset.3");
        fs::create_dir(&dataset).unwrap();
        let spares = Spares::beside(&dataset, 5);
        (cache, dataset, spares)
    }

    #[test]
    fn the_spare_that_fits_best_is_written_over() {
        let (cache, dataset, spares) = cache();
        let to = cache.path().join("next");
        assert!(spares.take(&to, 2 * MIB).is_none());

        let sizes = [MIB - 1, 2 * MIB, 5 * MIB, 3 * MIB];
        let files: Vec<_> =
            (0..).zip(sizes).map(|(n, s)| make(&dataset, &format!("{n}"), s)).collect();
        let inode = |path: &Path| path.metadata().unwrap().ino();
        let inodes: Vec<_> = files.iter().map(|file| inode(&dataset.join(&file.name))).collect();
        spares.keep(&dataset, &files).unwrap();
        assert_eq!(fs::read_dir(&dataset).unwrap().count(), 1, "the small one stays");

        for (wanted, taken) in [(MIB + 1, 1), (9 * MIB, 2)] {
            spares.take(&to, wanted).unwrap().write_all(b"new").unwrap();
            assert_eq!((inode(&to), to.metadata().unwrap().len()), (inodes[taken], wanted));
        }
        assert!(spares.take(&to, MIB - 1).is_none(), "not worth it");
        spares.clear().unwrap();
        assert!(spares.take(&to, MIB).is_none());
        spares.clear().unwrap();
    }

    #[test]
    fn one_is_lent_where_no_one_else_finds_it() {
        let (cache, dataset, spares) = cache();
        spares.keep(&dataset, &[make(&dataset, "large", 3 * MIB)]).unwrap();
        assert_eq!(spares.bytes(), 3 * MIB);
        assert!(spares.lend(7 * MIB, |_| Some(())).is_none(), "much too short");
        assert!(spares.lend(3 * MIB, |_| None::<()>).is_none());
        assert!(spares.lend(4 * MIB, |found| fs::read(found).ok()).is_some());
        let lent = cache.path().join("scr.spare.5.lent");
        assert!(Spares::is_folder("scr.spare.5.lent") && lent.exists() && spares.bytes() == 0);
        spares.clear().unwrap();
        assert!(lent.exists(), "the program may write to it now");
        spares.end().unwrap();
        assert!(!lent.exists());
    }

    #[test]
    fn those_of_the_last_dataset_only_and_none_with_a_second_name() {
        let (cache, dataset, spares) = cache();
        spares.keep(&dataset, &[make(&dataset, "first", 3 * MIB)]).unwrap();
        let linked = make(&dataset, "linked", 2 * MIB);
        fs::hard_link(dataset.join("linked"), cache.path().join("second name")).unwrap();
        spares.keep(&dataset, &[linked, make(&dataset, "last", MIB)]).unwrap();
        let kept = fs::read_dir(cache.path().join("scr.spare.5")).unwrap();
        let sizes: Vec<_> = kept.map(|one| one.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes, [MIB]);
        assert!(dataset.join("linked").exists());
    }
}
