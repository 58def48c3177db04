//! Changes to a file by its path: truncate, mode, owner, times.

use std::ffi::{CStr, c_char, c_int};

use libc::{AT_FDCWD, gid_t, mode_t, off_t, timespec, timeval, uid_t, utimbuf};
use scr_abi::event;

use crate::engine::ask::Answer;
use crate::fd::handle::Outcome;
use crate::fd::in_order;
use crate::hooks::below::{below_prefix, follows};
use crate::hooks::family::{interpose, rerouted};
use crate::hooks::files::open::{empty, name_behind};
use crate::path::question::Question;

type Truncate = unsafe extern "C-unwind" fn(*const c_char, off_t) -> c_int;

interpose! {
    looking [truncate, truncate64](path: *const c_char, length: off_t) -> c_int
        = Truncate => truncate;
}

rerouted! {
    looking [chmod](path: *const c_char, mode: mode_t) -> c_int
        = |real| attributes(AT_FDCWD, path, true, |to| real(to.as_ptr(), mode));
    looking [lchmod](path: *const c_char, mode: mode_t) -> c_int
        = |real| attributes(AT_FDCWD, path, false, |to| real(to.as_ptr(), mode));
    looking [fchmodat](dirfd: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int
        = |real| attributes(dirfd, path, follows(flags), |to| {
            real(AT_FDCWD, to.as_ptr(), mode, flags)
        });
    looking [chown](path: *const c_char, user: uid_t, group: gid_t) -> c_int
        = |real| attributes(AT_FDCWD, path, true, |to| real(to.as_ptr(), user, group));
    looking [lchown](path: *const c_char, user: uid_t, group: gid_t) -> c_int
        = |real| attributes(AT_FDCWD, path, false, |to| real(to.as_ptr(), user, group));
    looking [fchownat](
        dirfd: c_int, path: *const c_char, user: uid_t, group: gid_t, flags: c_int
    ) -> c_int = |real| attributes(dirfd, path, follows(flags), |to| {
        real(AT_FDCWD, to.as_ptr(), user, group, flags)
    });
    looking [utime](path: *const c_char, times: *const utimbuf) -> c_int
        = |real| attributes(AT_FDCWD, path, true, |to| real(to.as_ptr(), times));
    looking [utimes](path: *const c_char, times: *const timeval) -> c_int
        = |real| attributes(AT_FDCWD, path, true, |to| real(to.as_ptr(), times));
    looking [lutimes](path: *const c_char, times: *const timeval) -> c_int
        = |real| attributes(AT_FDCWD, path, false, |to| real(to.as_ptr(), times));
    looking [futimesat](dirfd: c_int, path: *const c_char, times: *const timeval) -> c_int
        = |real| attributes(dirfd, path, true, |to| real(AT_FDCWD, to.as_ptr(), times));
    looking [utimensat](dirfd: c_int, path: *const c_char, times: *const timespec, flags: c_int)
        -> c_int = |real| attributes(dirfd, path, follows(flags), |to| {
            real(AT_FDCWD, to.as_ptr(), times, flags)
        });
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

unsafe fn attributes(
    dirfd: c_int,
    path: *const c_char,
    follow: bool,
    call: impl Fn(&CStr) -> c_int,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { change(dirfd, path, follow, event::ATTRIBUTES, call) }
}

unsafe fn truncate(real: Truncate, path: *const c_char, length: off_t) -> c_int {
    in_order::stop_all();
    // SAFETY: the program's arguments, or a path of ours in place of its own.
    unsafe {
        if length == 0
            && let Some(done) = empty(path)
        {
            return done;
        }
        let behind = name_behind(path, libc::O_WRONLY);
        let path = behind.as_deref().map_or(path, CStr::as_ptr);
        change(AT_FDCWD, path, true, 0, |to| real(to.as_ptr(), length))
            .unwrap_or_else(|| real(path, length))
    }
}
