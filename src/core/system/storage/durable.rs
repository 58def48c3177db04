//! Many files that become durable by one call.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;

use crate::system::errno::check;

/// File systems of this kernel alone, whose syncfs(2) brings to the disk what fsync(2) of each file
/// would. Of others (FUSE, most parallel ones) it is not known whether servers hear of it.
const AS_ONE: [libc::c_long; 3] =
    [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::BTRFS_SUPER_MAGIC];

/// Makes durable all that the file system of `file` holds, where that is as good as an fsync(2) of
/// each of its files; `false`: it is not, and nothing was done. It tells of no error of a file.
pub fn sync_file_system(file: &File) -> io::Result<bool> {
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the structure is writable, and the descriptor is open as long as `file` lives.
    check(unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) })?;
    // SAFETY: fstatfs has succeeded, hence written it.
    let kind = unsafe { found.assume_init() }.f_type;
    if !AS_ONE.contains(&kind) {
        return Ok(false);
    }
    // SAFETY: syncfs takes no pointer; the descriptor as above.
    check(unsafe { libc::syncfs(file.as_raw_fd()) }).map(|_| true)
}

/// Fails if what was written to a file since it was opened has failed on its way to the disk.
pub fn written_out(file: &File) -> io::Result<()> {
    let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE;
    // SAFETY: the call takes no pointer, and the descriptor is open as long as `file` lives.
    check(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, wait) }).map(|_| ())
}
