//! Descriptors, streams and mappings: opened, used, closed.

mod asynchronous;
pub(super) mod close;
mod data;
mod formatted;
pub(super) mod intent;
mod lengths;
mod mapping;
pub(super) mod open;
mod reads;
mod stdio;
pub(super) mod unseen_mappings;
