//! Mistakes made on purpose, to show that the tests would find them. Only the crate's own tests are
//! built with them (the feature `planted`).

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

/// Tells whether the calling thread makes this mistake.
pub fn planted(mistake: Planted) -> bool {
    cfg!(feature = "planted") && PLANTED.get() == Some(mistake)
}
