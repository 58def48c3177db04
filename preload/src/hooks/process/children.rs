//! Children that are made without fork(2)'s handlers, and the end of any: what a child writes, and
//! what it does to names (`ln -sfn` by system(3), say), passes no hook of this process.

use std::ffi::{c_char, c_int, c_void};

use libc::{FILE, id_t, idtype_t, pid_t, siginfo_t};

use crate::hooks::family::{interpose, made};
use crate::hooks::process::environment::with_rank;
use crate::hooks::process::file_actions::before_spawn;
use crate::hooks::process::programs::with_place;
use crate::{engine, fd::lazy, path::canonical};

type Spawn = unsafe extern "C-unwind" fn(
    *mut pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    *const *mut c_char,
    *const *mut c_char,
) -> c_int;
type System = unsafe extern "C-unwind" fn(*const c_char) -> c_int;

interpose! {
    plain [posix_spawn, posix_spawnp](
        pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: *const *mut c_char, environment: *const *mut c_char
    ) -> c_int = Spawn => spawn;
    cancellable [system](command: *const c_char) -> c_int = System => system;
}

made! {
    plain [popen](command: *const c_char, mode: *const c_char) -> *mut FILE = |real| {
        lazy::before_fork();
        let stream = real(command, mode);
        lazy::after_fork();
        stream
    };
    cancellable [pclose](stream: *mut FILE) -> c_int = |real| ended(real(stream));
    cancellable [wait, __wait](status: *mut c_int) -> pid_t = |real| ended(real(status));
    cancellable [waitpid, __waitpid](pid: pid_t, status: *mut c_int, options: c_int) -> pid_t
        = |real| reaped(real(pid, status, options));
    cancellable [wait3](status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t
        = |real| reaped(real(status, options, usage));
    cancellable [wait4](pid: pid_t, status: *mut c_int, options: c_int, usage: *mut c_void)
        -> pid_t = |real| reaped(real(pid, status, options, usage));
    cancellable [waitid](what: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int
        = |real| ended(real(what, id, info, options));
}

/// What was known of names may be so no more.
fn ended(result: c_int) -> c_int {
    if result >= 0 && engine::active().is_some() {
        canonical::forget();
    }
    result
}

/// Serves a call that gives a child's number, or 0 while there is none.
fn reaped(result: pid_t) -> pid_t {
    if result == 0 { result } else { ended(result) }
}

unsafe fn spawn(
    real: Spawn,
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *mut c_char,
    environment: *const *mut c_char,
) -> c_int {
    if let Some(code) = before_spawn(actions) {
        return code;
    }
    lazy::before_fork();
    // SAFETY: the program's own call, here and below.
    let result = unsafe {
        with_place(path, |path| {
            with_rank(environment, |environment| {
                real(pid, path, actions, attributes, arguments, environment)
            })
        })
    };
    lazy::after_fork();
    result
}

unsafe fn system(real: System, command: *const c_char) -> c_int {
    if !command.is_null() {
        lazy::before_fork();
    }
    // SAFETY: as in `spawn`.
    let result = unsafe { real(command) };
    lazy::after_fork();
    ended(result)
}
