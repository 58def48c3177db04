//! What the prefix has: index and summaries (`index.rs`, `repair.rs`), looks at its files
//! (`verify.rs`, `check.rs`), older generations (`replaced.rs`), and how datasets leave it
//! (`window.rs`, `removed.rs`).

pub(super) mod check;
pub(super) mod findings;
pub(super) mod index;
pub(super) mod others;
pub(super) mod paths;
pub(super) mod removed;
pub(super) mod repair;
pub(super) mod replaced;
pub(super) mod verify;
pub(super) mod wholes;
pub(super) mod window;
