//! A lock that a forked child can take, whatever threads the parent had: each generation of
//! processes has a lock and a value of its own, since those of the parent may have been held, or
//! waited for, at the fork by a thread that the child does not have.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

pub(crate) const GENERATIONS: usize = 16;

static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// The locks are `[const { Mutex::new(...) }; GENERATIONS]`.
pub(crate) struct Lock<T>([Mutex<T>; GENERATIONS]);

impl<T> Lock<T> {
    pub(crate) const fn new(each: [Mutex<T>; GENERATIONS]) -> Self {
        Self(each)
    }

    fn own(&self) -> &Mutex<T> {
        &self.0[GENERATION.load(Ordering::Relaxed) % GENERATIONS]
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.own().lock()
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.own().is_locked()
    }
}

/// Notes that this process was just forked. False: it has no locks, and must take none.
pub(crate) fn forked() -> bool {
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1 < GENERATIONS
}
