//! Directories.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::error::{Error, Result};

/// Makes the names in `dir` durable. File systems that cannot fsync a directory are content to say
/// so (EINVAL); there is nothing better to do on them.
///
/// # Errors
/// If the directory cannot be opened, or its fsync fails.
pub fn sync_dir(dir: &Path) -> Result<()> {
    match open_dir(dir)?.sync_all() {
        Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Err(Error::io("cannot fsync the directory", dir, error))
        }
        _ => Ok(()),
    }
}

/// Opens a directory to sync it.
pub(super) fn open_dir(dir: &Path) -> Result<File> {
    File::open(dir).map_err(|error| Error::io("cannot open", dir, error))
}

/// Creates `dir` and its missing parents with `mode` (before umask), durably. One that is there
/// already is left as it is.
///
/// # Errors
/// If it cannot be created, or a file is in the way.
pub fn create_dirs(dir: &Path, mode: u32) -> Result<()> {
    make_dir(dir, mode, &mut sync_dir)
}

/// Does what [`create_dirs`] does; `named` makes durable what is new in its argument.
pub(super) fn make_dir(
    dir: &Path,
    mode: u32,
    named: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        make_dir(parent, mode, named)?;
    }
    match fs::DirBuilder::new().mode(mode).create(dir) {
        Ok(()) => named(parent.unwrap_or(Path::new("."))),
        // Another process of the node may have been faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(Error::io("cannot create the directory", dir, error)),
    }
}

/// Removes `path` with all that is below it; symbolic links are removed, never followed. It is no
/// error if it is not there.
///
/// # Errors
/// If something cannot be removed.
pub fn remove_tree(path: &Path) -> Result<()> {
    let is_dir = match path.symlink_metadata() {
        Ok(metadata) => metadata.is_dir(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("cannot remove", path, error)),
    };
    let removed = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    gone(removed, path)
}

/// Renames `from` to `to`, a name of ours or of a cached file; a directory that damage has put in
/// its place goes.
///
/// # Errors
/// If it cannot be renamed.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            fs::remove_dir_all(to)?;
            fs::rename(from, to)
        }
        renamed => renamed,
    }
}

/// Removes a file; it is no error if it is not there.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_file_if_there(path: &Path) -> Result<()> {
    gone(fs::remove_file(path), path)
}

fn gone(removed: io::Result<()>, path: &Path) -> Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::io("cannot remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Tells whether nothing but directories is in `dir`, all the way down; `false` if that cannot be
/// seen.
pub fn has_no_file(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    entries.into_iter().all(|entry| {
        entry.is_ok_and(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir()) && has_no_file(&entry.path())
        })
    })
}

/// Removes empty directories; what has got a file meanwhile stays.
pub fn remove_empty_dirs(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.for_each(|entry| remove_empty_dirs(&entry.path()));
    let _ = fs::remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remove_tree_leaves_the_target_of_a_link() {
        let root = tempfile::tempdir().unwrap();
        let (kept, tree) = (root.path().join("kept"), root.path().join("tree"));
        create_dirs(&kept.join("inside"), 0o700).unwrap();
        create_dirs(&tree.join("a/b"), 0o700).unwrap();
        fs::write(tree.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, tree.join("a/link")).unwrap();
        remove_tree(&tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(kept.join("inside").is_dir());
        assert!(!tree.exists());
        std::os::unix::fs::symlink(&kept, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(kept.join("inside").is_dir() && tree.symlink_metadata().is_err());
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        let error = create_dirs(&file.join("dir"), 0o700).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }

    #[test]
    fn only_a_tree_without_any_file_goes() {
        let base = tempfile::tempdir().unwrap();
        let (empty, used) = (base.path().join("empty"), base.path().join("used"));
        fs::create_dir_all(empty.join("a/b")).unwrap();
        fs::create_dir_all(used.join("a/b")).unwrap();
        fs::write(used.join("a/b/file"), "").unwrap();
        assert!(has_no_file(&empty) && !has_no_file(&used));
        assert!(!has_no_file(&base.path().join("none")));
        remove_empty_dirs(&empty);
        remove_empty_dirs(&used);
        assert!(!empty.exists() && used.join("a/b/file").exists());
    }
}
