//! Calls that move data, hooked for their failures, and for the first change of a sealed copy.
//!
//! Success costs one load and two comparisons. A store that is full is no reason to fail: the
//! engine moves the file to the PFS, its new descriptor replaces the old one wherever that is open,
//! and the call is made again. Any other failure makes the dataset invalid.

use std::ffi::{c_int, c_void};

use libc::{iovec, off_t, size_t, ssize_t};

use crate::abi::Engine;
use crate::ask::{Outcome, handle};
use crate::family::interpose;
use crate::hooks::intent::may_change;
use crate::lazy::replace;
use crate::{engine, guard, open_files};

type Write = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t) -> ssize_t;
type Pwrite = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t, off_t) -> ssize_t;
type Writev = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int) -> ssize_t;
type Pwritev = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int, off_t) -> ssize_t;
type Pwritev2 = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t;
type Sendfile = unsafe extern "C-unwind" fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
type CopyRange =
    unsafe extern "C-unwind" fn(c_int, *mut i64, c_int, *mut i64, size_t, u32) -> ssize_t;
type AioError = unsafe extern "C-unwind" fn(*const c_void) -> c_int;
type AioReturn = unsafe extern "C-unwind" fn(*mut c_void) -> ssize_t;
type Sync = unsafe extern "C-unwind" fn(c_int) -> c_int;
type Ftruncate = unsafe extern "C-unwind" fn(c_int, off_t) -> c_int;
type Fallocate = unsafe extern "C-unwind" fn(c_int, c_int, off_t, off_t) -> c_int;
type PosixFallocate = unsafe extern "C-unwind" fn(c_int, off_t, off_t) -> c_int;

interpose! {
    cancellable [write, __write](fd: c_int, data: *const c_void, bytes: size_t) -> ssize_t
        = Write => write;
    cancellable [pwrite, pwrite64, __pwrite64](
        fd: c_int, data: *const c_void, bytes: size_t, offset: off_t
    ) -> ssize_t = Pwrite => pwrite;
    cancellable [writev](fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
        = Writev => writev;
    cancellable [pwritev, pwritev64](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t
    ) -> ssize_t = Pwritev => pwritev;
    cancellable [pwritev2, pwritev64v2](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = Pwritev2 => pwritev2;
    cancellable [sendfile, sendfile64](
        to: c_int, from: c_int, offset: *mut off_t, bytes: size_t
    ) -> ssize_t = Sendfile => sendfile;
    cancellable [copy_file_range](
        from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, bytes: size_t, flags: u32
    ) -> ssize_t = CopyRange => copy_file_range;
    cancellable [splice](
        from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, bytes: size_t, flags: u32
    ) -> ssize_t = CopyRange => splice;
    plain [aio_error, aio_error64](block: *const c_void) -> c_int = AioError => aio_error;
    plain [aio_return, aio_return64](block: *mut c_void) -> ssize_t = AioReturn => aio_return;
    cancellable [fsync](fd: c_int) -> c_int = Sync => fsync;
    cancellable [fdatasync](fd: c_int) -> c_int = Sync => fdatasync;
    plain [ftruncate, ftruncate64](fd: c_int, length: off_t) -> c_int = Ftruncate => ftruncate;
    cancellable [fallocate, fallocate64](fd: c_int, mode: c_int, offset: off_t, bytes: off_t)
        -> c_int = Fallocate => fallocate;
    cancellable [posix_fallocate, posix_fallocate64](fd: c_int, offset: off_t, bytes: off_t)
        -> c_int = PosixFallocate => posix_fallocate;
}

/// Errors that say nothing about the file: the program's mistakes, or "try again".
fn harmless(code: c_int) -> bool {
    matches!(
        code,
        libc::EINTR
            | libc::EAGAIN
            | libc::EBADF
            | libc::EFAULT
            | libc::EINVAL
            | libc::ESPIPE
            | libc::EXDEV
            | libc::ENOSYS
            | libc::EOPNOTSUPP
    )
}

/// A call on `fd` failed with the errno `code`. True if the file has moved and the call is worth
/// another try.
#[cold]
fn try_again(fd: c_int, code: c_int) -> bool {
    if harmless(code) || !open_files::may_hold(fd) {
        return false;
    }
    let Some(active) = engine::active() else { return false };
    let moved = handle(0, active, || {
        let Some(claim) = open_files::claim(fd) else { return Outcome::Pass };
        if matches!(code, libc::ENOSPC | libc::EDQUOT) {
            let holders = open_files::holders_of_same_file(fd);
            // What is written through a mapping of the old file would be lost.
            let mapped = |(token, _): &(u64, c_int)| open_files::is_mapped(*token);
            let new = match holders.iter().any(mapped) {
                true => -1,
                false => (active.table.evacuate)(claim.token, fd),
            };
            if new >= 0 {
                replace(claim.token, new);
                move_others(&active.table, claim.token, &holders);
                return Outcome::Done(1);
            }
        }
        (active.table.failed)(claim.token, code);
        Outcome::Pass
    });
    moved == Some(1)
}

/// The file was opened more than once: the other descriptors follow it.
fn move_others(table: &Engine, moved: u64, holders: &[(u64, c_int)]) {
    for &(token, fd) in holders.iter().filter(|(token, _)| *token != moved) {
        match (table.evacuate)(token, fd) {
            -1 => (table.failed)(token, libc::ENOSPC),
            new => replace(token, new),
        }
    }
}

/// Makes a call that changes the file, returns -1 on failure and sets errno.
macro_rules! checked {
    ($fd:expr, $call:expr) => {{
        if !may_change($fd) {
            return -1;
        }
        retried!($fd, $call)
    }};
}

/// The same without a change.
macro_rules! retried {
    ($fd:expr, $call:expr) => {{
        // SAFETY: the program's own call, made again when its file has moved.
        let result = unsafe { $call };
        if result == -1 && try_again($fd, guard::errno()) {
            // SAFETY: as above.
            return unsafe { $call };
        }
        result
    }};
}

unsafe fn write(real: Write, fd: c_int, data: *const c_void, bytes: size_t) -> ssize_t {
    checked!(fd, real(fd, data, bytes))
}

unsafe fn pwrite(
    real: Pwrite,
    fd: c_int,
    data: *const c_void,
    bytes: size_t,
    offset: off_t,
) -> ssize_t {
    checked!(fd, real(fd, data, bytes, offset))
}

unsafe fn writev(real: Writev, fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    checked!(fd, real(fd, parts, count))
}

unsafe fn pwritev(
    real: Pwritev,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    checked!(fd, real(fd, parts, count, offset))
}

unsafe fn pwritev2(
    real: Pwritev2,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    checked!(fd, real(fd, parts, count, offset, flags))
}

unsafe fn sendfile(
    real: Sendfile,
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    bytes: size_t,
) -> ssize_t {
    checked!(to, real(to, from, offset, bytes))
}

unsafe fn copy_file_range(
    real: CopyRange,
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    bytes: size_t,
    flags: u32,
) -> ssize_t {
    checked!(to, real(from, from_at, to, to_at, bytes, flags))
}

unsafe fn splice(
    real: CopyRange,
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    bytes: size_t,
    flags: u32,
) -> ssize_t {
    checked!(to, real(from, from_at, to, to_at, bytes, flags))
}

/// Asynchronous calls are made by libc's own threads, which pass no hook: their results are seen
/// when the program asks for them. It is too late to write elsewhere.
unsafe fn aio_error(real: AioError, block: *const c_void) -> c_int {
    // SAFETY: the program's own call; a control block begins with its descriptor.
    let (code, fd) = unsafe { (real(block), *block.cast::<c_int>()) };
    if code > 0 && code != libc::EINPROGRESS && code != libc::ECANCELED {
        failed_later(fd, code);
    }
    code
}

unsafe fn aio_return(real: AioReturn, block: *mut c_void) -> ssize_t {
    // SAFETY: the program's own call. The error is to be asked for before the result is taken; the
    // function is the one above.
    unsafe {
        libc::aio_error(block.cast::<libc::aiocb>());
        real(block)
    }
}

#[cold]
fn failed_later(fd: c_int, code: c_int) {
    if open_files::may_hold(fd)
        && !harmless(code)
        && let Some(active) = engine::active()
    {
        let _: Option<c_int> = handle(0, active, || {
            if let Some(claim) = open_files::claim(fd).filter(|claim| claim.writable) {
                (active.table.failed)(claim.token, code);
            }
            Outcome::Pass
        });
    }
}

unsafe fn fsync(real: Sync, fd: c_int) -> c_int {
    retried!(fd, real(fd))
}

unsafe fn fdatasync(real: Sync, fd: c_int) -> c_int {
    retried!(fd, real(fd))
}

unsafe fn ftruncate(real: Ftruncate, fd: c_int, length: off_t) -> c_int {
    checked!(fd, real(fd, length))
}

unsafe fn fallocate(real: Fallocate, fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int {
    checked!(fd, real(fd, mode, offset, bytes))
}

/// Returns its error instead of setting errno.
unsafe fn posix_fallocate(real: PosixFallocate, fd: c_int, offset: off_t, bytes: off_t) -> c_int {
    if !may_change(fd) {
        return guard::errno();
    }
    // SAFETY: as in `checked!`.
    let code = unsafe { real(fd, offset, bytes) };
    if code != 0 && try_again(fd, code) {
        // SAFETY: as above.
        return unsafe { real(fd, offset, bytes) };
    }
    code
}
