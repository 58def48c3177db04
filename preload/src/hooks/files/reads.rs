//! Calls that read, hooked where they are logged ([`logged`]); for all others they cost a load.

use std::ffi::{c_int, c_void};

use libc::{iovec, off_t, size_t, ssize_t};

use crate::fd::in_order::WritePlace;
use crate::fd::logged;
use crate::hooks::family::interpose;

type Read = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t) -> ssize_t;
type ReadChecked = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, size_t) -> ssize_t;
type Pread = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, off_t) -> ssize_t;
type PreadChecked =
    unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, off_t, size_t) -> ssize_t;
type Readv = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int) -> ssize_t;
type Preadv = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int, off_t) -> ssize_t;
type Preadv2 = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t;

interpose! {
    cancellable [read, __read](fd: c_int, data: *mut c_void, bytes: size_t) -> ssize_t
        = Read => read;
    cancellable [__read_chk](fd: c_int, data: *mut c_void, bytes: size_t, room: size_t) -> ssize_t
        = ReadChecked => read_checked;
    cancellable [pread, pread64, __pread64](
        fd: c_int, data: *mut c_void, bytes: size_t, offset: off_t
    ) -> ssize_t = Pread => pread;
    cancellable [__pread_chk, __pread64_chk](
        fd: c_int, data: *mut c_void, bytes: size_t, offset: off_t, room: size_t
    ) -> ssize_t = PreadChecked => pread_checked;
    cancellable [readv](fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
        = Readv => readv;
    cancellable [preadv, preadv64](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t
    ) -> ssize_t = Preadv => preadv;
    cancellable [preadv2, preadv64v2](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = Preadv2 => preadv2;
}

/// Makes a call that reads so many bytes at a place.
macro_rules! logged {
    ($fd:expr, $at:expr, $bytes:expr, $call:expr) => {{
        let logged = logged::begin($fd, $at);
        // SAFETY: the program's own call.
        let done = unsafe { $call };
        logged.read($bytes, done);
        done
    }};
}

unsafe fn read(real: Read, fd: c_int, data: *mut c_void, bytes: size_t) -> ssize_t {
    logged!(fd, WritePlace::Place, bytes, real(fd, data, bytes))
}

unsafe fn read_checked(
    real: ReadChecked,
    fd: c_int,
    data: *mut c_void,
    bytes: size_t,
    room: size_t,
) -> ssize_t {
    logged!(fd, WritePlace::Place, bytes, real(fd, data, bytes, room))
}

unsafe fn pread(
    real: Pread,
    fd: c_int,
    data: *mut c_void,
    bytes: size_t,
    offset: off_t,
) -> ssize_t {
    logged!(fd, WritePlace::Offset(offset), bytes, real(fd, data, bytes, offset))
}

unsafe fn pread_checked(
    real: PreadChecked,
    fd: c_int,
    data: *mut c_void,
    bytes: size_t,
    offset: off_t,
    room: size_t,
) -> ssize_t {
    logged!(fd, WritePlace::Offset(offset), bytes, real(fd, data, bytes, offset, room))
}

unsafe fn readv(real: Readv, fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // How much was wanted is not asked: a vector tells no end of a file.
    logged!(fd, WritePlace::Place, 0, real(fd, parts, count))
}

unsafe fn preadv(
    real: Preadv,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    logged!(fd, WritePlace::Offset(offset), 0, real(fd, parts, count, offset))
}

unsafe fn preadv2(
    real: Preadv2,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let at = if offset == -1 { WritePlace::Place } else { WritePlace::Offset(offset) };
    logged!(fd, at, 0, real(fd, parts, count, offset, flags))
}
