//! The number that a call of libc which has failed leaves.

use std::ffi::c_int;

pub(crate) fn errno() -> c_int {
    // SAFETY: __errno_location returns the address of the calling thread's errno, always valid.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value }
}
