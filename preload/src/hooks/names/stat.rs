//! Questions about a file by its path: stat, statx, access.

use std::ffi::{CStr, c_char, c_int, c_uint};

use libc::AT_FDCWD;
use scr_abi::StatAnswer;

use crate::engine::ask::Answer;
use crate::fd::{handle::Outcome, logged};
use crate::hooks::below::below_prefix;
use crate::hooks::family::interpose;

type Stat = unsafe extern "C-unwind" fn(*const c_char, *mut libc::stat) -> c_int;
type StatAt = unsafe extern "C-unwind" fn(c_int, *const c_char, *mut libc::stat, c_int) -> c_int;
type XStat = unsafe extern "C-unwind" fn(c_int, *const c_char, *mut libc::stat) -> c_int;
type XStatAt =
    unsafe extern "C-unwind" fn(c_int, c_int, *const c_char, *mut libc::stat, c_int) -> c_int;
type Statx =
    unsafe extern "C-unwind" fn(c_int, *const c_char, c_int, c_uint, *mut libc::statx) -> c_int;
type Access = unsafe extern "C-unwind" fn(*const c_char, c_int) -> c_int;
type AccessAt = unsafe extern "C-unwind" fn(c_int, *const c_char, c_int, c_int) -> c_int;

interpose! {
    looking [stat, stat64](path: *const c_char, buffer: *mut libc::stat) -> c_int = Stat => stat;
    looking [lstat, lstat64](path: *const c_char, buffer: *mut libc::stat) -> c_int = Stat => lstat;
    looking [fstatat, fstatat64](
        dirfd: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int
    ) -> c_int = StatAt => fstatat;
    looking [__xstat, __xstat64](version: c_int, path: *const c_char, buffer: *mut libc::stat)
        -> c_int = XStat => xstat;
    looking [__lxstat, __lxstat64](version: c_int, path: *const c_char, buffer: *mut libc::stat)
        -> c_int = XStat => lxstat;
    looking [__fxstatat, __fxstatat64](
        version: c_int, dirfd: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int
    ) -> c_int = XStatAt => fxstatat;
    looking [statx](
        dirfd: c_int, path: *const c_char, flags: c_int, mask: c_uint, buffer: *mut libc::statx
    ) -> c_int = Statx => statx;
    looking [access](path: *const c_char, mode: c_int) -> c_int = Access => access;
    looking [euidaccess, eaccess](path: *const c_char, mode: c_int) -> c_int = Access => euidaccess;
    looking [faccessat](dirfd: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int
        = AccessAt => faccessat;
}

/// Block size that an answer without a file gives.
const BLOCK_BYTES: i64 = 4096;
/// Unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;

unsafe fn stat(real: Stat, path: *const c_char, buffer: *mut libc::stat) -> c_int {
    // SAFETY: the program's arguments, or a path of ours in place of its own; here and below.
    unsafe {
        stat_any(AT_FDCWD, path, true, buffer, |to| real(to.as_ptr(), buffer))
            .unwrap_or_else(|| real(path, buffer))
    }
}

unsafe fn lstat(real: Stat, path: *const c_char, buffer: *mut libc::stat) -> c_int {
    // SAFETY: as in `stat`.
    unsafe {
        stat_any(AT_FDCWD, path, false, buffer, |to| real(to.as_ptr(), buffer))
            .unwrap_or_else(|| real(path, buffer))
    }
}

unsafe fn fstatat(
    real: StatAt,
    dirfd: c_int,
    path: *const c_char,
    buffer: *mut libc::stat,
    flags: c_int,
) -> c_int {
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: as in `stat`.
    unsafe {
        stat_any(dirfd, path, follow, buffer, |to| real(AT_FDCWD, to.as_ptr(), buffer, flags))
            .unwrap_or_else(|| {
                let result = real(dirfd, path, buffer, flags);
                told(dirfd, path, result, || (*buffer).st_size)
            })
    }
}

unsafe fn xstat(
    real: XStat,
    version: c_int,
    path: *const c_char,
    buffer: *mut libc::stat,
) -> c_int {
    // SAFETY: as in `stat`.
    unsafe {
        stat_any(AT_FDCWD, path, true, buffer, |to| real(version, to.as_ptr(), buffer))
            .unwrap_or_else(|| real(version, path, buffer))
    }
}

unsafe fn lxstat(
    real: XStat,
    version: c_int,
    path: *const c_char,
    buffer: *mut libc::stat,
) -> c_int {
    // SAFETY: as in `stat`.
    unsafe {
        stat_any(AT_FDCWD, path, false, buffer, |to| real(version, to.as_ptr(), buffer))
            .unwrap_or_else(|| real(version, path, buffer))
    }
}

unsafe fn fxstatat(
    real: XStatAt,
    version: c_int,
    dirfd: c_int,
    path: *const c_char,
    buffer: *mut libc::stat,
    flags: c_int,
) -> c_int {
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: as in `stat`.
    unsafe {
        stat_any(dirfd, path, follow, buffer, |to| {
            real(version, AT_FDCWD, to.as_ptr(), buffer, flags)
        })
        .unwrap_or_else(|| {
            let result = real(version, dirfd, path, buffer, flags);
            told(dirfd, path, result, || (*buffer).st_size)
        })
    }
}

/// `None`: the real call.
unsafe fn stat_any(
    dirfd: c_int,
    path: *const c_char,
    follow: bool,
    buffer: *mut libc::stat,
    call: impl Fn(&CStr) -> c_int,
) -> Option<c_int> {
    let job = |mut question: crate::path::question::Question| match question.stat(follow) {
        Answer::Pass | Answer::Done => Outcome::Pass,
        Answer::Redirect(to) => Outcome::of(call(&to)),
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Stat(known) => {
            // SAFETY: the program's buffer, as large as a stat structure.
            unsafe { fill_stat(buffer, &known) };
            Outcome::Done(0)
        }
    };
    // SAFETY: `path` is null or what the program gave for a C string.
    unsafe { below_prefix(-1, dirfd, path, job) }
}

#[allow(clippy::useless_conversion, clippy::cast_possible_wrap)] // widths differ by platform
unsafe fn fill_stat(buffer: *mut libc::stat, known: &StatAnswer) {
    // SAFETY: the caller's promise; the structure is plain data, all zero is a value of it.
    let stat = unsafe {
        buffer.write_bytes(0, 1);
        &mut *buffer
    };
    stat.st_size = known.size as i64;
    stat.st_mode = known.mode;
    stat.st_uid = known.uid;
    stat.st_gid = known.gid;
    stat.st_nlink = known.nlink.into();
    stat.st_ino = known.ino;
    stat.st_blksize = BLOCK_BYTES as _;
    stat.st_blocks = known.size.div_ceil(SECTOR_BYTES) as i64;
    stat.st_mtime = known.mtime_seconds;
    stat.st_mtime_nsec = known.mtime_nanoseconds;
    stat.st_atime = known.mtime_seconds;
    stat.st_atime_nsec = known.mtime_nanoseconds;
    stat.st_ctime = known.mtime_seconds;
    stat.st_ctime_nsec = known.mtime_nanoseconds;
}

unsafe fn statx(
    real: Statx,
    dirfd: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    buffer: *mut libc::statx,
) -> c_int {
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    let job = |mut question: crate::path::question::Question| match question.stat(follow) {
        Answer::Pass | Answer::Done => Outcome::Pass,
        Answer::Redirect(to) => {
            // SAFETY: a path of ours in place of the program's.
            Outcome::of(unsafe { real(AT_FDCWD, to.as_ptr(), flags, mask, buffer) })
        }
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Stat(known) => {
            // SAFETY: the program's buffer, as large as a statx structure.
            unsafe { fill_statx(buffer, &known) };
            Outcome::Done(0)
        }
    };
    // SAFETY: as in `stat`.
    unsafe {
        below_prefix(-1, dirfd, path, job).unwrap_or_else(|| {
            let result = real(dirfd, path, flags, mask, buffer);
            told(dirfd, path, result, || (*buffer).stx_size as i64)
        })
    }
}

/// Notes that a call has told the size of a descriptor's own file: that has no path.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn told(fd: c_int, path: *const c_char, result: c_int, size: impl FnOnce() -> i64) -> c_int {
    // SAFETY: the caller's promise.
    if result == 0 && fd >= 0 && !path.is_null() && unsafe { *path } == 0 {
        logged::asked(fd, size());
    }
    result
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the kernel's narrower fields
unsafe fn fill_statx(buffer: *mut libc::statx, known: &StatAnswer) {
    // SAFETY: the caller's promise; the structure is plain data, all zero is a value of it.
    let statx = unsafe {
        buffer.write_bytes(0, 1);
        &mut *buffer
    };
    statx.stx_mask = libc::STATX_BASIC_STATS;
    statx.stx_size = known.size;
    statx.stx_mode = known.mode as u16;
    statx.stx_uid = known.uid;
    statx.stx_gid = known.gid;
    statx.stx_nlink = known.nlink;
    statx.stx_ino = known.ino;
    statx.stx_blksize = BLOCK_BYTES as u32;
    statx.stx_blocks = known.size.div_ceil(SECTOR_BYTES);
    statx.stx_mtime.tv_sec = known.mtime_seconds;
    statx.stx_mtime.tv_nsec = known.mtime_nanoseconds as u32;
    statx.stx_atime = statx.stx_mtime;
    statx.stx_ctime = statx.stx_mtime;
}

unsafe fn access(real: Access, path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as in `stat`.
    unsafe {
        access_any(AT_FDCWD, path, mode, true, |to| real(to.as_ptr(), mode))
            .unwrap_or_else(|| real(path, mode))
    }
}

unsafe fn euidaccess(real: Access, path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: as in `stat`.
    unsafe { access(real, path, mode) }
}

unsafe fn faccessat(
    real: AccessAt,
    dirfd: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: as in `stat`.
    unsafe {
        access_any(dirfd, path, mode, follow, |to| real(AT_FDCWD, to.as_ptr(), mode, flags))
            .unwrap_or_else(|| real(dirfd, path, mode, flags))
    }
}

unsafe fn access_any(
    dirfd: c_int,
    path: *const c_char,
    mode: c_int,
    follow: bool,
    call: impl Fn(&CStr) -> c_int,
) -> Option<c_int> {
    let job = |mut question: crate::path::question::Question| match question.lookup(follow) {
        Answer::Pass => Outcome::Pass,
        Answer::Redirect(to) => Outcome::of(call(&to)),
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Done => Outcome::Done(0),
        Answer::Stat(known) if permits(&known, mode) => Outcome::Done(0),
        Answer::Stat(_) => Outcome::Fail(libc::EACCES),
    };
    // SAFETY: `path` is null or what the program gave for a C string.
    unsafe { below_prefix(-1, dirfd, path, job) }
}

/// access(2) by permission bits, for a file that is not here to ask.
fn permits(known: &StatAnswer, mode: c_int) -> bool {
    // SAFETY: neither has preconditions.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if user == 0 {
        return mode & libc::X_OK == 0 || known.mode & 0o111 != 0;
    }
    let shift = if user == known.uid {
        6
    } else if group == known.gid {
        3
    } else {
        0
    };
    let wanted = mode.cast_unsigned() & 0o7;
    (known.mode >> shift) & wanted == wanted
}
