//! What evicted datasets have left in the store: their pages and blocks are given back by the
//! helper thread, so that no sync point waits for it.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use crate::cache::Evicted;
use crate::log;

/// To wake a thread takes longer than to remove less, a rank.
const AT_ONCE_BYTES: u64 = 8 << 20;

#[derive(Debug, Default)]
pub struct Leftovers {
    waiting: Mutex<Vec<Evicted>>,
    /// Held while something is removed: whoever adds something does not wait for that.
    removing: Mutex<()>,
    helper: OnceLock<Thread>,
}

impl Leftovers {
    /// Makes the calling thread the one that is unparked when there is something to remove.
    pub fn leave_to_this_thread(&self) {
        let _ = self.helper.set(std::thread::current());
    }

    /// Takes what there is at the start; nothing of it is removed yet.
    pub fn of(found: Vec<Evicted>) -> Leftovers {
        Leftovers { waiting: Mutex::new(found), ..Leftovers::default() }
    }

    /// Removes it at once if it is small, or there is no thread for it.
    pub fn add(&self, evicted: Vec<Evicted>) {
        let is_small = evicted.iter().map(Evicted::bytes).sum::<u64>() < AT_ONCE_BYTES;
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(evicted);
        match self.helper.get() {
            Some(helper) if !is_small => helper.unpark(),
            _ => self.remove(),
        }
    }

    /// Removes all that is there, or waits until another thread has.
    pub fn remove(&self) {
        let _one = self.removing.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = || self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(evicted) = waiting() {
            if let Err(error) = evicted.remove() {
                log::message(1, format_args!("an evicted checkpoint stays: {error}"));
            }
        }
    }
}
