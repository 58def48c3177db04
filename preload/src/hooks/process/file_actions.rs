//! What posix_spawn(3) opens in the child, past all hooks. A cached file that is to be read is
//! opened by its place; of one that is to be written the rank is told as if the child had asked:
//! the PFS has it from then on, or both write one file, if the rank has it open.

use std::ffi::{CString, c_char, c_int, c_void};

use libc::{AT_FDCWD, mode_t};
use parking_lot::Mutex;

use crate::base::lock::{GENERATIONS, Lock};
use crate::engine::ask::Answer;
use crate::fd::handle::Outcome;
use crate::hooks::below::below_prefix;
use crate::hooks::family::{interpose, made};
use crate::path::question::Question;
use crate::{child, engine, signal::guard};

type AddOpen =
    unsafe extern "C-unwind" fn(*mut c_void, c_int, *const c_char, c_int, mode_t) -> c_int;

interpose! {
    plain [posix_spawn_file_actions_addopen](
        actions: *mut c_void, fd: c_int, path: *const c_char, flags: c_int, mode: mode_t
    ) -> c_int = AddOpen => add_open;
}

made! {
    plain [posix_spawn_file_actions_init, posix_spawn_file_actions_destroy]
        (actions: *mut c_void) -> c_int = |real| {
            forget(actions);
            real(actions)
        };
}

#[derive(Clone)]
struct Write {
    /// The address of the program's list of actions.
    actions: usize,
    path: CString,
    flags: c_int,
}

static WRITES: Lock<Vec<Write>> = Lock::new([const { Mutex::new(Vec::new()) }; GENERATIONS]);

/// Any number of spawns may follow, at any time, and the rank is told at each of them. Here it is
/// asked whether it has the file open itself.
unsafe fn add_open(
    real: AddOpen,
    actions: *mut c_void,
    fd: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    let reads = flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) == libc::O_RDONLY;
    let job = |mut question: Question| {
        let answer = match reads {
            true => question.lookup(true),
            false => child::opens(&mut question, flags),
        };
        match answer {
            Answer::Redirect(to) => {
                // SAFETY: the program's own call, with a path of ours in place of its own.
                Outcome::Done(unsafe { real(actions, fd, to.as_ptr(), flags, mode) })
            }
            _ => {
                let path = question.path;
                let write = || Write { actions: actions as usize, path, flags };
                WRITES.lock().extend((!reads).then(write));
                Outcome::Pass
            }
        }
    };
    // SAFETY: `path` is null or a C string; the program's own call.
    unsafe {
        let place = below_prefix(-1, AT_FDCWD, path, job);
        place.filter(|result| *result >= 0).unwrap_or_else(|| real(actions, fd, path, flags, mode))
    }
}

fn forget(actions: *mut c_void) {
    if engine::active().is_some() {
        let forget = || WRITES.lock().retain(|write| write.actions != actions as usize);
        let _: Option<()> = guard::work(forget);
    }
}

/// Returns the error that an open of the child would fail with.
pub(super) fn before_spawn(actions: *const c_void) -> Option<c_int> {
    let active = engine::active().filter(|_| !actions.is_null())?;
    guard::work(|| {
        let mut writes = WRITES.lock().clone();
        writes.retain(|write| write.actions == actions as usize);
        writes.into_iter().find_map(|Write { path, flags, .. }| {
            let (engine, prefix) = (&active.table, active.prefix.as_slice());
            let mut question = Question { engine, prefix, path, written: None };
            match child::opens(&mut question, flags) {
                Answer::Fail(code) => Some(code),
                _ => None,
            }
        })
    })?
}
