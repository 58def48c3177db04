//! Replaces descriptors on a copy that must not change by ones on a copy that may.

use std::ffi::c_int;

use parking_lot::Mutex;

use crate::abi::Engine;
use crate::ask::{Outcome, handle};
use crate::{engine, guard, open_files};

/// Held while descriptors are replaced, so that of two threads that write one waits.
static WAKING: Mutex<()> = Mutex::new(());

/// Replaces the descriptors of `token`, and of all others on the same file: they are to see the
/// change. Guard held, no lock.
pub(crate) fn wake(table: &Engine, token: u64) -> bool {
    let _one_at_a_time = WAKING.lock();
    let lazy = open_files::lazy_holders();
    let Some(&(_, first)) = lazy.iter().find(|(held, _)| *held == token) else { return true };
    let mut done = true;
    for (token, fd) in open_files::holders_of_same_file(first) {
        if !lazy.iter().any(|(held, _)| *held == token) {
            continue;
        }
        match (table.evacuate)(token, fd) {
            -1 => done = false,
            new => {
                replace(token, new);
                open_files::woken(token);
            }
        }
    }
    done
}

/// Before a fork: the child's writes pass no hook of this process.
pub(crate) fn wake_all() {
    if let Some(active) = engine::active() {
        let _: Option<()> = handle((), active, || {
            for (token, _) in open_files::lazy_holders() {
                wake(&active.table, token);
            }
            Outcome::Pass
        });
    }
}

/// For [`crate::abi::Host::wake`].
pub(crate) extern "C" fn wake_token(token: u64) {
    if let Some(active) = engine::active() {
        // The engine's own threads, and a call from inside a hook, hold the guard already.
        guard::enter_thread();
        wake(&active.table, token);
        guard::leave_thread();
    }
}

/// Puts `new` in place of every descriptor of `token`. Guard held.
pub(crate) fn replace(token: u64, new: c_int) {
    for fd in open_files::descriptors_of(token) {
        // SAFETY: system calls on numbers only. The guard is held, so the claims stay as they are.
        unsafe {
            let marks = libc::fcntl(fd, libc::F_GETFD);
            let close_on_exec = if marks & libc::FD_CLOEXEC == 0 { 0 } else { libc::O_CLOEXEC };
            libc::dup3(new, fd, close_on_exec);
        }
    }
    // SAFETY: the engine gave us the descriptor.
    unsafe { libc::close(new) };
}
