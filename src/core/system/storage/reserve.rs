//! Room for a file before it is written, and what is left of it afterwards.

use std::fs::{File, FileTimes, OpenOptions};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::descriptor::{drop_lease, take_lease};
use crate::system::allow_size;
use crate::system::errno::check;

/// Reserves room for bytes `offset .. offset + bytes` of an open file; its size stays as it is.
/// The error is `Unsupported` where the file system cannot reserve.
pub fn reserve(fd: RawFd, offset: u64, bytes: u64) -> io::Result<()> {
    let number = |value: u64| libc::off_t::try_from(value).map_err(|_| io::ErrorKind::StorageFull);
    let (start, length) = (number(offset)?, number(bytes)?);
    if length == 0 {
        return Ok(());
    }
    allow_size(offset.saturating_add(bytes))?;
    loop {
        // SAFETY: fallocate takes no pointer; a number that is no open file is an error.
        let result =
            check(unsafe { libc::fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, start, length) });
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|_| ()),
        }
    }
}

pub fn allocated(fd: RawFd) -> io::Result<u64> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the pointer is valid for the call; all-zero bytes are a valid value of the struct.
    let found = unsafe {
        check(libc::fstat(fd, found.as_mut_ptr()))?;
        found.assume_init()
    };
    Ok(u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512))
}

/// Gives back what is reserved beyond the end of a file. `false`: somebody has it open, so that its
/// end may move; nothing was done.
///
/// The file is cut at its own end. Nobody can come in between: a write lease is held, which is
/// granted only if no one else has the file open. The time of its last change of content stays what
/// it was; that of its last change of any kind is now.
pub fn release_excess(path: &Path) -> io::Result<bool> {
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY)
        .open(path)?;
    if take_lease(&file, libc::F_WRLCK) != Some(true) {
        return Ok(false);
    }
    let done = cut_at_end(&file);
    drop_lease(&file);
    done.map(|()| true)
}

fn cut_at_end(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    // Already less than that: there is nothing to give back.
    if found.blocks().saturating_mul(512) <= found.len() {
        return Ok(());
    }
    file.set_len(found.len())?;
    file.set_times(FileTimes::new().set_modified(found.modified()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::time::Duration;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn file_in(dir: &str) -> tempfile::NamedTempFile {
        tempfile::NamedTempFile::new_in(dir).unwrap()
    }

    #[test]
    fn reserving_keeps_the_size() {
        let file = file_in("/dev/shm");
        let fd = file.as_raw_fd();
        reserve(fd, 0, MIB).unwrap();
        assert_eq!(file.as_file().metadata().unwrap().len(), 0);
        assert!(allocated(fd).unwrap() >= MIB);
        assert_eq!(reserve(fd, 0, 1 << 60).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(reserve(-1, 0, 1).is_err() && allocated(-1).is_err());
    }

    #[test]
    fn what_was_not_used_is_given_back_and_the_file_stays_as_it_is() {
        for dir in ["/dev/shm", "/tmp"] {
            let mut file = file_in(dir);
            reserve(file.as_raw_fd(), 0, MIB).unwrap();
            file.write_all(b"content").unwrap();
            let old = std::time::SystemTime::now() - Duration::from_secs(1000);
            file.as_file().set_modified(old).unwrap();
            let path = file.into_temp_path();
            assert!(release_excess(&path).unwrap());
            let found = path.metadata().unwrap();
            assert!(found.blocks() * 512 < MIB, "{dir}: {} blocks", found.blocks());
            assert_eq!(found.modified().unwrap(), old);
            assert_eq!(std::fs::read(&path).unwrap(), b"content");
        }
    }

    #[test]
    fn a_file_that_somebody_has_open_is_left_alone() {
        let file = file_in("/dev/shm");
        let fd = file.as_raw_fd();
        reserve(fd, 0, MIB).unwrap();
        assert!(!release_excess(file.path()).unwrap());
        assert!(allocated(fd).unwrap() >= MIB);
        let path = file.into_temp_path();
        let reader = File::open(&path).unwrap();
        assert!(!release_excess(&path).unwrap());
        drop(reader);
        assert!(release_excess(&path).unwrap());
        // And the lease is gone: a writer can come back at once.
        File::options().append(true).open(&path).unwrap();
    }
}
