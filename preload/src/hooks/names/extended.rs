//! Extended attributes by path. They lie where the file's bytes lie, as fgetxattr(3) and its
//! relatives on a descriptor find them: on a RAM disk that has none both fail alike.

use std::ffi::{CStr, c_char, c_int, c_void};

use libc::{AT_FDCWD, size_t, ssize_t};
use scr_abi::event;

use crate::engine::ask::Answer;
use crate::fd::handle::Outcome;
use crate::hooks::below::below_prefix;
use crate::hooks::family::rerouted;
use crate::path::question::Question;
use crate::signal::guard;

rerouted! {
    plain [getxattr](path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t)
        -> ssize_t = |real| read(path, true, |to| real(to.as_ptr(), name, value, size));
    plain [lgetxattr](path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t)
        -> ssize_t = |real| read(path, false, |to| real(to.as_ptr(), name, value, size));
    plain [listxattr](path: *const c_char, list: *mut c_char, size: size_t) -> ssize_t
        = |real| read(path, true, |to| real(to.as_ptr(), list, size));
    plain [llistxattr](path: *const c_char, list: *mut c_char, size: size_t) -> ssize_t
        = |real| read(path, false, |to| real(to.as_ptr(), list, size));
    plain [setxattr](
        path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int
    ) -> c_int = |real| write(path, true, |to| real(to.as_ptr(), name, value, size, flags));
    plain [lsetxattr](
        path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int
    ) -> c_int = |real| write(path, false, |to| real(to.as_ptr(), name, value, size, flags));
    plain [removexattr](path: *const c_char, name: *const c_char) -> c_int
        = |real| write(path, true, |to| real(to.as_ptr(), name));
    plain [lremovexattr](path: *const c_char, name: *const c_char) -> c_int
        = |real| write(path, false, |to| real(to.as_ptr(), name));
}

unsafe fn read(
    path: *const c_char,
    follow: bool,
    call: impl Fn(&CStr) -> ssize_t,
) -> Option<ssize_t> {
    let job = |mut question: Question| match question.lookup(follow) {
        Answer::Pass | Answer::Done => Outcome::Pass,
        Answer::Redirect(to) => match call(&to) {
            -1 => Outcome::Fail(guard::errno()),
            bytes => Outcome::Done(bytes),
        },
        Answer::Fail(code) => Outcome::Fail(code),
        // A file that is elsewhere: what its file system has is not known here.
        Answer::Stat(_) => Outcome::Fail(libc::EOPNOTSUPP),
    };
    // SAFETY: `path` is null or what the program gave for a C string.
    unsafe { below_prefix(-1, AT_FDCWD, path, job) }
}

unsafe fn write(path: *const c_char, follow: bool, call: impl Fn(&CStr) -> c_int) -> Option<c_int> {
    let job = |mut question: Question| match question.change(follow) {
        Answer::Pass | Answer::Done => Outcome::Pass,
        Answer::Redirect(to) => {
            let outcome = Outcome::of(call(&to));
            if matches!(outcome, Outcome::Done(_)) {
                (question.engine.note)(event::ATTRIBUTES, question.path.as_ptr());
            }
            outcome
        }
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Stat(_) => Outcome::Fail(libc::EOPNOTSUPP),
    };
    // SAFETY: `path` is null or what the program gave for a C string.
    unsafe { below_prefix(-1, AT_FDCWD, path, job) }
}
