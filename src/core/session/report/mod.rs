//! What a launch tells of itself.
//!
//! | file | job |
//! |---|---|
//! | `tally.rs` | what it did and what it cost |
//! | `events.rs` | the log of events |
//! | `words.rs` | lines for the user, by one rank |
//! | `log_places.rs` | where it is written |
//! | `run_book.rs` | what is known for the run record |
//! | `paces.rs` | how fast each node seals and flushes |
//! | `passed.rs` | what went straight to the prefix, and why |
//! | `phases.rs` | the program's phases in that log |
//! | `unprotected.rs` | a launch whose patterns match nothing, or that has none |

pub(super) mod events;
pub(super) mod log_places;
mod paces;
mod passed;
pub(super) mod phases;
pub(super) mod run_book;
pub(super) mod tally;
pub(super) mod unprotected;
mod words;
