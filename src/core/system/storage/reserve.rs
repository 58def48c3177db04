//! Room for a file before it is written, and what is left of it afterwards.

use std::fs::{File, FileTimes, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::descriptor::{drop_lease, next_data, take_lease};
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
    alone_with(path, cut_at_end)
}

/// Gives back what is reserved where a file has no data, as [`release_excess`] does behind its end,
/// if that is more than `least` bytes.
pub fn release_unwritten(path: &Path, least: u64) -> io::Result<bool> {
    alone_with(path, |file| {
        let found = file.metadata()?;
        let (mut data, mut at, mut bytes) = (Vec::new(), 0, 0);
        while let Some(one) = next_data(file, at, found.len())? {
            at = one.end;
            bytes += one.end - one.start;
            data.push(one);
        }
        if found.blocks().saturating_mul(512) <= bytes.saturating_add(least) {
            return Ok(());
        }
        let mut begin = 0;
        for one in data {
            punch(file, begin, one.start)?;
            begin = one.end;
        }
        punch(file, begin, found.len())?;
        file.set_len(found.len())?;
        file.set_times(FileTimes::new().set_modified(found.modified()?))
    })
}

/// Gives back the whole pages of a piece of a file, which is a hole then.
fn punch(file: &File, begin: u64, end: u64) -> io::Result<()> {
    let number = |value: u64| libc::off_t::try_from(value).map_err(io::Error::other);
    if begin < end {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (start, length) = (number(begin)?, number(end - begin)?);
        // SAFETY: fallocate takes no pointer.
        check(unsafe { libc::fallocate(file.as_raw_fd(), how, start, length) })?;
    }
    Ok(())
}

/// Does `act` to a file that nobody else has open; `false`: somebody has.
fn alone_with(path: &Path, act: impl FnOnce(&File) -> io::Result<()>) -> io::Result<bool> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY)
        .open(path)?;
    if take_lease(&file, libc::F_WRLCK) != Some(true) {
        return Ok(false);
    }
    let done = act(&file);
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
    use std::io::{Seek as _, SeekFrom, Write as _};
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
    fn pages_without_data_are_given_back() {
        let mut file = file_in("/dev/shm");
        reserve(file.as_raw_fd(), 0, 3 * MIB).unwrap();
        file.as_file().set_len(2 * MIB).unwrap();
        file.seek(SeekFrom::Start(MIB)).unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(1000);
        file.as_file().set_modified(old).unwrap();
        let want = std::fs::read(file.path()).unwrap();
        let path = file.into_temp_path();
        let taken = || path.metadata().unwrap().blocks() * 512;
        assert!(release_unwritten(&path, 4 * MIB).unwrap() && taken() == 3 * MIB, "not worth it");
        assert!(release_unwritten(&path, MIB).unwrap());
        assert!((10_000..64 << 10).contains(&taken()), "{}", taken());
        assert_eq!(path.metadata().unwrap().modified().unwrap(), old);
        assert!(std::fs::read(&path).unwrap() == want);
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
