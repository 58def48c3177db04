//! A lock that a forked child can take, whatever threads the parent had: each generation of
//! processes has a lock and a value of its own, since those of the parent may have been held, or
//! waited for, at the fork by a thread that the child does not have.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// Forks without exec, one below the other, that are served.
pub(crate) const GENERATIONS: usize = 16;

static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// See the file head. Made of `[const { Mutex::new(...) }; GENERATIONS]`.
pub(crate) struct Lock<T>([Mutex<T>; GENERATIONS]);

impl<T> Lock<T> {
    /// Makes a lock of one for each generation.
    pub(crate) const fn new(each: [Mutex<T>; GENERATIONS]) -> Self {
        Self(each)
    }

    fn own(&self) -> &Mutex<T> {
        &self.0[GENERATION.load(Ordering::Relaxed) % GENERATIONS]
    }

    /// Waits for it.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.own().lock()
    }

    /// Tells whether any thread has it.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.own().is_locked()
    }
}

/// Notes that the calling process was forked just now. False: there are no locks for it, so it must
/// take none.
pub(crate) fn forked() -> bool {
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1 < GENERATIONS
}
