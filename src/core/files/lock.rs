//! Locks between processes for files that have several writers (index, flush, halt, transfer).
//!
//! The lock is on a *separate* file, since an atomic write gives the guarded file a new inode and a
//! lock on the old one would guard nothing. Where the file system has no locks, a second file that
//! only one process can create stands in, with one message; it is taken over when it is stale.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::{open_ours, remove_file_if_there, remove_tree};
use crate::error::{Error, Result};
use crate::log::{self, messages};
use crate::system;

/// How long [`FileLock::acquire`] callers usually wait.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(5);

/// A stand-in lock this old belongs to a process that is gone: holders need it for one read and one
/// write of a small file.
const STAND_IN_STALE: Duration = Duration::from_secs(60);

/// A lock that is held until the value is dropped.
#[derive(Debug)]
pub struct FileLock {
    file: Option<File>,
    stand_in: Option<PathBuf>,
}

impl FileLock {
    /// Takes the lock that guards `guarded`: the file `<guarded>.lock` beside it, which stays.
    ///
    /// # Errors
    /// If the lock file cannot be created, or another process holds it longer than `wait_max`.
    pub fn acquire(guarded: &Path, wait_max: Duration) -> Result<FileLock> {
        let path = with_suffix(guarded, ".lock");
        let deadline = Instant::now() + wait_max;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = match open_ours(&path, &mut options) {
            // Damage, or planted; nobody can hold a lock on it.
            Err(error) if is_no_file(&error) => {
                remove_tree(&path)?;
                open_ours(&path, &mut options)
            }
            opened => opened,
        };
        let file = file.map_err(|error| Error::io("cannot open the lock file", &path, error))?;
        loop {
            match system::try_lock(&file) {
                Ok(true) => return Ok(FileLock { file: Some(file), stand_in: None }),
                Ok(false) => wait(&path, deadline)?,
                Err(error) if no_locks_here(&error) => {
                    log::warn_once_for(
                        messages::NO_LOCKS,
                        &path.display().to_string(),
                        format_args!(
                            "the file system of {} has no locks ({error}); \
                             a lock made of a file is used instead",
                            path.display()
                        ),
                    );
                    return Self::stand_in(guarded, deadline);
                }
                Err(error) => return Err(Error::io("cannot lock", &path, error)),
            }
        }
    }

    /// The way without locks: whoever creates the file holds the lock.
    fn stand_in(guarded: &Path, deadline: Instant) -> Result<FileLock> {
        let path = with_suffix(guarded, ".lock.held");
        let mut create = OpenOptions::new();
        create.write(true).create_new(true).mode(0o600);
        loop {
            match create.open(&path) {
                Ok(mut file) => {
                    // For a person who looks for the holder; the lock holds without it.
                    let _ = writeln!(file, "{} pid {}", system::hostname(), std::process::id());
                    return Ok(FileLock { file: None, stand_in: Some(path) });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if is_stale(&path) {
                        remove_file_if_there(&path)?;
                    } else {
                        wait(&path, deadline)?;
                    }
                }
                Err(error) => return Err(Error::io("cannot create the lock file", &path, error)),
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Closing alone would leave the lock with a child that was forked meanwhile.
            system::unlock(file);
        }
        if let Some(path) = &self.stand_in {
            // If it stays, it is stale after a minute.
            let _ = remove_file_if_there(path);
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn wait(path: &Path, deadline: Instant) -> Result<()> {
    if Instant::now() >= deadline {
        return Err(Error::io("another process holds the lock", path, ErrorKind::TimedOut.into()));
    }
    std::thread::sleep(RETRY);
    Ok(())
}

fn no_locks_here(error: &std::io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL)
    )
}

fn is_stale(path: &Path) -> bool {
    let age = path
        .metadata()
        .and_then(|metadata| metadata.modified())
        .map(|modified| SystemTime::now().duration_since(modified));
    matches!(age, Ok(Ok(age)) if age > STAND_IN_STALE)
}

/// Whether a directory or a link is in the place of the file.
fn is_no_file(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::IsADirectory || error.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Duration = Duration::ZERO;

    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let guarded = dir.path().join("index.scr");
        let held = FileLock::acquire(&guarded, NO_WAIT).unwrap();
        let refused = FileLock::acquire(&guarded, NO_WAIT).unwrap_err().to_string();
        assert!(refused.contains("index.scr.lock"), "{refused}");
        // Stands for a child that was forked while the lock was held.
        let inherited = held.file.as_ref().unwrap().try_clone().unwrap();
        drop(held);
        FileLock::acquire(&guarded, NO_WAIT).unwrap();
        drop(inherited);
    }

    #[test]
    fn the_stand_in_excludes_and_goes_stale() {
        let dir = tempfile::tempdir().unwrap();
        let guarded = dir.path().join("index.scr");
        let held = FileLock::stand_in(&guarded, Instant::now()).unwrap();
        assert!(FileLock::stand_in(&guarded, Instant::now()).is_err());
        drop(held);
        let abandoned = dir.path().join("index.scr.lock.held");
        let file = File::create(&abandoned).unwrap();
        file.set_modified(SystemTime::now() - 2 * STAND_IN_STALE).unwrap();
        FileLock::stand_in(&guarded, Instant::now()).unwrap();
        assert!(!abandoned.exists());
    }
}
