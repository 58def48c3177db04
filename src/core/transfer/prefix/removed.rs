//! What somebody has removed from the prefix: he goes back, or begins afresh, so it is his word for
//! what is newer, too. What the program removes itself is marked in `<prefix>/.scr/removed/` before
//! the first file of a checkpoint goes.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::paths::{change_index, folder, own_folder, read_index};
use crate::cache::disk::names_in;
use crate::error::{Error, Result};
use crate::files::{create_dirs, join_relative, remove_file_if_there};
use crate::records::{CourseTurn, RecordKey, Summary};

/// Finds out when somebody has removed what lay at `name`, by the next directory above, in
/// nanoseconds since 1970. `None`: it is there, or nothing is sure.
pub fn missing_since(prefix: &Path, name: &str) -> Option<u64> {
    let path = join_relative(prefix, name).ok()?;
    for (above, at) in path.ancestors().take_while(|at| at.starts_with(prefix)).enumerate() {
        match at.symlink_metadata() {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Ok(_) if above > 0 => {
                let found = at.metadata().ok().filter(fs::Metadata::is_dir)?;
                let since = found.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH);
                return u64::try_from(since.ok()?.as_nanos()).ok();
            }
            _ => return None,
        }
    }
    None
}

/// Does the same for dataset `id`, if all files are missing that are its own.
pub fn removed_since(prefix: &Path, id: u64) -> Option<u64> {
    let summary = Summary::read_from(&folder(prefix, id)).ok()??;
    let key = &summary.dataset.key;
    let own = summary.files.values().flatten().filter(|file| !key.is_shared_name(&file.name));
    let since: Option<Vec<u64>> = own.map(|file| missing_since(prefix, &file.name)).collect();
    since?.into_iter().max()
}

fn mark(prefix: &Path, series: &str, id: &str) -> PathBuf {
    let key = RecordKey { series: series.to_owned(), id: id.to_owned(), generation: 0 };
    marks(prefix).join(key.directory_name())
}

fn marks(prefix: &Path) -> PathBuf {
    own_folder(prefix).join("removed")
}

pub fn mark_removed(prefix: &Path, series: &str, id: &str) -> Result<()> {
    let path = mark(prefix, series, id);
    let make = || File::options().create(true).append(true).open(&path).map(drop);
    let made = match make() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create_dirs(&marks(prefix), 0o777)?;
            make()
        }
        made => made,
    };
    made.map_err(|error| Error::io("cannot note a removal at", path, error))
}

pub fn unmark_removed(prefix: &Path, series: &str, id: &str) {
    // One that stays keeps somebody's word from being taken for what it is, no more.
    let _ = remove_file_if_there(&mark(prefix, series, id));
}

pub fn is_marked_removed(prefix: &Path, series: &str, id: &str) -> bool {
    // A mark that cannot be looked at may be there.
    !matches!(mark(prefix, series, id).try_exists(), Ok(false))
}

pub fn sweep_marks<'a>(prefix: &Path, known: impl Iterator<Item = (&'a str, &'a str)>) {
    let folder = marks(prefix);
    let known: Vec<PathBuf> = known.map(|(series, id)| mark(prefix, series, id)).collect();
    let names = names_in(&folder).unwrap_or_default();
    let paths = names.iter().map(|name| folder.join(name));
    paths.filter(|path| !known.contains(path)).for_each(|path| drop(fs::remove_file(path)));
}

/// Notes in the index what only caches have of a series and somebody's removal has left.
pub fn note_removal(prefix: &Path, series: &str, left: Option<CourseTurn>) -> Result<()> {
    change_index(prefix, |index| match left {
        Some(left) => drop(index.removed.insert(series.to_owned(), left)),
        None => drop(index.removed.remove(series)),
    })
}

pub fn removals(prefix: &Path) -> Result<Vec<(String, CourseTurn)>> {
    Ok(read_index(prefix)?.removed.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_for_sure_is_told_from_what_is_out_of_reach() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        let is_missing = |name: &str| missing_since(prefix, name).is_some();
        fs::create_dir_all(prefix.join("ckpt/step_5")).unwrap();
        fs::write(prefix.join("ckpt/step_5/there"), b"").unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", prefix.join("away")).unwrap();
        std::os::unix::fs::symlink("ckpt", prefix.join("link")).unwrap();
        let names = ["ckpt/step_5/there", "ckpt/step_5/a", "ckpt/step_9/a", "away/a", "link/x/a"];
        assert_eq!(names.map(is_missing), [false, true, true, false, true]);
        assert_eq!(["gone/a/b", "away", "../x"].map(is_missing), [true, false, false]);
    }

    #[test]
    fn marks_stay_as_long_as_their_checkpoint_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let is_marked = |id| is_marked_removed(dir.path(), "ckpt", id);
        for id in ["5", "10", ""] {
            mark_removed(dir.path(), "ckpt", id).unwrap();
        }
        assert!(is_marked("5") && is_marked("") && !is_marked("6"));
        sweep_marks(dir.path(), [("ckpt", "10"), ("ckpt", "")].into_iter());
        assert_eq!(["5", "10", ""].map(is_marked), [false, true, true]);
        unmark_removed(dir.path(), "ckpt", "10");
        assert!(!is_marked("10"));
    }
}
