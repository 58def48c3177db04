//! What an earlier launch left, and with what the program goes on.
//!
//! | file | job |
//! |---|---|
//! | `restore.rs` | what the cache holds comes into view |
//! | `arrival.rs` | what the settings ask of a start: purge, publish, drop |
//! | `offered.rs` | what of the cache the state machine begins with |
//! | `telling.rs` | what a restart tells |
//! | `generations.rs` | the way back to an older one without an id |
//! | `going_back.rs` | the user has a run go back to an older one |
//! | `staying.rs` | newer ones than the cache has, which are read where they are |
//! | `stranded.rs` | those that the nodes have no room to move |
//! | `links.rs` | symbolic links to a checkpoint that a lost run had made the newest |

pub(super) mod arrival;
pub(super) mod generations;
pub(super) mod going_back;
pub(super) mod links;
pub(super) mod offered;
pub(super) mod restore;
pub(super) mod staying;
pub(super) mod stranded;
pub(super) mod telling;
