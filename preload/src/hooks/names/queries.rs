//! Calls that ask about one name, or have it watched, and need nothing but the file's place.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};

use libc::{AT_FDCWD, key_t};

use crate::engine::ask::Answer;
use crate::fd::handle::Outcome;
use crate::hooks::below::below_prefix;
use crate::hooks::family::rerouted;
use crate::path::question::Question;
use crate::signal::guard;

rerouted! {
    plain [pathconf](path: *const c_char, name: c_int) -> c_long
        = |real| where_it_lies(AT_FDCWD, path, true, |to| real(to.as_ptr(), name));
    plain [ftok](path: *const c_char, project: c_int) -> key_t
        = |real| where_it_lies(AT_FDCWD, path, true, |to| real(to.as_ptr(), project));
    plain [inotify_add_watch](fd: c_int, path: *const c_char, mask: u32) -> c_int = |real| {
        let follow = mask & libc::IN_DONT_FOLLOW == 0;
        where_it_lies(AT_FDCWD, path, follow, |to| real(fd, to.as_ptr(), mask))
    };
    plain [name_to_handle_at](
        dirfd: c_int, path: *const c_char, handle: *mut c_void, mount: *mut c_int, flags: c_int
    ) -> c_int = |real| where_it_lies(dirfd, path, flags & libc::AT_SYMLINK_FOLLOW != 0, |to| {
        real(AT_FDCWD, to.as_ptr(), handle, mount, flags)
    });
}

unsafe fn where_it_lies<T: PartialEq + From<i8>>(
    dirfd: c_int,
    path: *const c_char,
    follow: bool,
    call: impl Fn(&CStr) -> T,
) -> Option<T> {
    let job = |mut question: Question| match question.lookup(follow) {
        Answer::Pass | Answer::Done | Answer::Stat(_) => Outcome::Pass,
        Answer::Fail(code) => Outcome::Fail(code),
        Answer::Redirect(to) => {
            guard::set_errno(0);
            match call(&to) {
                // pathconf(3) returns -1 for "no limit", too, and leaves errno alone.
                failed if failed == T::from(-1) && guard::errno() != 0 => {
                    Outcome::Fail(guard::errno())
                }
                value => Outcome::Done(value),
            }
        }
    };
    // SAFETY: `path` is null or a C string of the program.
    unsafe { below_prefix(T::from(-1), dirfd, path, job) }
}
