//! What evicted datasets have left in the store: their pages and blocks are given back by the
//! helper thread, and pages for the next files found, so that no sync point waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use crate::cache::{Evicted, OldFile};
use crate::log;

/// To wake a thread takes longer than to remove less, a rank.
const AT_ONCE_BYTES: u64 = 8 << 20;

#[derive(Debug, Default)]
pub struct Leftovers {
    waiting: Mutex<Vec<Evicted>>,
    used: Mutex<Vec<OldFile>>,
    /// No more files are going to be made.
    ends: AtomicBool,
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

    /// Removes it at once if it is small, and nothing is `used` again, or if there is no thread for
    /// it.
    pub fn add(&self, evicted: Vec<Evicted>, used: Vec<OldFile>) {
        let is_small = evicted.iter().map(Evicted::bytes).sum::<u64>() < AT_ONCE_BYTES;
        let at_once = used.is_empty() && is_small;
        lock(&self.waiting).extend(evicted);
        lock(&self.used).extend(used);
        match self.helper.get() {
            Some(helper) if !at_once => helper.unpark(),
            _ => self.remove(),
        }
    }

    /// Removes all that is there, or waits until another thread has.
    pub fn remove(&self) {
        let _one = lock(&self.removing);
        while let Some(used) = take(&self.used) {
            used.empty(|| self.ends.load(Ordering::Relaxed));
        }
        while let Some(evicted) = take(&self.waiting) {
            if let Err(error) = evicted.remove() {
                log::message(1, format_args!("an evicted checkpoint stays: {error}"));
            }
        }
    }

    /// Removes all that is there: nobody makes any more files.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
        self.remove();
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take<T>(from: &Mutex<Vec<T>>) -> Option<T> {
    lock(from).pop()
}
