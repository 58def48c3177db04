//! Calls that read, hooked where they are logged ([`logged`]); for all others they cost a load.

use std::ffi::{c_int, c_void};

use libc::{iovec, off_t, size_t, ssize_t};

use crate::fd::in_order::WritePlace;
use crate::fd::logged;
use crate::hooks::family::made;

// How much a vector was to take is not asked: it tells no end of a file.
made! {
    quick [read, __read](fd: c_int, data: *mut c_void, bytes: size_t) -> ssize_t
        = |real| noted(fd, WritePlace::Place, bytes, || real(fd, data, bytes));
    quick [__read_chk](fd: c_int, data: *mut c_void, bytes: size_t, room: size_t) -> ssize_t
        = |real| noted(fd, WritePlace::Place, bytes, || real(fd, data, bytes, room));
    quick [pread, pread64, __pread64](
        fd: c_int, data: *mut c_void, bytes: size_t, offset: off_t
    ) -> ssize_t
        = |real| noted(fd, WritePlace::Offset(offset), bytes, || real(fd, data, bytes, offset));
    quick [__pread_chk, __pread64_chk](
        fd: c_int, data: *mut c_void, bytes: size_t, offset: off_t, room: size_t
    ) -> ssize_t = |real| {
        noted(fd, WritePlace::Offset(offset), bytes, || real(fd, data, bytes, offset, room))
    };
    quick [readv](fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
        = |real| noted(fd, WritePlace::Place, 0, || real(fd, parts, count));
    quick [preadv, preadv64](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t
    ) -> ssize_t
        = |real| noted(fd, WritePlace::Offset(offset), 0, || real(fd, parts, count, offset));
    quick [preadv2, preadv64v2](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t
        = |real| noted(fd, WritePlace::of(offset), 0, || real(fd, parts, count, offset, flags));
}

/// A call that is not logged is the last that is done here.
#[inline]
fn passes(fd: c_int) -> bool {
    logged::is_none(fd)
}

fn noted(fd: c_int, at: WritePlace, bytes: size_t, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let logged = logged::begin(fd, at);
    logged.read(bytes, call())
}
