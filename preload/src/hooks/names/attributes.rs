//! Changes to a file by its path: truncate, mode, owner, times.

use std::ffi::{CStr, c_char, c_int};

use libc::{AT_FDCWD, gid_t, mode_t, off_t, timespec, timeval, uid_t, utimbuf};
use scr_abi::event;

use crate::engine::ask::Answer;
use crate::fd::handle::Outcome;
use crate::fd::in_order;
use crate::hooks::below::below_prefix;
use crate::hooks::family::interpose;
use crate::hooks::files::open::name_behind;
use crate::path::question::Question;

type Truncate = unsafe extern "C-unwind" fn(*const c_char, off_t) -> c_int;
type Chmod = unsafe extern "C-unwind" fn(*const c_char, mode_t) -> c_int;
type ChmodAt = unsafe extern "C-unwind" fn(c_int, *const c_char, mode_t, c_int) -> c_int;
type Chown = unsafe extern "C-unwind" fn(*const c_char, uid_t, gid_t) -> c_int;
type ChownAt = unsafe extern "C-unwind" fn(c_int, *const c_char, uid_t, gid_t, c_int) -> c_int;
type Utime = unsafe extern "C-unwind" fn(*const c_char, *const utimbuf) -> c_int;
type Utimes = unsafe extern "C-unwind" fn(*const c_char, *const timeval) -> c_int;
type UtimesAt = unsafe extern "C-unwind" fn(c_int, *const c_char, *const timeval) -> c_int;
type UtimensAt = unsafe extern "C-unwind" fn(c_int, *const c_char, *const timespec, c_int) -> c_int;

interpose! {
    looking [truncate, truncate64](path: *const c_char, length: off_t) -> c_int
        = Truncate => truncate;
    looking [chmod](path: *const c_char, mode: mode_t) -> c_int = Chmod => chmod;
    looking [lchmod](path: *const c_char, mode: mode_t) -> c_int = Chmod => lchmod;
    looking [fchmodat](dirfd: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int
        = ChmodAt => fchmodat;
    looking [chown](path: *const c_char, user: uid_t, group: gid_t) -> c_int = Chown => chown;
    looking [lchown](path: *const c_char, user: uid_t, group: gid_t) -> c_int = Chown => lchown;
    looking [fchownat](
        dirfd: c_int, path: *const c_char, user: uid_t, group: gid_t, flags: c_int
    ) -> c_int = ChownAt => fchownat;
    looking [utime](path: *const c_char, times: *const utimbuf) -> c_int = Utime => utime;
    looking [utimes](path: *const c_char, times: *const timeval) -> c_int = Utimes => utimes;
    looking [lutimes](path: *const c_char, times: *const timeval) -> c_int = Utimes => lutimes;
    looking [futimesat](dirfd: c_int, path: *const c_char, times: *const timeval) -> c_int
        = UtimesAt => futimesat;
    looking [utimensat](dirfd: c_int, path: *const c_char, times: *const timespec, flags: c_int)
        -> c_int = UtimensAt => utimensat;
}

unsafe fn change(
    dirfd: c_int,
    path: *const c_char,
    follow: bool,
    what: c_int,
    call: impl Fn(&CStr) -> c_int,
) -> Option<c_int> {
    let job = |mut question: Question| {
        let answer = question.change(follow);
        let outcome = match answer {
            Answer::Pass => return Outcome::Pass,
            Answer::Redirect(to) => Outcome::of(call(&to)),
            Answer::Fail(code) => Outcome::Fail(code),
            Answer::Done | Answer::Stat(_) => Outcome::Done(0),
        };
        if what != 0 && matches!(outcome, Outcome::Done(_)) {
            (question.engine.note)(what, question.path.as_ptr());
        }
        outcome
    };
    // SAFETY: `path` is null or what the program gave for a C string.
    unsafe { below_prefix(-1, dirfd, path, job) }
}

/// The engine is told afterwards of mode, owner and times.
unsafe fn attributes(
    dirfd: c_int,
    path: *const c_char,
    follow: bool,
    call: impl Fn(&CStr) -> c_int,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { change(dirfd, path, follow, event::ATTRIBUTES, call) }
}

const fn follows(flags: c_int) -> bool {
    flags & libc::AT_SYMLINK_NOFOLLOW == 0
}

unsafe fn truncate(real: Truncate, path: *const c_char, length: off_t) -> c_int {
    in_order::stop_all();
    // SAFETY: the program's arguments, or a path of ours in place of its own; here and below.
    unsafe {
        let behind = name_behind(path, libc::O_WRONLY);
        let path = behind.as_deref().map_or(path, CStr::as_ptr);
        change(AT_FDCWD, path, true, 0, |to| real(to.as_ptr(), length))
            .unwrap_or_else(|| real(path, length))
    }
}

unsafe fn chmod(real: Chmod, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(AT_FDCWD, path, true, |to| real(to.as_ptr(), mode))
            .unwrap_or_else(|| real(path, mode))
    }
}

unsafe fn lchmod(real: Chmod, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(AT_FDCWD, path, false, |to| real(to.as_ptr(), mode))
            .unwrap_or_else(|| real(path, mode))
    }
}

unsafe fn fchmodat(
    real: ChmodAt,
    dirfd: c_int,
    path: *const c_char,
    mode: mode_t,
    flags: c_int,
) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(dirfd, path, follows(flags), |to| real(AT_FDCWD, to.as_ptr(), mode, flags))
            .unwrap_or_else(|| real(dirfd, path, mode, flags))
    }
}

unsafe fn chown(real: Chown, path: *const c_char, user: uid_t, group: gid_t) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(AT_FDCWD, path, true, |to| real(to.as_ptr(), user, group))
            .unwrap_or_else(|| real(path, user, group))
    }
}

unsafe fn lchown(real: Chown, path: *const c_char, user: uid_t, group: gid_t) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(AT_FDCWD, path, false, |to| real(to.as_ptr(), user, group))
            .unwrap_or_else(|| real(path, user, group))
    }
}

unsafe fn fchownat(
    real: ChownAt,
    dirfd: c_int,
    path: *const c_char,
    user: uid_t,
    group: gid_t,
    flags: c_int,
) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(dirfd, path, follows(flags), |to| {
            real(AT_FDCWD, to.as_ptr(), user, group, flags)
        })
        .unwrap_or_else(|| real(dirfd, path, user, group, flags))
    }
}

unsafe fn utime(real: Utime, path: *const c_char, times: *const utimbuf) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(AT_FDCWD, path, true, |to| real(to.as_ptr(), times))
            .unwrap_or_else(|| real(path, times))
    }
}

unsafe fn utimes(real: Utimes, path: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(AT_FDCWD, path, true, |to| real(to.as_ptr(), times))
            .unwrap_or_else(|| real(path, times))
    }
}

unsafe fn lutimes(real: Utimes, path: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(AT_FDCWD, path, false, |to| real(to.as_ptr(), times))
            .unwrap_or_else(|| real(path, times))
    }
}

unsafe fn futimesat(
    real: UtimesAt,
    dirfd: c_int,
    path: *const c_char,
    times: *const timeval,
) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(dirfd, path, true, |to| real(AT_FDCWD, to.as_ptr(), times))
            .unwrap_or_else(|| real(dirfd, path, times))
    }
}

unsafe fn utimensat(
    real: UtimensAt,
    dirfd: c_int,
    path: *const c_char,
    times: *const timespec,
    flags: c_int,
) -> c_int {
    // SAFETY: as in `truncate`.
    unsafe {
        attributes(dirfd, path, follows(flags), |to| real(AT_FDCWD, to.as_ptr(), times, flags))
            .unwrap_or_else(|| real(dirfd, path, times, flags))
    }
}
