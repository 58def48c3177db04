//! Sync points: the agreement, and what a conference decides, done.
//!
//! | file | job |
//! |---|---|
//! | `sync.rs` | the agreement, and the conference when there is something to do |
//! | `streams.rs` | where the calls on each communicator of the program agree |
//! | `encode.rs` | what a seal is asked for; encoding beside the program |
//! | `perform.rs` | what it has decided, done by all ranks in the same order |
//! | `eviction.rs` | a dataset leaves the cache |
//! | `trouble.rs` | checkpoints that cannot be completed in the cache; the end of its use |
//! | `contested.rs` | whether each file of a sealed dataset has one writer |

pub(super) mod contested;
pub(super) mod encode;
pub(super) mod eviction;
pub(super) mod perform;
pub(super) mod streams;
pub(super) mod sync;
pub(super) mod trouble;
