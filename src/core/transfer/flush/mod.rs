//! A dataset from the cache to the prefix. `sync_flush.rs`: by all ranks together;
//! `async_flush.rs`: by threads, with a transfer file (`ledger.rs`); `afterwards.rs`: the same once
//! the program has gone; `background.rs`: a rank's own files; `shares.rs`: by those who have the
//! files.

pub(super) mod afterwards;
pub(super) mod async_flush;
pub(super) mod background;
mod leader_sign;
mod ledger;
pub(super) mod polling;
pub(super) mod shares;
pub(super) mod sync_flush;
mod throttle;
mod turns;
mod work;
