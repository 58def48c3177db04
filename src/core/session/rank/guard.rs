//! Locks of what an owner has beside the state.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what no panic leaves in a state that is worse than none.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
