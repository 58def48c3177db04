//! How a hook does its work, and how it goes on.

use std::ffi::c_int;

use crate::engine::{self, ActiveEngine};
use crate::{fd::reuse, signal::guard};

pub(crate) enum Outcome<T> {
    /// The real call is made with the program's own arguments.
    Pass,
    Done(T),
    Fail(c_int),
}

impl Outcome<c_int> {
    /// Reads `errno`, so it must follow the real call at once.
    pub(crate) fn of(result: c_int) -> Self {
        if result == -1 { Self::Fail(guard::errno()) } else { Self::Done(result) }
    }
}

/// Returns `None` where the real call is to be made.
pub(crate) fn handle<T>(
    failed: T,
    active: &'static ActiveEngine,
    job: impl FnOnce() -> Outcome<T>,
) -> Option<T> {
    let job = || if engine::own_process() { job() } else { Outcome::Pass };
    handle_in_own(failed, active, job)
}

/// Does what [`handle`] does where it is known that this is no vfork child.
#[inline(never)]
pub(crate) fn handle_in_own<T>(
    failed: T,
    _active: &'static ActiveEngine,
    job: impl FnOnce() -> Outcome<T>,
) -> Option<T> {
    reuse::settle();
    match guard::work(job)? {
        Outcome::Pass => None,
        Outcome::Done(value) => Some(value),
        Outcome::Fail(code) => {
            guard::set_errno(code);
            Some(failed)
        }
    }
}
