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
