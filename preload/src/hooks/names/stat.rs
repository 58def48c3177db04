//! Questions about a file by its path: stat, statx, access.

use std::ffi::{CStr, c_char, c_int, c_uint};

use libc::AT_FDCWD;
use scr_abi::StatAnswer;

use crate::engine::ask::Answer;
use crate::fd::handle::Outcome;
use crate::fd::logged::{self, parted};
use crate::hooks::below::{below_prefix, follows};
use crate::hooks::family::{made, rerouted};
use crate::path::question::Question;

rerouted! {
    looking [stat, stat64](path: *const c_char, buffer: *mut libc::stat) -> c_int
        = |real| stat_any(AT_FDCWD, path, true, buffer, |to| real(to.as_ptr(), buffer));
    looking [lstat, lstat64](path: *const c_char, buffer: *mut libc::stat) -> c_int
        = |real| stat_any(AT_FDCWD, path, false, buffer, |to| real(to.as_ptr(), buffer));
    looking [__xstat, __xstat64](version: c_int, path: *const c_char, buffer: *mut libc::stat)
        -> c_int
        = |real| stat_any(AT_FDCWD, path, true, buffer, |to| real(version, to.as_ptr(), buffer));
    looking [__lxstat, __lxstat64](version: c_int, path: *const c_char, buffer: *mut libc::stat)
        -> c_int
        = |real| stat_any(AT_FDCWD, path, false, buffer, |to| real(version, to.as_ptr(), buffer));
    looking [access, euidaccess, eaccess](path: *const c_char, mode: c_int) -> c_int
        = |real| access_any(AT_FDCWD, path, mode, true, |to| real(to.as_ptr(), mode));
    looking [faccessat](dirfd: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int
        = |real| access_any(dirfd, path, mode, follows(flags), |to| {
            real(AT_FDCWD, to.as_ptr(), mode, flags)
        });
}

// Without a path the descriptor's own file is asked for.
made! {
    looking [fstatat, fstatat64](
        dirfd: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int
    ) -> c_int = |real| {
        let elsewhere = stat_any(dirfd, path, follows(flags), buffer, |to| {
            real(AT_FDCWD, to.as_ptr(), buffer, flags)
        });
        let own = || real(dirfd, path, buffer, flags);
        elsewhere.unwrap_or_else(|| told(own(), dirfd, path, buffer))
    };
    looking [__fxstatat, __fxstatat64](
        version: c_int, dirfd: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int
    ) -> c_int = |real| {
        let elsewhere = stat_any(dirfd, path, follows(flags), buffer, |to| {
            real(version, AT_FDCWD, to.as_ptr(), buffer, flags)
        });
        let own = || real(version, dirfd, path, buffer, flags);
        elsewhere.unwrap_or_else(|| told(own(), dirfd, path, buffer))
    };
    looking [statx](
        dirfd: c_int, path: *const c_char, flags: c_int, mask: c_uint, buffer: *mut libc::statx
    ) -> c_int = |real| {
        let elsewhere = stat_any(dirfd, path, follows(flags), buffer, |to| {
            real(AT_FDCWD, to.as_ptr(), flags, mask, buffer)
        });
        let own = || real(dirfd, path, flags, mask, buffer);
        elsewhere.unwrap_or_else(|| told(own(), dirfd, path, buffer))
    };
}

/// Safety: `path` is null or a C string, `buffer` what a call that has succeeded was given.
unsafe fn told<T: Known>(result: c_int, fd: c_int, path: *const c_char, buffer: *mut T) -> c_int {
    // SAFETY: the caller's promise.
    let is_own = !path.is_null() && unsafe { *path } == 0;
    if result == 0 && is_own && !logged::is_none(fd) {
        // SAFETY: as above.
        let size = unsafe { (*buffer).correct_size(|size| parted::size(fd, size)) };
        logged::asked(fd, size);
    }
    result
}

const BLOCK_BYTES: i64 = 4096;
const SECTOR_BYTES: u64 = 512;

unsafe fn stat_any<T: Known>(
    dirfd: c_int,
    path: *const c_char,
    follow: bool,
    buffer: *mut T,
    call: impl Fn(&CStr) -> c_int,
) -> Option<c_int> {
    let job = |mut question: Question| match question.stat(follow) {
        Answer::Pass | Answer::Done => Outcome::Pass,
        Answer::Redirect(to) => Outcome::of(call(&to)),
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Stat(known) => {
            // SAFETY: the program's buffer, as large as the structure.
            unsafe { T::fill(buffer, &known) };
            Outcome::Done(0)
        }
    };
    // SAFETY: `path` is null or what the program gave for a C string.
    unsafe { below_prefix(-1, dirfd, path, job) }
}

trait Known {
    unsafe fn fill(buffer: *mut Self, known: &StatAnswer);

    /// Returns what the size is then.
    fn correct_size(&mut self, corrected: impl FnOnce(i64) -> i64) -> i64;
}

impl Known for libc::stat {
    #[allow(clippy::useless_conversion, clippy::cast_possible_wrap)] // widths differ by platform
    unsafe fn fill(buffer: *mut Self, known: &StatAnswer) {
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

    fn correct_size(&mut self, corrected: impl FnOnce(i64) -> i64) -> i64 {
        self.st_size = corrected(self.st_size);
        self.st_size
    }
}

impl Known for libc::statx {
    // The kernel's fields are narrower.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    unsafe fn fill(buffer: *mut Self, known: &StatAnswer) {
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

    fn correct_size(&mut self, corrected: impl FnOnce(i64) -> i64) -> i64 {
        let size = corrected(self.stx_size.cast_signed());
        self.stx_size = size.cast_unsigned();
        size
    }
}

unsafe fn access_any(
    dirfd: c_int,
    path: *const c_char,
    mode: c_int,
    follow: bool,
    call: impl Fn(&CStr) -> c_int,
) -> Option<c_int> {
    let job = |mut question: Question| match question.lookup(follow) {
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

/// The file is not here to ask, so the permission bits tell.
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
