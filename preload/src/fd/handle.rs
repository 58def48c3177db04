//! How a hook does its work, and how it goes on.

use std::ffi::c_int;

use crate::engine::{self, ActiveEngine};
use crate::{fd::reuse, signal::guard};

/// How a hook goes on.
pub(crate) enum Outcome<T> {
    /// The real call with the program's own arguments.
    Pass,
    /// The hook returns this.
    Done(T),
    /// The hook fails with this `errno`.
    Fail(c_int),
}

impl Outcome<c_int> {
    /// Makes an outcome of what a real call returned; must follow it at once, since it reads
    /// `errno`.
    pub(crate) fn of(result: c_int) -> Self {
        if result == -1 { Self::Fail(guard::errno()) } else { Self::Done(result) }
    }
}

/// Runs `job` as our own work; `None` means: make the real call.
#[inline(never)]
pub(crate) fn handle<T>(
    failed: T,
    _active: &'static ActiveEngine,
    job: impl FnOnce() -> Outcome<T>,
) -> Option<T> {
    reuse::settle();
    let outcome = guard::work(|| if engine::own_process() { job() } else { Outcome::Pass })?;
    match outcome {
        Outcome::Pass => None,
        Outcome::Done(value) => Some(value),
        Outcome::Fail(code) => {
            guard::set_errno(code);
            Some(failed)
        }
    }
}
