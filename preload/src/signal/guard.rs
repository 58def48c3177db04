//! The guard: the scope in which hooks do work of their own, whose calls pass all hooks. A lock of
//! the shim is taken only while it is held, and then the thread's signal handlers wait
//! ([`crate::signal::handlers`]); one that does not, because it was set behind our back, passes
//! through. The engine is called only from [`work`], or with both marks of [`crate::base::thread`]
//! set.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use crate::base::errno::{errno, set_errno};
use crate::base::thread::set_inside;
pub(crate) use crate::base::thread::{enter_thread, inside, leave_thread, step_in, step_out};
use crate::signal::handlers;

// Not in the libc crate for Linux; part of glibc and musl since ever.
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Runs `job` with the guard held, cancellation deferred, panics caught and `errno` preserved; in a
/// signal handler on another thread. `None`: the thread is inside already, or the job panicked (its
/// message has been printed), and the hook passes through.
pub(crate) fn work<T>(job: impl FnOnce() -> T) -> Option<T> {
    if inside() {
        return None;
    }
    let saved = errno();
    let mut state = 0;
    // A thread that is cancelled below a catch_unwind aborts the process.
    // SAFETY: the pointer is valid for the call.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut state) };
    set_inside(1);
    let result = handlers::run(|| catch_unwind(AssertUnwindSafe(job)));
    set_inside(0);
    // SAFETY: restores the state that the call above stored.
    unsafe { pthread_setcancelstate(state, std::ptr::null_mut()) };
    set_errno(saved);
    result?.ok()
}

/// Runs a job that allocates nothing and waits for nobody; in a signal handler on another thread,
/// whose stack has room for it.
pub(crate) fn look<T>(job: impl FnOnce() -> T) -> Option<T> {
    let saved = errno();
    set_inside(1);
    let result = handlers::run_look(job);
    set_inside(0);
    set_errno(saved);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_work_passes_and_errno_survives() {
        set_errno(7);
        let nested = work(|| {
            set_errno(9);
            work(|| ()).is_none()
        });
        assert_eq!(nested, Some(true));
        assert_eq!(errno(), 7);
        assert!(!inside());
    }

    #[test]
    fn a_panic_leaves_the_guard() {
        assert!(work(|| panic!("expected by the test")).is_none());
        assert!(!inside());
    }
}
