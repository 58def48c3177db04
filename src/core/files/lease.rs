//! Locks that keep a second live launch off the same prefix and the same node directories.
//!
//! Both are locks of the kernel on a file that stays: they end with the process that holds them, so
//! a dead launch never blocks the next one. The text in the file is for the message only. Where the
//! file system has no locks, a file beside it stands in (`files/stand_in.rs`).

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::stand_in::{self, StandIn};
use super::{open_ours, read_ours};
use crate::error::{Error, Result, again};
use crate::log;
use crate::system::{is_locked, try_lock};

/// How long a launch waits for the last one's processes to be gone.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Between two attempts.
const RETRY: Duration = Duration::from_millis(20);

/// A held lock; dropped with the process.
#[derive(Debug)]
pub struct Lease {
    _file: File,
    _stand_in: Option<StandIn>,
}

/// The outcome of [`take`].
#[derive(Debug)]
pub enum Taken {
    /// It is ours.
    Ours(Lease),
    /// Another live process holds it; the text says which.
    Busy(String),
}

/// Takes the lock on `path` (made if need be), waiting up to `patience` for a launch that is
/// just dying.
/// `holder` is written into the file: host, process, time. `enter_thread` is called first on a
/// thread that a stand-in needs.
///
/// # Errors
/// The file cannot be made.
pub fn take(
    path: &Path,
    holder: &str,
    patience: Duration,
    enter_thread: impl Fn() + Clone + Send + 'static,
) -> Result<Taken> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = again(|| {
        open_ours(path, &mut options.clone()).map_err(|e| Error::io("cannot write", path, e))
    })?;
    let start = Instant::now();
    loop {
        match try_lock(&file) {
            Ok(true) => break,
            Ok(false) if start.elapsed() < patience => {
                std::thread::sleep(RETRY);
            }
            Ok(false) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Ok(Taken::Busy(text.trim().to_string()));
            }
            Err(error) => {
                log::message(1, format_args!("{} cannot be locked: {error}", path.display()));
                return stand_in(path, file, holder, patience, enter_thread);
            }
        }
    }
    // It is ours without the text: the next one could only not say whose it is.
    let _ = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(holder.as_bytes()));
    Ok(Taken::Ours(Lease { _file: file, _stand_in: None }))
}

/// Tells who holds the lease `path`, without taking it; `None`: nobody.
///
/// # Errors
/// The file cannot be read: it is not this user's, perhaps.
pub fn holder(path: &Path) -> Result<Option<String>> {
    let mut file = match read_ours(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("cannot read", path, error)),
    };
    match is_locked(&file) {
        Ok(true) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            Ok(Some(text.trim().to_owned()))
        }
        // Free, or the file system has no locks.
        Ok(false) | Err(_) => stand_in::holder(&path.with_extension("held")),
    }
}

/// The way without locks.
fn stand_in(
    path: &Path,
    file: File,
    holder: &str,
    patience: Duration,
    enter_thread: impl Fn() + Clone + Send + 'static,
) -> Result<Taken> {
    let (path, start) = (path.with_extension("held"), Instant::now());
    loop {
        match StandIn::take(&path, holder, enter_thread.clone())? {
            Ok(lock) => return Ok(Taken::Ours(Lease { _file: file, _stand_in: Some(lock) })),
            Err(_) if start.elapsed() < patience => std::thread::sleep(RETRY),
            Err(other) => return Ok(Taken::Busy(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle() {}

    fn take(path: &Path, holder: &str, patience: Duration) -> Result<Taken> {
        super::take(path, holder, patience, idle)
    }

    #[test]
    fn without_locks_it_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease");
        let stand_in = |holder| {
            let file = File::create(&path).unwrap();
            super::stand_in(&path, file, holder, Duration::ZERO, idle).unwrap()
        };
        let Taken::Ours(first) = stand_in("node1 17") else { panic!() };
        let Taken::Busy(holder) = stand_in("node2 18") else { panic!() };
        assert_eq!(holder, "node1 17");
        assert_eq!(super::holder(&path).unwrap(), Some("node1 17".to_owned()));
        drop(first);
        assert_eq!(super::holder(&path).unwrap(), None);
        assert!(matches!(stand_in("node2 18"), Taken::Ours(_)));
    }

    #[test]
    fn a_held_lease_is_refused_by_name_and_a_dropped_one_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease");
        let Taken::Ours(first) = take(&path, "node1 17", Duration::ZERO).unwrap() else { panic!() };
        let Taken::Busy(holder) = take(&path, "node2 18", Duration::ZERO).unwrap() else {
            panic!()
        };
        assert_eq!(holder, "node1 17");
        assert_eq!(super::holder(&path).unwrap(), Some("node1 17".to_owned()));
        drop(first);
        assert_eq!(super::holder(&path).unwrap(), None);
        assert!(matches!(take(&path, "node2 18", Duration::ZERO).unwrap(), Taken::Ours(_)));
    }
}
