//! Why the cache could not take a file, and what a failed open means.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::machine::Reason;
use crate::system::space;

#[derive(Debug, Clone)]
pub enum Setback {
    NoRoom(PathBuf),
    NoInodes(PathBuf),
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

    pub fn of(place: &Path, error: &Error) -> Setback {
        match error.is_no_room() {
            true => Setback::full(place),
            false => Setback::Failed(error.to_string()),
        }
    }

    pub fn reason(&self) -> Reason {
        match self {
            Setback::NoRoom(_) | Setback::NoInodes(_) => Reason::NoRoom,
            Setback::Failed(_) => Reason::StoreFailed,
        }
    }
}

#[derive(Debug, Default)]
pub struct Setbacks {
    met: Mutex<Option<Setback>>,
    told: AtomicBool,
}

impl Setbacks {
    pub fn met(&self, setback: Setback) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.get_or_insert(setback);
    }

    pub fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    pub fn tell(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    pub fn first(&self) -> Option<Setback> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tells whether open(2) fails with `errno` for the file or the caller, wherever the file lies.
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

/// Tells whether a checkpoint lacks a file whose open has failed with `errno`.
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
