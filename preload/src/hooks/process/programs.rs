//! Programs that lie in the cache: the kernel finds them where they are. A script's interpreter
//! gets that name, too.

use std::ffi::{CStr, CString, c_char, c_int};

use libc::AT_FDCWD;

use crate::child;
use crate::engine::ask::Answer;
use crate::fd::in_order;
use crate::hooks::family::made;
use crate::path::glance::{self, NameIs};
use crate::path::question::Question;
use crate::{engine, path::canonical, signal::guard};

made! {
    plain [execv, execvp](path: *const c_char, arguments: *const *mut c_char) -> c_int = |real| {
        in_order::stop_all(); // as in execve(2)
        with_place(path, |path| real(path, arguments))
    };
}

/// Makes `call` with the place of the program if that is cached. Safety: `path` is null or a C
/// string.
pub(super) unsafe fn with_place<T>(
    path: *const c_char,
    call: impl FnOnce(*const c_char) -> T,
) -> T {
    if path.is_null() || engine::active().is_none() || guard::inside() {
        return call(path);
    }
    // SAFETY: not null, so a C string by this function's contract.
    let place = place_of(unsafe { CStr::from_ptr(path) });
    call(place.as_ref().map_or(path, |place| place.as_ptr()))
}

/// The rank is asked through its door even in its own process: the caller may be a vfork child,
/// which has our memory, but is no thread of ours.
fn place_of(path: &CStr) -> Option<CString> {
    let active = child::active()?;
    if !path.to_bytes().contains(&b'/') {
        return None; // looked for in PATH
    }
    let glance = || glance::at(&active.prefix, AT_FDCWD, path.to_bytes());
    if guard::look(glance)? != NameIs::MayBeBelow {
        return None;
    }
    guard::work(|| {
        let path = absolute(path)?;
        let path = canonical::locate(&active.prefix, AT_FDCWD, path.as_bytes())?;
        let (engine, prefix) = (&active.table, active.prefix.as_slice());
        let mut question = Question { engine, prefix, path, written: None };
        match child::opens(&mut question, libc::O_RDONLY) {
            Answer::Redirect(place) if may_run(&place) => Some(place),
            Answer::Redirect(_) => {
                // As for a child that is to change it: the prefix has it from then on.
                child::opens(&mut question, libc::O_WRONLY);
                None
            }
            _ => None,
        }
    })
    .flatten()
}

/// The memory of the working directory is not used: a vfork child may have another one.
fn absolute(path: &CStr) -> Option<CString> {
    if path.to_bytes().starts_with(b"/") {
        return Some(path.to_owned());
    }
    let mut buffer = [0 as c_char; libc::PATH_MAX as usize];
    // SAFETY: the buffer is writable for its length; on success it holds a C string.
    let here = unsafe {
        if libc::getcwd(buffer.as_mut_ptr(), buffer.len()).is_null() {
            return None;
        }
        CStr::from_ptr(buffer.as_ptr())
    };
    CString::new([here.to_bytes(), b"/", path.to_bytes()].concat()).ok()
}

/// A file system may be mounted without leave to run programs, as some have /dev/shm.
fn may_run(place: &CStr) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: statvfs writes the structure when it returns 0.
    unsafe {
        libc::statvfs(place.as_ptr(), found.as_mut_ptr()) != 0
            || found.assume_init().f_flag & libc::ST_NOEXEC == 0
    }
}
