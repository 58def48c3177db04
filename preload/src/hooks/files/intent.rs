//! A descriptor that could write and has only read so far is open on a sealed copy, and gets a copy
//! of its own before its first change (docs/internals/handles.md). What passes no hook (a forked
//! child, asynchronous I/O, streams, whose buffers are filled first) has it woken beforehand.

use std::ffi::c_int;

use scr_abi::change::{CHANGES, EMPTIES};

use crate::{fd::changes, fd::in_order, fd::open_files};

/// Prepares a change through `fd` that has no end to be seen; see [`changes::begin`] for the
/// others. `fd` is followed no more. False: the change is impossible, errno is set.
#[inline]
pub(super) fn may_change(fd: c_int) -> bool {
    in_order::stop(fd);
    may_be_changed(fd)
}

#[inline]
pub(super) fn may_be_changed(fd: c_int) -> bool {
    !open_files::is_lazy(fd) || changes::wake(fd, CHANGES).unwrap_or(true)
}

/// Prepares a call that makes the file 0 bytes long: nobody needs to copy what it has.
#[inline]
pub(super) fn may_be_emptied(fd: c_int) -> bool {
    !open_files::is_lazy(fd) || changes::wake(fd, EMPTIES).unwrap_or(true)
}
