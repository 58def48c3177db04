//! What the prefix has: index and summaries, looks at its files, and how datasets leave it.
//!
//! | file | job |
//! |---|---|
//! | `paths.rs` | where what is ours lies on the prefix |
//! | `index.rs` | index and summaries: what is on the prefix, and whether it is whole |
//! | `verify.rs` | whether the files on the prefix are still what the index says |
//! | `check.rs` | the same by one process, for a person |
//! | `findings.rs` | what a look at them has found, and what follows |
//! | `others.rs` | what other datasets have under the same names |
//! | `replaced.rs` | older generations of a series without ids, and the way back to them |
//! | `window.rs` | datasets leave the prefix |
//! | `repair.rs` | a damaged index, made anew from the summaries |

pub(super) mod check;
pub(super) mod findings;
pub(super) mod index;
pub(super) mod others;
pub(super) mod paths;
pub(super) mod removed;
pub(super) mod repair;
pub(super) mod replaced;
pub(super) mod verify;
pub(super) mod window;
