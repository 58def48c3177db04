//! A dataset from the cache to the prefix: by all ranks together, by threads, by who has its files.
//!
//! | file | job |
//! |---|---|
//! | `sync_flush.rs` | a whole dataset, all ranks together |
//! | `async_flush.rs`, `throttle.rs`, `work.rs` | the same by threads, while the program goes on |
//! | `ledger.rs`, `leader_sign.rs` | how far it is; what a node's leader has seen on the prefix |
//! | `polling.rs` | waiting for what others do |
//! | `turns.rs` | who of the threads waits for whom, and what each may take |
//! | `afterwards.rs` | the same by a process on each node, once the program has gone |
//! | `background.rs` | a rank's own files on a helper thread, without communication |
//! | `shares.rs` | a whole dataset, by those who have its files |

pub(super) mod afterwards;
pub(super) mod async_flush;
pub(super) mod background;
mod leader_sign;
mod ledger;
mod polling;
pub(super) mod shares;
pub(super) mod sync_flush;
mod throttle;
mod turns;
mod work;
