//! The session of one rank: its state, and its helper thread.
//!
//! | file | job |
//! |---|---|
//! | `runtime.rs` | the state of a rank |
//! | `known.rs` | what it knows of itself and of names |
//! | `hooked.rs` | what the hooks report |
//! | `checksums.rs` | checksums that were taken while the program wrote |
//! | `publish.rs` | one file to the prefix by itself, for a reason |
//! | `publishing.rs` | threads that give files their names on the PFS, while the program goes on |
//! | `helper.rs` | files without a sync point |

mod checksums;
pub(super) mod helper;
pub(super) mod hooked;
pub(super) mod known;
pub(super) mod publish;
pub(super) mod publishing;
pub(super) mod runtime;
