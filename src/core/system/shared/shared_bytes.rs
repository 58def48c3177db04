//! Bytes that the processes of a node have in memory once.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;

use crate::system::errno::check;

/// A whole file, mapped for reading. The file need not stay.
#[derive(Debug)]
pub struct SharedBytes {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes do not change, and are mapped for as long as the value lives.
unsafe impl Send for SharedBytes {}
// SAFETY: as above.
unsafe impl Sync for SharedBytes {}

impl SharedBytes {
    pub fn map(file: &File) -> io::Result<SharedBytes> {
        let too_long = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let length = usize::try_from(file.metadata()?.len()).map_err(too_long)?;
        let (protection, fd) = (libc::PROT_READ, file.as_raw_fd());
        // SAFETY: the kernel chooses the address; nothing else knows this memory.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0)
        };
        match NonNull::new(start).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(SharedBytes { start: start.cast(), length }),
            None => Err(io::Error::last_os_error()),
        }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped with this length for as long as `self` lives; nobody writes to the file.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nobody has it any more.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(check(result).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_there_after_the_name_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"content").unwrap();
        let bytes = SharedBytes::map(&File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(&*bytes, b"content");
        std::fs::write(&path, b"").unwrap();
        assert!(SharedBytes::map(&File::open(&path).unwrap()).is_err());
    }
}
