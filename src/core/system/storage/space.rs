//! Room in file systems.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::error::{Error, Result};
use crate::system::errno::check;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Files that can still be created; `u64::MAX` where there is no limit.
    pub free_files: u64,
    /// It lives in memory (tmpfs, ramfs): its room is that of the node's memory, too.
    pub in_memory: bool,
}

const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;

pub fn space(path: &Path) -> Result<Space> {
    let failed = |error| Error::io("cannot ask for the space of", path, error);
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| failed(io::ErrorKind::InvalidInput.into()))?;
    let mut answer = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `name` ends with a NUL, and `answer` is large enough for the struct that statfs
    // fills.
    check(unsafe { libc::statfs(name.as_ptr(), answer.as_mut_ptr()) }).map_err(failed)?;
    // SAFETY: statfs succeeded; besides, all-zero bytes are a valid value of this plain struct.
    let answer = unsafe { answer.assume_init() };
    // Field types differ between architectures; all are non-negative here.
    let block = answer.f_bsize as u64;
    let magic = answer.f_type as u64 & 0xffff_ffff;
    Ok(Space {
        total_bytes: block.saturating_mul(answer.f_blocks),
        free_bytes: block.saturating_mul(answer.f_bavail),
        free_files: if answer.f_files == 0 { u64::MAX } else { answer.f_ffree },
        in_memory: matches!(magic, TMPFS_MAGIC | RAMFS_MAGIC),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ram_disk_is_recognised() {
        let shm = space(Path::new("/dev/shm")).unwrap();
        assert!(shm.in_memory && shm.total_bytes > 0 && shm.free_bytes <= shm.total_bytes);
        assert!(!space(Path::new("/proc")).unwrap().in_memory);
        assert!(space(Path::new("/none/such")).is_err());
    }
}
