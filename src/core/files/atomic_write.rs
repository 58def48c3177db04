//! Replaces a small file as a whole: a reader, or a crash at any instant, finds the old content or
//! the new one, never a mixture and never nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{replace, sync_dir};
use crate::error::{Error, Result};

/// Last part of the names of temporaries: `.<name>.<pid>-<count>.scrtmp`.
const TEMPORARY_SUFFIX: &str = ".scrtmp";

/// Tells whether a file name is that of a temporary, which a crash left behind if nobody writes it.
#[must_use]
pub fn is_temporary_name(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(TEMPORARY_SUFFIX)
}

/// Puts `bytes` into `path` durably: temporary in the same directory, fsync, rename, fsync of the
/// directory. A new file has mode 0600 (less by umask), an older one's mode is kept.
///
/// # Errors
/// If any step fails. Up to the rename the older file is untouched, and the temporary is removed.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_atomic(path, bytes)?;
    sync_dir(folder_of(path))
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Does what [`write_atomic`] does, but until the directory is synced, by whoever does that for
/// several files, a power cut may leave the older content.
///
/// # Errors
/// If any step fails; the older file is untouched, and the temporary is removed.
pub fn replace_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let Some(name) = path.file_name() else {
        return Err(Error::io("cannot write", path, ErrorKind::InvalidInput.into()));
    };
    let dir = folder_of(path);
    let temporary = dir.join(temporary_name(&name.to_string_lossy()));
    let written = write_and_sync(&temporary, bytes, path)
        .and_then(|()| replace(&temporary, path))
        .map_err(|error| Error::io("cannot write", path, error));
    if written.is_err() {
        // The first error is the one to report; a leftover is recognised by its name.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn temporary_name(name: &str) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // File systems limit names to 255 bytes; the temporary's begins with as much as fits.
    let keep = (0..=name.len().min(200)).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
    format!(".{}.{}-{count}{TEMPORARY_SUFFIX}", &name[..keep], std::process::id()).into()
}

fn write_and_sync(temporary: &Path, bytes: &[u8], replaces: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = match options.open(temporary) {
        // A process with our pid crashed here before: on this node, or on another one that shares
        // the directory and was lost. Two live ones cannot meet below a control directory; on the
        // prefix, writers hold the file's lock.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(temporary)?;
            options.open(temporary)?
        }
        opened => opened?,
    };
    file.write_all(bytes)?;
    if let Ok(metadata) = fs::symlink_metadata(replaces)
        && metadata.is_file()
    {
        file.set_permissions(metadata.permissions())?;
    }
    file.sync_all()
}

/// Reads a whole file; `None` if there is none.
///
/// # Errors
/// If it is there and cannot be read. A directory in its place is damage, [`Error::Corrupt`].
pub fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // Not a failure to read, which a second try might not have: the content is lost.
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            Err(Error::corrupt(path, "it is a directory"))
        }
        Err(error) => Err(Error::io("cannot read", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn replaces_keeps_the_mode_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.scr");
        write_atomic(&path, b"old").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!(read_optional(&path).unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(names(dir.path()), ["index.scr"]);
    }

    #[test]
    fn a_failure_leaves_no_temporary() {
        let dir = tempfile::tempdir().unwrap();
        let too_long = "x".repeat(300); // its temporary's name is not
        assert!(write_atomic(&dir.path().join(too_long), b"x").is_err());
        assert!(names(dir.path()).is_empty());
        assert!(write_atomic(&dir.path().join("none/file"), b"x").is_err());
    }

    #[test]
    fn a_directory_in_the_place_of_a_file_gives_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.scr");
        fs::create_dir(&path).unwrap();
        write_atomic(&path, b"x").unwrap();
        assert_eq!(read_optional(&path).unwrap().as_deref(), Some(&b"x"[..]));
    }

    #[test]
    fn temporaries_are_recognised_and_short_enough() {
        let name = temporary_name(&"\u{e9}".repeat(127)).into_os_string().into_string().unwrap();
        assert!(is_temporary_name(&name) && name.len() <= 255, "{name}");
        assert!(!is_temporary_name("index.scr"));
    }

    #[test]
    fn reading_what_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_optional(&dir.path().join("none")).unwrap(), None);
        assert!(read_optional(dir.path()).is_err());
    }
}
