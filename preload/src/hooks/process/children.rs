//! Children that are made without fork(2)'s handlers, and the end of any: what a child writes, and
//! what it does to names (`ln -sfn` by system(3), say), passes no hook of this process.

use std::ffi::{c_char, c_int, c_void};

use libc::{FILE, id_t, idtype_t, pid_t, siginfo_t};

use crate::hooks::family::interpose;
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
type Popen = unsafe extern "C-unwind" fn(*const c_char, *const c_char) -> *mut FILE;
type System = unsafe extern "C-unwind" fn(*const c_char) -> c_int;
type Pclose = unsafe extern "C-unwind" fn(*mut FILE) -> c_int;
type Wait = unsafe extern "C-unwind" fn(*mut c_int) -> pid_t;
type WaitPid = unsafe extern "C-unwind" fn(pid_t, *mut c_int, c_int) -> pid_t;
type Wait3 = unsafe extern "C-unwind" fn(*mut c_int, c_int, *mut c_void) -> pid_t;
type Wait4 = unsafe extern "C-unwind" fn(pid_t, *mut c_int, c_int, *mut c_void) -> pid_t;
type WaitId = unsafe extern "C-unwind" fn(idtype_t, id_t, *mut siginfo_t, c_int) -> c_int;

interpose! {
    plain [posix_spawn, posix_spawnp](
        pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: *const *mut c_char, environment: *const *mut c_char
    ) -> c_int = Spawn => spawn;
    plain [popen](command: *const c_char, mode: *const c_char) -> *mut FILE = Popen => popen;
    cancellable [system](command: *const c_char) -> c_int = System => system;
    cancellable [pclose](stream: *mut FILE) -> c_int = Pclose => pclose;
    cancellable [wait, __wait](status: *mut c_int) -> pid_t = Wait => wait;
    cancellable [waitpid, __waitpid](pid: pid_t, status: *mut c_int, options: c_int) -> pid_t
        = WaitPid => waitpid;
    cancellable [wait3](status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t
        = Wait3 => wait3;
    cancellable [wait4](pid: pid_t, status: *mut c_int, options: c_int, usage: *mut c_void)
        -> pid_t = Wait4 => wait4;
    cancellable [waitid](what: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int
        = WaitId => waitid;
}

/// What was known of names may be so no more.
fn ended(result: c_int) -> c_int {
    if result >= 0 && engine::active().is_some() {
        canonical::forget();
    }
    result
}

/// The same for a call that gives a child's number, or 0 while there is none.
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

unsafe fn popen(real: Popen, command: *const c_char, mode: *const c_char) -> *mut FILE {
    lazy::before_fork();
    // SAFETY: as in `spawn`.
    let stream = unsafe { real(command, mode) };
    lazy::after_fork();
    stream
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

unsafe fn pclose(real: Pclose, stream: *mut FILE) -> c_int {
    // SAFETY: as in `spawn`.
    ended(unsafe { real(stream) })
}

unsafe fn wait(real: Wait, status: *mut c_int) -> pid_t {
    // SAFETY: as in `spawn`.
    ended(unsafe { real(status) })
}

unsafe fn waitpid(real: WaitPid, pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: as in `spawn`.
    reaped(unsafe { real(pid, status, options) })
}

unsafe fn wait3(real: Wait3, status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t {
    // SAFETY: as in `spawn`.
    reaped(unsafe { real(status, options, usage) })
}

unsafe fn wait4(
    real: Wait4,
    pid: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut c_void,
) -> pid_t {
    // SAFETY: as in `spawn`.
    reaped(unsafe { real(pid, status, options, usage) })
}

unsafe fn waitid(
    real: WaitId,
    what: idtype_t,
    id: id_t,
    info: *mut siginfo_t,
    options: c_int,
) -> c_int {
    // SAFETY: as in `spawn`.
    ended(unsafe { real(what, id, info, options) })
}
