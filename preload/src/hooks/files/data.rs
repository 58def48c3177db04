//! Calls that move data, hooked for their failures, and for the first change of a sealed copy.
//!
//! Success costs one load and three comparisons. When the store is full or fails, the file moves
//! (`failing_store.rs`) and the call is made again, or goes on where it was cut short. Any other
//! failure makes the dataset invalid.

use std::ffi::{c_int, c_ulong, c_void};

use libc::{iovec, off_t, size_t, ssize_t};
use scr_abi::accesses::trait_bit;

use crate::fd::changes::{self, Moment};
use crate::fd::failing_store::{left_undone, sync_again, try_again};
use crate::fd::in_order::{self, WritePlace};
use crate::fd::logged::{self, LoggedCall};
use crate::hooks::family::interpose;
use crate::{engine, fd::reuse, signal::guard};

type Write = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t) -> ssize_t;
type Pwrite = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t, off_t) -> ssize_t;
type Writev = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int) -> ssize_t;
type Pwritev = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int, off_t) -> ssize_t;
type Pwritev2 = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t;
type Sendfile = unsafe extern "C-unwind" fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
type CopyRange =
    unsafe extern "C-unwind" fn(c_int, *mut i64, c_int, *mut i64, size_t, u32) -> ssize_t;
type Ioctl = unsafe extern "C-unwind" fn(c_int, c_ulong, ...) -> c_int;
type Sync = unsafe extern "C-unwind" fn(c_int) -> c_int;
type Ftruncate = unsafe extern "C-unwind" fn(c_int, off_t) -> c_int;
type Fallocate = unsafe extern "C-unwind" fn(c_int, c_int, off_t, off_t) -> c_int;
type PosixFallocate = unsafe extern "C-unwind" fn(c_int, off_t, off_t) -> c_int;

/// What [`copied_by_hand`] moves in one call.
const COPY_BYTES: usize = 1 << 20;

// linux/fs.h: the blocks of another file become those of this one.
const FICLONE: c_ulong = 0x4004_9409;
const FICLONERANGE: c_ulong = 0x4020_940d;

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
    plain [ioctl](fd: c_int, request: c_ulong, argument: usize) -> c_int = Ioctl => ioctl;
    cancellable [fsync](fd: c_int) -> c_int = Sync => fsync;
    cancellable [fdatasync](fd: c_int) -> c_int = Sync => fdatasync;
    plain [ftruncate, ftruncate64](fd: c_int, length: off_t) -> c_int = Ftruncate => ftruncate;
    cancellable [fallocate, fallocate64](fd: c_int, mode: c_int, offset: off_t, bytes: off_t)
        -> c_int = Fallocate => fallocate;
    cancellable [posix_fallocate, posix_fallocate64](fd: c_int, offset: off_t, bytes: off_t)
        -> c_int = PosixFallocate => posix_fallocate;
}

/// Makes a call that changes the file, and once more when that has moved; -1 if it is impossible,
/// errno is set. While the file moves no call is under way, this one neither.
macro_rules! checked {
    ($fd:expr, $call:expr) => {
        checked!(changes::begin, $fd, $call)
    };
    ($begin:path, $fd:expr, $call:expr) => {{
        let mut tries = 0..changes::MOVES_MAX;
        loop {
            let Some(change) = $begin($fd) else { break -1 };
            // SAFETY: the program's own call, made again when its file has moved.
            let result = unsafe { $call };
            let begun = change.end();
            let again = result == -1 && tries.next().is_some();
            if !(again && try_again($fd, guard::errno(), begun)) {
                break result;
            }
        }
    }};
}

unsafe fn write(real: Write, fd: c_int, data: *const c_void, bytes: size_t) -> ssize_t {
    let logged = logged::begin(fd, WritePlace::Place);
    let next = in_order::next(fd, WritePlace::Place);
    let mut done = checked!(changes::begin_next, fd, real(fd, data, bytes));
    let mut rest = left_undone(fd, bytes, done);
    while rest > 0 {
        // SAFETY: the part of the program's data that is not written yet.
        match checked!(changes::begin_next, fd, real(fd, data.byte_offset(done), rest)) {
            more @ 1.. => (done, rest) = (done + more, rest.saturating_sub(more.unsigned_abs())),
            _ => break,
        }
    }
    // SAFETY: so much of the program's data was written.
    unsafe { next.done(data, done) };
    logged.wrote(done);
    done
}

unsafe fn pwrite(
    real: Pwrite,
    fd: c_int,
    data: *const c_void,
    bytes: size_t,
    offset: off_t,
) -> ssize_t {
    let logged = logged::begin(fd, WritePlace::Offset(offset));
    let next = in_order::next(fd, WritePlace::Offset(offset));
    let mut done = checked!(changes::begin_next, fd, real(fd, data, bytes, offset));
    let mut rest = left_undone(fd, bytes, done);
    while rest > 0 {
        // SAFETY: as in `write`.
        match checked!(
            changes::begin_next,
            fd,
            real(fd, data.byte_offset(done), rest, offset + done as off_t)
        ) {
            more @ 1.. => (done, rest) = (done + more, rest.saturating_sub(more.unsigned_abs())),
            _ => break,
        }
    }
    // SAFETY: so much of the program's data was written.
    unsafe { next.done(data, done) };
    logged.wrote(done);
    done
}

unsafe fn writev(real: Writev, fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let logged = logged::begin(fd, WritePlace::Place);
    let next = in_order::next(fd, WritePlace::Place);
    let done = checked!(changes::begin_next, fd, real(fd, parts, count));
    let more =
        |rest: &[iovec], _| checked!(changes::begin_next, fd, real(fd, rest.as_ptr(), few(rest)));
    // SAFETY: the parts are what the program described; so much of them was written.
    unsafe {
        let done = go_on(fd, parts, count, done, more);
        next.parts_done(parts, count, done);
        logged.wrote(done);
        done
    }
}

unsafe fn pwritev(
    real: Pwritev,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    let logged = logged::begin(fd, WritePlace::Offset(offset));
    let next = in_order::next(fd, WritePlace::Offset(offset));
    let done = checked!(changes::begin_next, fd, real(fd, parts, count, offset));
    let more = |rest: &[iovec], done: ssize_t| {
        checked!(
            changes::begin_next,
            fd,
            real(fd, rest.as_ptr(), few(rest), offset + done as off_t)
        )
    };
    // SAFETY: as in `writev`.
    unsafe {
        let done = go_on(fd, parts, count, done, more);
        next.parts_done(parts, count, done);
        logged.wrote(done);
        done
    }
}

unsafe fn pwritev2(
    real: Pwritev2,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let at = if offset == -1 { WritePlace::Place } else { WritePlace::Offset(offset) };
    let logged = logged::begin(fd, at);
    if flags & libc::RWF_APPEND != 0 {
        logged::mark(fd, trait_bit::UNSEEN);
    }
    let done = checked!(fd, real(fd, parts, count, offset, flags));
    let more = |rest: &[iovec], done: ssize_t| {
        // -1 stands for the file's own offset.
        let at = if offset == -1 { -1 } else { offset + done as off_t };
        checked!(fd, real(fd, rest.as_ptr(), few(rest), at, flags))
    };
    // SAFETY: as in `writev`.
    let done = unsafe { go_on(fd, parts, count, done, more) };
    logged.wrote(done);
    done
}

/// Goes on with a vector that was cut short: `call` gets what is left of it, and how much is done.
///
/// # Safety
/// `parts` are `count` parts, as the program described them in a call that has written `done`.
unsafe fn go_on(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    mut done: ssize_t,
    call: impl Fn(&[iovec], ssize_t) -> ssize_t,
) -> ssize_t {
    if done <= 0 || parts.is_null() {
        return done;
    }
    // SAFETY: the call has succeeded, so the parts are there.
    let parts = unsafe { std::slice::from_raw_parts(parts, usize::try_from(count).unwrap_or(0)) };
    let whole = parts.iter().map(|part| part.iov_len).sum();
    while left_undone(fd, whole, done) > 0 {
        let mut skip = done.unsigned_abs();
        let rest = parts.iter().filter_map(|part| {
            let gone = skip.min(part.iov_len);
            skip -= gone;
            let iov_base = part.iov_base.wrapping_byte_add(gone);
            (gone < part.iov_len).then_some(iovec { iov_base, iov_len: part.iov_len - gone })
        });
        match call(&rest.collect::<Vec<_>>(), done) {
            more @ 1.. => done += more,
            _ => break,
        }
    }
    done
}

/// Number of parts; a part of what the program passed as an int.
fn few(parts: &[iovec]) -> c_int {
    c_int::try_from(parts.len()).unwrap_or(c_int::MAX)
}

unsafe fn sendfile(
    real: Sendfile,
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    bytes: size_t,
) -> ssize_t {
    // SAFETY: the program's offset, or null.
    let (to_log, from_log) =
        unsafe { (logged::begin(to, WritePlace::Place), logged::begin_at(from, offset)) };
    let done = checked!(to, real(to, from, offset, bytes));
    copied(to_log, from_log, done)
}

/// Ends a call that reads one descriptor and writes another one.
fn copied(to: LoggedCall, from: LoggedCall, done: ssize_t) -> ssize_t {
    to.wrote(done);
    from.read(done.unsigned_abs(), done);
    done
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
    // SAFETY: the program's offsets, or null.
    let (to_log, from_log) =
        unsafe { (logged::begin_at(to, to_at), logged::begin_at(from, from_at)) };
    let done = checked!(to, real(from, from_at, to, to_at, bytes, flags));
    if done == -1 && guard::errno() == libc::EXDEV && engine::active().is_some() {
        // SAFETY: the program's arguments; the kernel has checked all but the file systems.
        return unsafe { copied_by_hand(from, from_at, to, to_at, bytes) };
    }
    copied(to_log, from_log, done)
}

/// copy_file_range(2) between a cached file and one that is not: for the program both lie on one
/// file system.
unsafe fn copied_by_hand(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    bytes: size_t,
) -> ssize_t {
    let mut data = vec![0_u8; bytes.min(COPY_BYTES)];
    let mut moved = 0_usize;
    // SAFETY: the exported functions, on the program's descriptors and a buffer of that length; the
    // kernel has read both offsets, which may be one and the same.
    unsafe {
        let (read_at, write_at) = (from_at.as_ref().copied(), to_at.as_ref().copied());
        while moved < bytes {
            let wanted = data.len().min(bytes - moved);
            let read = match read_at {
                Some(at) => libc::pread(from, data.as_mut_ptr().cast(), wanted, at + moved as i64),
                None => libc::read(from, data.as_mut_ptr().cast(), wanted),
            };
            if read <= 0 {
                if moved == 0 {
                    return read;
                }
                break;
            }
            let (had, read) = (data.as_ptr().cast(), read.unsigned_abs());
            let written = match write_at {
                Some(at) => libc::pwrite(to, had, read, at + moved as i64),
                None => libc::write(to, had, read),
            };
            let done = written.max(0).unsigned_abs();
            if read_at.is_none() && done < read {
                // What was read and not written is to be read again.
                let code = guard::errno();
                libc::lseek(from, done as i64 - read as i64, libc::SEEK_CUR);
                guard::set_errno(code);
            }
            moved += done;
            if written < 0 && moved == 0 {
                return -1;
            }
            if done < read {
                break;
            }
        }
        if let Some(at) = read_at {
            *from_at = at + moved as i64;
        }
        if let Some(at) = write_at {
            *to_at = at + moved as i64;
        }
    }
    moved.cast_signed()
}

unsafe fn ioctl(real: Ioctl, fd: c_int, request: c_ulong, argument: usize) -> c_int {
    reuse::settle_of(fd);
    // SAFETY: the argument is passed on in the width of a register, as it came.
    let call = || unsafe { real(fd, request, argument) };
    if !matches!(request, FICLONE | FICLONERANGE) {
        return call();
    }
    let Some(change) = changes::begin(fd) else { return -1 };
    logged::mark(fd, trait_bit::UNSEEN);
    let result = call();
    change.end();
    result
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
    // SAFETY: the program's offsets, or null.
    let (to_log, from_log) =
        unsafe { (logged::begin_at(to, to_at), logged::begin_at(from, from_at)) };
    let done = checked!(to, real(from, from_at, to, to_at, bytes, flags));
    copied(to_log, from_log, done)
}

unsafe fn fsync(real: Sync, fd: c_int) -> c_int {
    synced(real, fd)
}

unsafe fn fdatasync(real: Sync, fd: c_int) -> c_int {
    synced(real, fd)
}

/// Changes nothing: the file may move meanwhile.
fn synced(real: Sync, fd: c_int) -> c_int {
    reuse::settle_of(fd);
    let begun = Moment::now();
    // SAFETY: the program's own call, made again when its file has moved.
    let call = || unsafe { real(fd) };
    let result = call();
    if result == -1 { sync_again(fd, begun, call) } else { result }
}

unsafe fn ftruncate(real: Ftruncate, fd: c_int, length: off_t) -> c_int {
    let result = checked!(fd, real(fd, length));
    if result == 0 {
        logged::cut(fd, length);
    }
    result
}

unsafe fn fallocate(real: Fallocate, fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int {
    let result = checked!(fd, real(fd, mode, offset, bytes));
    match mode {
        0 if result == 0 => logged::grown(fd, offset + bytes),
        0 | libc::FALLOC_FL_KEEP_SIZE => {}
        _ => logged::mark(fd, trait_bit::UNSEEN),
    }
    result
}

/// Returns its error instead of setting errno.
unsafe fn posix_fallocate(real: PosixFallocate, fd: c_int, offset: off_t, bytes: off_t) -> c_int {
    let mut tries = 0..changes::MOVES_MAX;
    loop {
        let Some(change) = changes::begin(fd) else { return guard::errno() };
        // SAFETY: as in `checked`.
        let code = unsafe { real(fd, offset, bytes) };
        let begun = change.end();
        let again = code != 0 && tries.next().is_some();
        if !(again && try_again(fd, code, begun)) {
            if code == 0 {
                logged::grown(fd, offset + bytes);
            }
            return code;
        }
    }
}
