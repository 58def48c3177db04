//! What a node has: its directories and stores, the records of its ranks, and who shares them.

pub(super) mod address;
pub(crate) mod agree;
pub(super) mod context;
pub(crate) mod disk;
pub(crate) mod layout;
pub(crate) mod names;
pub(super) mod origin;
pub(super) mod owner;
pub(super) mod scatter;
pub(super) mod sharing;
pub(super) mod store;
pub(super) mod untouched;
