//! Calls on open files.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::system::errno::check;

/// Takes the exclusive lock (flock) of a file; `false` if another open file description has it.
pub fn try_lock(file: &File) -> io::Result<bool> {
    loop {
        // SAFETY: flock takes no pointer, and the descriptor is open as long as `file` lives.
        let result = check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) });
        match result {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Tells whether another open file description has the exclusive lock (flock) of a file.
pub fn is_locked(file: &File) -> io::Result<bool> {
    // SAFETY: flock takes no pointer, and the descriptor is open as long as `file` lives.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) }) {
        Ok(_) => unlock(file),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
        Err(error) => return Err(error),
    }
    Ok(false)
}

/// Gives the lock of [`try_lock`] back, also for duplicates of the descriptor in other processes.
pub fn unlock(file: &File) {
    // SAFETY: flock takes no pointer, and the descriptor is open as long as `file` lives. If it
    // fails, closing the descriptor has the same effect.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Asks the kernel to begin writing a piece of a file to its device, without waiting, so that less
/// is left for the fsync at the end. Only a hint: on a RAM disk, or where it fails, it is idle.
pub fn begin_writeback(file: &File, offset: u64, bytes: u64) {
    let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) else { return };
    // SAFETY: the call takes no pointer, and the descriptor is open as long as `file` lives.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// Tells the kernel that a file is read from its begin to its end: it reads further ahead.
pub fn will_read_in_order(file: &File) {
    // SAFETY: the call takes no pointer, and the descriptor is open as long as `file` lives.
    unsafe {
        libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_SEQUENTIAL);
    }
}

/// Returns the first piece of data at or after `from` in a file of `size` bytes, up to the next
/// hole; `None` if only a hole is left. Moves the file's offset. Where the file system cannot tell,
/// all is data.
pub fn next_data(file: &File, from: u64, size: u64) -> io::Result<Option<Range<u64>>> {
    if from >= size {
        return Ok(None);
    }
    let start = match seek(file, from, libc::SEEK_DATA) {
        Ok(start) => start,
        Err(error) => {
            return match error.raw_os_error() {
                Some(libc::ENXIO) => Ok(None),
                Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(Some(from..size)),
                _ => Err(error),
            };
        }
    };
    // Data beyond `size` was appended after the caller looked: not part of the copy.
    if start >= size {
        return Ok(None);
    }
    let end = seek(file, start, libc::SEEK_HOLE).unwrap_or(size);
    Ok(Some(start..end.clamp(start + 1, size)))
}

fn seek(file: &File, offset: u64, whence: libc::c_int) -> io::Result<u64> {
    let Ok(offset) = libc::off_t::try_from(offset) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: lseek takes no pointer, and the descriptor is open as long as `file` lives.
    let result = unsafe { libc::lseek(file.as_raw_fd(), offset, whence) };
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// fcntl command that picks the signal of a lease; the libc crate lacks it. The value is Linux's.
const F_SETSIG: libc::c_int = 10;

/// Asks for a lease: `Some(true)` if it is held now, `Some(false)` if others are in its way, `None`
/// if the kernel does not tell for this file (not ours, network file system).
///
/// An opener who comes while it is held waits, and the kernel's note about it is sent as SIGURG,
/// which is ignored by default, since SIGIO would end the process.
pub(super) fn take_lease(file: &File, kind: libc::c_int) -> Option<bool> {
    let fd = file.as_raw_fd();
    // SAFETY: fcntl with F_SETSIG takes an int, and the descriptor is open as long as `file` lives.
    check(unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) }).ok()?;
    // SAFETY: fcntl with F_SETLEASE takes an int; the rest as above.
    match check(unsafe { libc::fcntl(fd, libc::F_SETLEASE, kind) }) {
        Ok(_) => Some(true),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Some(false),
        Err(_) => None,
    }
}

pub(super) fn drop_lease(file: &File) {
    // SAFETY: as in `take_lease`. If it fails, closing the descriptor gives the lease back.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Tells whether any process of the node can still write the file: through a descriptor, a
/// duplicate, a writable mapping, a child. `None` if the kernel does not tell for this file (not
/// ours, network file system).
///
/// A read lease is refused while there is a writer; it is asked for and given back at once.
pub fn has_writers(path: &Path) -> io::Result<Option<bool>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let held = take_lease(&file, libc::F_RDLCK);
    if held == Some(true) {
        drop_lease(&file);
    }
    Ok(held.map(|held| !held))
}

/// Tells whether anybody else has the file open that `file` writes to, or maps it. `None` if the
/// kernel does not tell for this file.
///
/// A write lease is refused then; it is asked for and given back at once.
#[must_use]
pub fn is_open_elsewhere(file: &File) -> Option<bool> {
    let held = take_lease(file, libc::F_WRLCK)?;
    if held {
        drop_lease(file);
    }
    Some(!held)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;

    #[test]
    fn a_writer_is_seen_until_its_last_descriptor_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ckpt");
        let writer = File::create(&path).unwrap();
        let duplicate = writer.try_clone().unwrap();
        assert_eq!(has_writers(&path).unwrap(), Some(true));
        drop(writer);
        assert_eq!(has_writers(&path).unwrap(), Some(true));
        drop(duplicate);
        let _reader = File::open(&path).unwrap();
        assert_eq!(has_writers(&path).unwrap(), Some(false));
        // And the lease is gone: a writer can come back at once.
        File::options().append(true).open(&path).unwrap();
    }

    #[test]
    fn whoever_has_it_open_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ckpt");
        let writer = File::create(&path).unwrap();
        assert_eq!(is_open_elsewhere(&writer), Some(false));
        let reader = File::open(&path).unwrap();
        assert_eq!(is_open_elsewhere(&writer), Some(true));
        drop(reader);
        assert_eq!(is_open_elsewhere(&writer), Some(false));
    }

    #[test]
    fn holes_are_found() {
        let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.seek(SeekFrom::Start(1 << 20)).unwrap();
        file.write_all(b"data").unwrap();
        let size = 4 << 20;
        file.set_len(size).unwrap();
        let data = next_data(&file, 0, size).unwrap().unwrap();
        assert!(data.start > 0 && data.start <= 1 << 20 && data.end >= (1 << 20) + 4);
        assert!(data.end < size);
        assert_eq!(next_data(&file, data.end, size).unwrap(), None);
    }
}
