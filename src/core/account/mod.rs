//! What a run tells of itself, as far as it can be said without a session: counters, the places of
//! its log, the run record.
//!
//! | file | job |
//! |---|---|
//! | `tally.rs` | what a rank did and what it cost |
//! | `log_places.rs` | where the log of events is written |
//! | `deleted.rs` | events of datasets that have left the prefix |
//! | `flush_file.rs` | what the flush file says |
//! | `calls.rs` | what the program has said by calls of SCR |
//! | `run_book.rs` | what is known for the run record |
//! | `paces.rs` | how fast each node seals and flushes |
//! | `passed.rs` | what went straight to the prefix, and why |
//! | `unmatched.rs` | names that no pattern matches |
//! | `watchdog.rs` | whether the run gets on |

pub(crate) mod calls;
pub(crate) mod deleted;
pub(crate) mod flush_file;
pub(crate) mod log_places;
pub(crate) mod paces;
pub(crate) mod passed;
pub(crate) mod run_book;
pub(crate) mod tally;
pub(crate) mod unmatched;
pub(crate) mod watchdog;

pub use log_places::{log_database, log_sinks, log_text};
