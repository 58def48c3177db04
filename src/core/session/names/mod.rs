//! Calls that name a file: open, rename, unlink, link, and look-ups.
//!
//! | file | job |
//! |---|---|
//! | `opening.rs` | open |
//! | `changing.rs` | rename, unlink, rmdir and look-ups |
//! | `intake.rs` | files on the PFS that join the cache when they are renamed |
//! | `landing.rs` | links and moving directories: what must be on the PFS first |
//! | `temporary.rs` | files under temporary names until they are renamed |
//! | `called.rs` | names that the program has given to calls of SCR |
//! | `directories.rs` | directories that get their final name when all ranks have written |
//! | `moving.rs` | such a directory moves |

pub(super) mod called;
pub(super) mod changing;
pub(super) mod directories;
pub(super) mod intake;
pub(super) mod landing;
pub(super) mod moving;
pub(super) mod opening;
pub(super) mod temporary;
