//! Calls that name a file: open, rename, unlink, link, and look-ups.
//!
//! | file | job |
//! |---|---|
//! | `opening.rs` | open |
//! | `changing.rs` | rename, unlink, rmdir |
//! | `intake.rs` | files on the PFS that join the cache when they are renamed |
//! | `links.rs` | links and moving directories: what must be on the PFS first |
//! | `temporary.rs` | opens and renames of files under temporary names |
//! | `called.rs` | names that the program has given to calls of SCR |
//! | `directories.rs` | directories that get their final name when all ranks have written |
//! | `moving.rs` | such a directory moves |
//! | `lookup.rs` | look-ups |
//! | `placing.rs` | where an open finds a file, and puts it |
//! | `private.rs` | where such files lie, and how they come to the PFS |
//! | `steps.rs` | what changes of names are made of |

pub(super) mod called;
pub(super) mod changing;
pub(super) mod directories;
pub(super) mod intake;
pub(super) mod links;
mod lookup;
pub(super) mod moving;
pub(super) mod opening;
pub(super) mod placing;
mod private;
mod steps;
pub(super) mod temporary;
