//! Calls that ask about one name, or have it watched, and need nothing but the file's place.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};

use libc::{AT_FDCWD, key_t};

use crate::engine::ask::Answer;
use crate::fd::handle::Outcome;
use crate::hooks::below::below_prefix;
use crate::hooks::family::interpose;
use crate::path::question::Question;
use crate::signal::guard;

type Pathconf = unsafe extern "C-unwind" fn(*const c_char, c_int) -> c_long;
type Ftok = unsafe extern "C-unwind" fn(*const c_char, c_int) -> key_t;
type Watch = unsafe extern "C-unwind" fn(c_int, *const c_char, u32) -> c_int;
type Handle =
    unsafe extern "C-unwind" fn(c_int, *const c_char, *mut c_void, *mut c_int, c_int) -> c_int;

interpose! {
    plain [pathconf](path: *const c_char, name: c_int) -> c_long = Pathconf => pathconf;
    plain [ftok](path: *const c_char, project: c_int) -> key_t = Ftok => ftok;
    plain [inotify_add_watch](fd: c_int, path: *const c_char, mask: u32) -> c_int
        = Watch => inotify_add_watch;
    plain [name_to_handle_at](
        dirfd: c_int, path: *const c_char, handle: *mut c_void, mount: *mut c_int, flags: c_int
    ) -> c_int = Handle => name_to_handle_at;
}

/// `None`: the real call on the program's own name.
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

unsafe fn pathconf(real: Pathconf, path: *const c_char, name: c_int) -> c_long {
    // SAFETY: the program's arguments, or a path of ours in place of its own; here and below.
    unsafe {
        where_it_lies(AT_FDCWD, path, true, |to| real(to.as_ptr(), name))
            .unwrap_or_else(|| real(path, name))
    }
}

unsafe fn ftok(real: Ftok, path: *const c_char, project: c_int) -> key_t {
    // SAFETY: as in `pathconf`.
    unsafe {
        where_it_lies(AT_FDCWD, path, true, |to| real(to.as_ptr(), project))
            .unwrap_or_else(|| real(path, project))
    }
}

unsafe fn inotify_add_watch(real: Watch, fd: c_int, path: *const c_char, mask: u32) -> c_int {
    let follow = mask & libc::IN_DONT_FOLLOW == 0;
    // SAFETY: as in `pathconf`.
    unsafe {
        where_it_lies(AT_FDCWD, path, follow, |to| real(fd, to.as_ptr(), mask))
            .unwrap_or_else(|| real(fd, path, mask))
    }
}

unsafe fn name_to_handle_at(
    real: Handle,
    dirfd: c_int,
    path: *const c_char,
    handle: *mut c_void,
    mount: *mut c_int,
    flags: c_int,
) -> c_int {
    let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
    // SAFETY: as in `pathconf`.
    unsafe {
        where_it_lies(dirfd, path, follow, |to| real(AT_FDCWD, to.as_ptr(), handle, mount, flags))
            .unwrap_or_else(|| real(dirfd, path, handle, mount, flags))
    }
}
