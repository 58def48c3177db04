//! Extended attributes that the program gives its files.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd as _;

/// The name space that programs use; the others are the system's business.
const USER: &[u8] = b"user.";

/// Copies the program's extended attributes, as far as the target's file system takes them: one
/// that does not would have refused the program, too. A file without any costs one call.
pub fn copy_user_attributes(from: &File, to: &File) {
    let Some(names) = read(|at, size| {
        // SAFETY: the buffer is writable for `size` bytes; with none, the length is asked for.
        unsafe { libc::flistxattr(from.as_raw_fd(), at.cast(), size) }
    }) else {
        return;
    };
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        if !name.to_bytes().starts_with(USER) {
            continue;
        }
        let value = read(|at, size| {
            // SAFETY: as above; the name is a C string.
            unsafe { libc::fgetxattr(from.as_raw_fd(), name.as_ptr(), at.cast(), size) }
        });
        let value = value.unwrap_or_default();
        // SAFETY: a C string, and a buffer that is readable for its length.
        unsafe {
            libc::fsetxattr(to.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
        };
    }
}

/// What `call` writes into a buffer that is as large as it says; `None` if that is nothing.
fn read(call: impl Fn(*mut u8, usize) -> libc::ssize_t) -> Option<Vec<u8>> {
    let size = usize::try_from(call(std::ptr::null_mut(), 0)).ok().filter(|size| *size > 0)?;
    let mut buffer = vec![0; size];
    let size = usize::try_from(call(buffer.as_mut_ptr(), buffer.len())).ok()?;
    buffer.truncate(size);
    Some(buffer)
}
