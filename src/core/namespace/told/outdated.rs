//! A file in whose place a new one is made.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use crate::files::StandIn;

/// Between two looks whether somebody else has removed it.
const TURN_PAUSE: Duration = Duration::from_millis(5);

/// The older file is known by more than its name: what another rank has made there since stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outdated {
    path: PathBuf,
    look: Traits,
}

/// Device, inode, bytes, seconds and nanoseconds of the last change: a new file may get the inode
/// of one that has gone.
type Traits = [u64; 5];

impl Outdated {
    /// Returns `None` if nothing is there.
    pub fn at(path: PathBuf) -> Option<Outdated> {
        let look = look(&path.symlink_metadata().ok()?);
        Some(Outdated { path, look })
    }

    #[cfg(test)]
    pub(super) fn new(path: PathBuf, look: Traits) -> Outdated {
        Outdated { path, look }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it; of several processes that do so, one at a time has the file `lock`. `enter` is
    /// what its thread does first.
    ///
    /// # Errors
    /// The lock cannot be made, or the file not removed.
    pub fn remove(&self, lock: &Path, enter: impl Fn() + Clone + Send + 'static) -> Result<()> {
        while self.is_there() {
            match StandIn::take(lock, "a rank", enter.clone())? {
                Ok(_turn) if self.is_there() => {
                    return match fs::remove_file(&self.path) {
                        Err(e) if e.kind() != ErrorKind::NotFound => {
                            Err(Error::io("cannot delete", &self.path, e))
                        }
                        _ => Ok(()),
                    };
                }
                Ok(_) => {}
                Err(_another) => std::thread::sleep(TURN_PAUSE),
            }
        }
        Ok(())
    }

    fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok_and(|found| look(&found) == self.look)
    }

    pub(super) fn put(&self, out: &mut Writer) {
        out.counted(self.path.as_os_str().as_bytes());
        for word in self.look {
            out.word(word);
        }
    }

    pub(super) fn take(from: &mut Reader<'_>) -> Option<Outdated> {
        let path = PathBuf::from(OsStr::from_bytes(from.counted()?));
        let mut look = [0; 5];
        for word in &mut look {
            *word = from.word()?;
        }
        Some(Outdated { path, look })
    }
}

fn look(found: &Metadata) -> Traits {
    let (seconds, nanoseconds) = (found.mtime() as u64, found.mtime_nsec() as u64);
    [found.dev(), found.ino(), found.len(), seconds, nanoseconds]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outdated_file_goes_and_what_is_made_in_its_place_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [path, lock] = ["file", "lock"].map(|name| dir.path().join(name));
        assert_eq!(Outdated::at(path.clone()), None);
        std::fs::write(&path, "old").unwrap();
        let old = Outdated::at(path.clone()).unwrap();
        old.remove(&lock, || {}).unwrap();
        assert!(!path.exists() && !lock.exists());
        std::fs::write(&path, "new").unwrap();
        old.remove(&lock, || {}).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}
