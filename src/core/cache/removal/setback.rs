//! Why the cache could not take a file, and what a failed open means.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::machine::Reason;
use crate::system::space;

/// Why the cache could not take a file.
#[derive(Debug, Clone)]
pub enum Setback {
    /// The store in this directory has no room.
    NoRoom(PathBuf),
    /// The store in this directory has no inodes.
    NoInodes(PathBuf),
    /// Something else, in words.
    Failed(String),
}

impl Setback {
    /// Says that no file can be made or written in the store in this directory.
    pub fn full(place: &Path) -> Setback {
        match space(place) {
            Ok(space) if space.free_files == 0 => Setback::NoInodes(place.to_path_buf()),
            _ => Setback::NoRoom(place.to_path_buf()),
        }
    }

    /// Says that the store in the directory `place` met `error`.
    pub fn of(place: &Path, error: &Error) -> Setback {
        match error.is_no_room() {
            true => Setback::full(place),
            false => Setback::Failed(error.to_string()),
        }
    }

    /// Returns why a file is on the prefix then.
    pub fn reason(&self) -> Reason {
        match self {
            Setback::NoRoom(_) | Setback::NoInodes(_) => Reason::NoRoom,
            Setback::Failed(_) => Reason::StoreFailed,
        }
    }
}

/// The first setback of this rank, and whether one has been told.
#[derive(Debug, Default)]
pub struct Setbacks {
    met: Mutex<Option<Setback>>,
    told: AtomicBool,
}

impl Setbacks {
    /// Notes that this rank has met one; only the first counts.
    pub fn met(&self, setback: Setback) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.get_or_insert(setback);
    }

    /// Tells whether one has been told.
    pub fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Notes that one has been told.
    pub fn tell(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// Returns the first, if there was one.
    pub fn first(&self) -> Option<Setback> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tells whether open(2) says with `errno` what is true of the file or of the caller, wherever the
/// file lies.
pub fn is_about_the_file(errno: i32) -> bool {
    matches!(
        errno,
        libc::EACCES
            | libc::EEXIST
            | libc::EFAULT
            | libc::EINTR
            | libc::EINVAL
            | libc::EISDIR
            | libc::ELOOP
            | libc::ENAMETOOLONG
            | libc::ENOENT
            | libc::ENOTDIR
            | libc::EOVERFLOW
            | libc::EPERM
            | libc::ETXTBSY
    )
}

/// Tells whether a failed open with `errno` leaves a checkpoint without a file that was to be in
/// it.
pub fn leaves_a_gap(errno: i32) -> bool {
    !matches!(errno, libc::EEXIST | libc::EISDIR | libc::ELOOP | libc::ENOTDIR)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn only_the_first_counts_and_its_reason_goes_with_the_file() {
        let error = |code| Error::io("cannot write", "f", io::Error::from_raw_os_error(code));
        let setbacks = Setbacks::default();
        assert!(setbacks.first().is_none() && !setbacks.is_told());
        let dir = tempfile::tempdir().unwrap();
        for (code, reason) in [(libc::EIO, Reason::StoreFailed), (libc::ENOSPC, Reason::NoRoom)] {
            let setback = Setback::of(dir.path(), &error(code));
            assert_eq!(setback.reason(), reason);
            setbacks.met(setback);
        }
        assert!(matches!(setbacks.first(), Some(Setback::Failed(why)) if why.contains("cannot")));
        setbacks.tell();
        assert!(setbacks.is_told());
    }

    #[test]
    fn what_is_true_of_a_file_everywhere_is_no_fault_of_the_store() {
        for (errno, of_the_file, a_gap) in [
            (libc::ENOENT, true, true),
            (libc::EEXIST, true, false),
            (libc::EISDIR, true, false),
            (libc::ENOSPC, false, true),
            (libc::EIO, false, true),
        ] {
            let found = (is_about_the_file(errno), leaves_a_gap(errno));
            assert_eq!(found, (of_the_file, a_gap), "{errno}");
        }
    }
}
