//! Calls that read, hooked where they are logged ([`logged`]), or need what is not here
//! ([`parted`]); for all others they cost a load.

use std::ffi::{c_int, c_void};

use libc::{iovec, off_t, size_t, ssize_t};

use crate::fd::in_order::WritePlace;
use crate::fd::logged::{self, parted};
use crate::hooks::family::made;

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
        = |real| vector_noted(fd, WritePlace::Place, parts, count, || real(fd, parts, count));
    quick [preadv, preadv64](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t
    ) -> ssize_t = |real| {
        let at = WritePlace::Offset(offset);
        vector_noted(fd, at, parts, count, || real(fd, parts, count, offset))
    };
    quick [preadv2, preadv64v2](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = |real| {
        let at = WritePlace::of(offset);
        vector_noted(fd, at, parts, count, || real(fd, parts, count, offset, flags))
    };
}

/// A call that is not logged is the last that is done here.
#[inline]
fn passes(fd: c_int) -> bool {
    logged::is_none(fd)
}

fn noted(fd: c_int, at: WritePlace, bytes: size_t, call: impl FnOnce() -> ssize_t) -> ssize_t {
    if !parted::may_read(fd, at, bytes) {
        return -1;
    }
    let logged = logged::begin(fd, at);
    logged.read(bytes, call())
}

/// How much a vector was to take tells no end of a file. Safety: the program has given `parts` and
/// their number.
#[inline]
unsafe fn vector_noted(
    fd: c_int,
    at: WritePlace,
    parts: *const iovec,
    count: c_int,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    if logged::is_parted(fd) && !parted::may_read(fd, at, unsafe { bytes_of(parts, count) }) {
        return -1;
    }
    let logged = logged::begin(fd, at);
    logged.read(0, call())
}

/// Safety: as above.
unsafe fn bytes_of(parts: *const iovec, count: c_int) -> size_t {
    let count = usize::try_from(count).ok().filter(|_| !parts.is_null()).unwrap_or(0);
    // SAFETY: the caller's promise.
    let length = |at| unsafe { (*parts.add(at)).iov_len };
    (0..count).map(length).fold(0, size_t::saturating_add)
}
