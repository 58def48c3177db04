//! What the program has said by calls of SCR (API manual), as far as others than `program/` need
//! it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the program has told by calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// It has called SCR_Init.
    pub in_use: AtomicBool,
    /// And that has started the session: there is no shim.
    pub starts: AtomicBool,
    /// Files below the prefix that it writes or has written through us: no pattern matches them.
    claimed: Mutex<BTreeSet<String>>,
}

impl Calls {
    /// Locks the names of the files that the program has the say over.
    pub fn claimed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether the program has called SCR_Init.
    pub fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Tells whether the program has the say over this file; no pattern matches it.
    pub fn has_claimed(&self, name: &str) -> bool {
        self.is_in_use() && self.claimed().contains(name)
    }
}
