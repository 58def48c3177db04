//! What the program has said by calls of SCR (API manual).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub in_use: AtomicBool,
    /// That has started the session: there is no shim.
    pub starts: AtomicBool,
    /// Files below the prefix that it writes or has written through us: no pattern matches them.
    claimed: Mutex<BTreeSet<String>>,
}

impl Calls {
    pub fn claimed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    pub fn has_claimed(&self, name: &str) -> bool {
        self.is_in_use() && self.claimed().contains(name)
    }
}
