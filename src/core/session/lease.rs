//! Locks that keep a second live launch off the same prefix and the same node directories.
//!
//! Both are locks of the kernel on a file that stays: they end with the process that holds them, so
//! a dead launch never blocks the next one. The text in the file is for the message only.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, Result, again};
use crate::system::try_lock;

/// How long a launch waits for the last one's processes to be gone.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// A held lock; dropped with the process.
#[derive(Debug)]
pub struct Lease {
    _file: File,
}

/// The outcome of [`take`].
#[derive(Debug)]
pub enum Taken {
    /// It is ours.
    Ours(Lease),
    /// Another live process holds it; the text says which.
    Busy(String),
    /// The file system has no locks: nobody can be kept off, the launch goes on, and says so.
    Unsupported(PathBuf),
}

/// Takes the lock on `path` (made if need be), waiting up to `patience` for a launch that is
/// just dying.
/// `holder` is written into the file: host, process, time.
///
/// # Errors
/// The file cannot be made.
pub fn take(path: &Path, holder: &str, patience: Duration) -> Result<Taken> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = again(|| options.open(path).map_err(|e| Error::io("cannot write", path, e)))?;
    let start = Instant::now();
    loop {
        match try_lock(&file) {
            Ok(true) => break,
            Ok(false) if start.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(false) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Ok(Taken::Busy(text.trim().to_string()));
            }
            Err(_) => return Ok(Taken::Unsupported(path.to_path_buf())),
        }
    }
    // It is ours without the text: the next one could only not say whose it is.
    let _ = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(holder.as_bytes()));
    Ok(Taken::Ours(Lease { _file: file }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lease_is_refused_by_name_and_a_dropped_one_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lease");
        let Taken::Ours(first) = take(&path, "node1 17", Duration::ZERO).unwrap() else { panic!() };
        let Taken::Busy(holder) = take(&path, "node2 18", Duration::ZERO).unwrap() else {
            panic!()
        };
        assert_eq!(holder, "node1 17");
        drop(first);
        assert!(matches!(take(&path, "node2 18", Duration::ZERO).unwrap(), Taken::Ours(_)));
    }
}
