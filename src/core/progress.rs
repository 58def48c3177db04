//! What this process is at, for whoever shows it: one step at a time, and how far it has come. Work
//! notes what it does and calls nobody, so that it costs nothing where nobody looks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a step counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// If it is known how many there will be.
    Bytes(Option<u64>),
    /// As nodes or datasets.
    Things(u64),
}

/// A step, as it is at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepNow {
    /// As "copying".
    pub what: String,
    /// How much there is to do.
    pub total: Total,
    /// In the unit of the total.
    pub done: u64,
    /// Tells this step from others.
    pub number: u64,
}

static STEP: Mutex<Option<StepNow>> = Mutex::new(None);
static STEPS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static THINGS: AtomicU64 = AtomicU64::new(0);

/// A step that is under way; it ends when this is dropped.
#[must_use]
pub struct CurrentStep {
    /// False if it is a part of another one.
    counts: bool,
}

/// Begins a step. One that begins within another is a part of that, and not seen.
pub fn step(what: &str, total: Total) -> CurrentStep {
    let mut now = state();
    if now.is_some() {
        return CurrentStep { counts: false };
    }
    BYTES.store(0, Ordering::Relaxed);
    THINGS.store(0, Ordering::Relaxed);
    let number = STEPS.fetch_add(1, Ordering::Relaxed);
    *now = Some(StepNow { what: what.to_owned(), total, done: 0, number });
    CurrentStep { counts: true }
}

impl CurrentStep {
    /// Notes that one of the things of this step is done.
    pub fn add_thing(&self) {
        if self.counts {
            THINGS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for CurrentStep {
    fn drop(&mut self) {
        if self.counts {
            *state() = None;
        }
    }
}

/// Notes that so many bytes more were read or copied, whatever for.
pub fn add_bytes(count: u64) {
    BYTES.fetch_add(count, Ordering::Relaxed);
}

/// Returns the step that is under way.
#[must_use]
pub fn seen() -> Option<StepNow> {
    let step = state().clone()?;
    let counter = match step.total {
        Total::Bytes(_) => &BYTES,
        Total::Things(_) => &THINGS,
    };
    Some(StepNow { done: counter.load(Ordering::Relaxed), ..step })
}

fn state() -> MutexGuard<'static, Option<StepNow>> {
    STEP.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_step_is_seen_until_it_ends() {
        let seen_as = |what: &str| seen().filter(|one| one.what == what);
        // Tests beside this one may have a step under way.
        let nodes = loop {
            let nodes = step("nodes", Total::Things(2));
            if nodes.counts {
                break nodes;
            }
            std::thread::yield_now();
        };
        let inner = step("copying", Total::Bytes(Some(10)));
        inner.add_thing();
        nodes.add_thing();
        add_bytes(7);
        drop(inner);
        let found = seen_as("nodes").unwrap();
        assert_eq!((found.total, found.done), (Total::Things(2), 1));
        drop(nodes);
        assert_eq!(seen_as("nodes"), None);
    }
}
