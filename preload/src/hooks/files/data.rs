//! Calls that move data, hooked for their failures, and for the first change of a sealed copy.
//! Success costs one load and three comparisons. When the store is full or fails, the file moves
//! (`failing_store.rs`); any other failure makes the dataset invalid.

use std::ffi::{c_int, c_ulong, c_void};

use libc::{iovec, off_t, size_t, ssize_t};
use scr_abi::accesses::trait_bit;

use crate::fd::changes::{self, Change, Moment};
use crate::fd::failing_store::{left_undone, sync_again, try_again};
use crate::fd::in_order::{self, WritePlace};
use crate::fd::logged::{self, parted};
use crate::hooks::family::{interpose, made};
use crate::hooks::files::intent;
use crate::{engine, fd::reuse, signal::guard};

type Ioctl = unsafe extern "C-unwind" fn(c_int, c_ulong, ...) -> c_int;

const COPY_BYTES: usize = 1 << 20;

// linux/fs.h: the blocks of another file become those of this one.
const FICLONE: c_ulong = 0x4004_9409;
const FICLONERANGE: c_ulong = 0x4020_940d;

interpose! {
    plain [ioctl](fd: c_int, request: c_ulong, argument: usize) -> c_int = Ioctl => ioctl;
}

made! {
    cancellable [write, __write](fd: c_int, data: *const c_void, bytes: size_t) -> ssize_t
        = |real| written(fd, WritePlace::Place, data, bytes, |data, bytes, _| {
            real(fd, data, bytes)
        });
    cancellable [pwrite, pwrite64, __pwrite64](
        fd: c_int, data: *const c_void, bytes: size_t, offset: off_t
    ) -> ssize_t = |real| written(fd, WritePlace::Offset(offset), data, bytes, |data, bytes, done| {
        real(fd, data, bytes, offset + done as off_t)
    });
    cancellable [writev](fd: c_int, parts: *const iovec, count: c_int) -> ssize_t
        = |real| parts_written(fd, WritePlace::Place, parts, count, |parts, count, _| {
            real(fd, parts, count)
        });
    cancellable [pwritev, pwritev64](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t
    ) -> ssize_t
        = |real| parts_written(fd, WritePlace::Offset(offset), parts, count, |parts, count, done| {
            real(fd, parts, count, offset + done as off_t)
        });
    cancellable [pwritev2, pwritev64v2](
        fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = |real| {
        let place = WritePlace::of(offset);
        if flags & libc::RWF_APPEND != 0 {
            if !parted::leave(fd) {
                return -1;
            }
            logged::mark(fd, trait_bit::UNSEEN);
        }
        let done = noted(changes::begin, fd, place, || real(fd, parts, count, offset, flags));
        go_on(fd, parts, count, done, |rest, done| {
            // -1 stands for the file's own offset.
            let at = if offset == -1 { -1 } else { offset + done as off_t };
            let call = || real(fd, rest.as_ptr(), few(rest), at, flags);
            noted(changes::begin, fd, place.behind(done), call)
        })
    };
    cancellable [sendfile, sendfile64](
        to: c_int, from: c_int, offset: *mut off_t, bytes: size_t
    ) -> ssize_t = |real| {
        let call = || real(to, from, offset, bytes);
        let ends = [CopyEnd { fd: to, at: std::ptr::null() }, CopyEnd { fd: from, at: offset }];
        copied(&ends[0], &ends[1], bytes, call)
    };
    cancellable [copy_file_range](
        from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, bytes: size_t, flags: u32
    ) -> ssize_t = |real| {
        let call = || real(from, from_at, to, to_at, bytes, flags);
        let ends = [CopyEnd { fd: to, at: to_at }, CopyEnd { fd: from, at: from_at }];
        match copied(&ends[0], &ends[1], bytes, call) {
            // The kernel has checked all but the file systems.
            -1 if guard::errno() == libc::EXDEV && engine::active().is_some() => {
                copied_by_hand(from, from_at, to, to_at, bytes)
            }
            done => done,
        }
    };
    cancellable [splice](
        from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, bytes: size_t, flags: u32
    ) -> ssize_t = |real| {
        let call = || real(from, from_at, to, to_at, bytes, flags);
        let ends = [CopyEnd { fd: to, at: to_at }, CopyEnd { fd: from, at: from_at }];
        copied(&ends[0], &ends[1], bytes, call)
    };
    cancellable [fsync](fd: c_int) -> c_int = |real| synced(fd, || real(fd));
    cancellable [fdatasync](fd: c_int) -> c_int = |real| synced(fd, || real(fd));
    plain [ftruncate, ftruncate64](fd: c_int, length: off_t) -> c_int
        = |real| match length == 0 && !intent::may_be_emptied(fd) {
            true => -1,
            false => checked(changes::begin, fd, || logged::cut(real(fd, length), fd, length)),
        };
    cancellable [fallocate, fallocate64](fd: c_int, mode: c_int, offset: off_t, bytes: off_t)
        -> c_int = |real| {
            let is_plain = matches!(mode, 0 | libc::FALLOC_FL_KEEP_SIZE);
            if !is_plain && !parted::leave(fd) {
                return -1;
            }
            checked(changes::begin, fd, || {
                let call = || real(fd, mode, offset, bytes);
                if !is_plain {
                    logged::mark(fd, trait_bit::UNSEEN);
                    return call();
                }
                let result = parted::allocate(fd, mode == 0, offset, bytes).unwrap_or_else(call);
                if mode == 0 { logged::grown(result, fd, offset + bytes) } else { result }
            })
        };
    cancellable [posix_fallocate, posix_fallocate64](fd: c_int, offset: off_t, bytes: off_t)
        -> c_int = |real| allocated(fd, || {
            let code = match parted::allocate(fd, true, offset, bytes) {
                Some(-1) => guard::errno(),
                Some(done) => done,
                None => real(fd, offset, bytes),
            };
            logged::grown(code, fd, offset + bytes)
        });
}

/// Makes a call that changes the file, and once more when that has moved; -1: errno is set. While
/// the file moves no call is under way, this one neither.
#[inline]
fn checked<T: PartialEq + From<i8>>(
    begin: impl Fn(c_int) -> Option<Change>,
    fd: c_int,
    call: impl Fn() -> T,
) -> T {
    let mut tries = 0..changes::MOVES_MAX;
    loop {
        let Some(change) = begin(fd) else { return T::from(-1) };
        let result = call();
        let begun = change.end();
        let again = result == T::from(-1) && tries.next().is_some();
        if !(again && try_again(fd, guard::errno(), begun)) {
            return result;
        }
    }
}

/// A call that writes. What it has done is logged before it counts as done: who moves the file
/// takes what is logged.
#[inline]
fn noted(
    begin: impl Fn(c_int) -> Option<Change>,
    fd: c_int,
    at: WritePlace,
    call: impl Fn() -> ssize_t,
) -> ssize_t {
    checked(begin, fd, || {
        let logged = logged::begin(fd, at);
        logged.wrote(call())
    })
}

/// `call` writes so many bytes at an address, behind those that are done. Safety: the program has
/// given `data` and their number.
#[inline]
unsafe fn written(
    fd: c_int,
    at: WritePlace,
    data: *const c_void,
    bytes: size_t,
    call: impl Fn(*const c_void, size_t, ssize_t) -> ssize_t,
) -> ssize_t {
    let next = in_order::next(fd, at);
    let mut done = noted(changes::begin_next, fd, at, || call(data, bytes, 0));
    let mut rest = left_undone(fd, bytes, done);
    while rest > 0 {
        let left = data.wrapping_byte_offset(done);
        match noted(changes::begin_next, fd, at.behind(done), || call(left, rest, done)) {
            more @ 1.. => (done, rest) = (done + more, rest.saturating_sub(more.unsigned_abs())),
            _ => break,
        }
    }
    // SAFETY: so much of the program's data was written.
    unsafe { next.done(data, done) };
    done
}

struct CopyEnd {
    fd: c_int,
    /// Null stands for the descriptor's own place.
    at: *const off_t,
}

/// A call that reads one descriptor and writes another one. Safety: the kernel is given both
/// pointers, too.
unsafe fn copied(
    to: &CopyEnd,
    from: &CopyEnd,
    bytes: size_t,
    call: impl Fn() -> ssize_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let (read, is_here) = unsafe {
        let place = || from.at.as_ref().map_or(WritePlace::Place, |at| WritePlace::Offset(*at));
        let is_here = !logged::is_parted(from.fd) || parted::may_read(from.fd, place(), bytes);
        (logged::begin_at(from.fd, from.at), is_here)
    };
    if !is_here {
        return -1;
    }
    let done = checked(changes::begin, to.fd, || {
        // SAFETY: as above.
        let write = unsafe { logged::begin_at(to.fd, to.at) };
        write.wrote(call())
    });
    read.read(done.unsigned_abs(), done)
}

#[inline]
unsafe fn parts_written(
    fd: c_int,
    at: WritePlace,
    parts: *const iovec,
    count: c_int,
    call: impl Fn(*const iovec, c_int, ssize_t) -> ssize_t,
) -> ssize_t {
    let next = in_order::next(fd, at);
    let done = noted(changes::begin_next, fd, at, || call(parts, count, 0));
    let more = |rest: &[iovec], done| {
        let call = || call(rest.as_ptr(), few(rest), done);
        noted(changes::begin_next, fd, at.behind(done), call)
    };
    // SAFETY: the parts are what the program described; so much of them was written.
    unsafe {
        let done = go_on(fd, parts, count, done, more);
        next.parts_done(parts, count, done);
        done
    }
}

/// `call` gets what is left of a vector that was cut short, and how much is done. Safety: the
/// program passed `count` parts to a call that has written `done`.
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

fn few(parts: &[iovec]) -> c_int {
    c_int::try_from(parts.len()).unwrap_or(c_int::MAX)
}

/// For the program a cached file and one that is not lie on one file system.
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
    if !parted::leave(fd) {
        return -1;
    }
    let Some(change) = changes::begin(fd) else { return -1 };
    logged::mark(fd, trait_bit::UNSEEN);
    let result = call();
    change.end();
    result
}

/// Nothing is changed, so the file may move meanwhile.
fn synced(fd: c_int, call: impl Fn() -> c_int) -> c_int {
    reuse::settle_of(fd);
    let begun = Moment::now();
    let result = call();
    if result == -1 { sync_again(fd, begun, call) } else { result }
}

fn allocated(fd: c_int, call: impl Fn() -> c_int) -> c_int {
    let mut tries = 0..changes::MOVES_MAX;
    loop {
        let Some(change) = changes::begin(fd) else { return guard::errno() };
        let code = call();
        let begun = change.end();
        let again = code != 0 && tries.next().is_some();
        if !(again && try_again(fd, code, begun)) {
            return code;
        }
    }
}
