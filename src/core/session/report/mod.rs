//! What a launch tells of itself.
//!
//! | file | job |
//! |---|---|
//! | `events.rs` | the log of events |
//! | `words.rs` | lines for the user, by one rank |
//! | `paces.rs` | how fast each node seals and flushes |
//! | `passed.rs` | what went straight to the prefix, and why |
//! | `phases.rs` | the program's phases in that log |
//! | `unprotected.rs` | a launch whose patterns match nothing |

pub(super) mod events;
mod paces;
mod passed;
pub(super) mod phases;
pub(super) mod unprotected;
mod words;
