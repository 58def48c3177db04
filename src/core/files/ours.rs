//! Our own files where others may have put something in their place: no link is followed, and
//! nothing is waited for (a FIFO has nobody at its other end).

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::system::user_id;

/// Without these, to open a FIFO or a terminal would be to wait for it, or to own it.
const CAREFUL: i32 = libc::O_NONBLOCK | libc::O_NOCTTY;

/// Opens a file of ours as `options` say, which do not cut it: a regular file of this user's that
/// has no other name.
///
/// # Errors
/// It cannot be opened, or is something else.
pub fn open_ours(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = open_regular(path, options.custom_flags(CAREFUL | libc::O_NOFOLLOW))?;
    let found = file.metadata()?;
    if found.uid() != user_id() {
        let what = format!("it belongs to uid {}", found.uid());
        return Err(io::Error::new(ErrorKind::PermissionDenied, what));
    }
    if found.nlink() > 1 {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it has another name"));
    }
    Ok(file)
}

/// Opens a file for reading that is ours, or that its owner lets us read.
///
/// # Errors
/// It cannot be opened, is a link or no regular file.
pub fn read_ours(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true).custom_flags(CAREFUL | libc::O_NOFOLLOW))
}

/// Opens a file for reading that a person has named, maybe by a link.
///
/// # Errors
/// It cannot be opened, or is no regular file.
pub fn read_regular(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true).custom_flags(CAREFUL))
}

/// Writes a file of ours, not durably and not at once.
///
/// # Errors
/// It cannot be opened, written, or is something else.
pub fn write_ours(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = open_ours(path, options.write(true).create(true).truncate(false))?;
    file.set_len(0)?;
    file.write_all(bytes)
}

fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.open(path)?;
    match file.metadata()?.file_type() {
        kind if kind.is_dir() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        kind if kind.is_file() => Ok(file),
        _ => Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_others_have_planted_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, path) = (dir.path().join("victim"), dir.path().join("lease"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        assert!(write_ours(&path, b"ours").is_err() && read_ours(&path).is_err());
        assert!(read_regular(&path).is_ok(), "a person may name a link");
        fs::remove_file(&path).unwrap();
        fs::hard_link(&victim, &path).unwrap();
        assert!(write_ours(&path, b"ours").is_err());
        fs::remove_file(&path).unwrap();
        symlink(dir.path().join("none"), &path).unwrap();
        assert!(write_ours(&path, b"ours").is_err() && !dir.path().join("none").exists());
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        write_ours(&path, b"longer than").unwrap();
        write_ours(&path, b"ours").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours");
    }

    #[test]
    fn nothing_waits_for_the_other_end_of_a_fifo() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        for opened in [read_ours(&path), read_regular(&path)] {
            assert!(opened.unwrap_err().to_string().contains("regular"));
        }
        assert!(write_ours(&path, b"x").is_err());
        assert!(read_regular(dir.path()).unwrap_err().to_string().contains("directory"));
    }
}
