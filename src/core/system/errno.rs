//! What a system call returns.

use std::io;

/// Turns the -1 of a system call into the error that errno holds.
pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
