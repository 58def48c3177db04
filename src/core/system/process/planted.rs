//! Mistakes made on purpose, to show that the tests would find them. Nothing but a test plants one:
//! no setting does, and no call of the interfaces.
//!
//! They are in every build: the tests run what the users run, and need no build of their own.

use std::cell::Cell;

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Older datasets are removed when a seal begins, not when the new one is complete.
    EvictEarly,
    /// Ranks of a node are taken for ones that do not fail together.
    NodesUnheeded,
    /// There is no redundancy data.
    NoRedundancy,
    /// The cache is cleared before the last flush.
    ClearEarly,
}

thread_local! {
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// Lets the calling thread make this mistake from now on.
pub fn plant(mistake: Option<Planted>) {
    PLANTED.set(mistake);
}

pub fn planted(mistake: Planted) -> bool {
    PLANTED.get() == Some(mistake)
}
