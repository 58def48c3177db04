//! What is read while the program runs, and nobody waits for.

pub(super) mod late;
pub(super) mod recheck;
