//! The session of one rank: what it is built from, its state, and its helper thread.
//!
//! | file | job |
//! |---|---|
//! | `host.rs` | what a session is built from: door, process, machine |
//! | `site.rs` | what stays the same for the life of a launch |
//! | `runtime.rs` | the state of a rank |
//! | `known.rs` | what it knows of itself and of names |
//! | `hooked.rs` | what the hooks report |
//! | `holdings.rs` | what this rank knows of its own files |
//! | `checksums.rs` | checksums that were taken while the program wrote |
//! | `spare.rs` | whether it has a processor to spare |
//! | `idle.rs` | sync points that are only counted |
//! | `publish.rs` | one file to the prefix by itself, for a reason |
//! | `publishing.rs` | threads that give files their names on the PFS, while the program goes on |
//! | `helper.rs` | files without a sync point |

pub(super) mod checksums;
pub(super) mod helper;
pub(super) mod holdings;
pub(super) mod hooked;
pub(super) mod host;
pub(super) mod idle;
pub(super) mod known;
pub(super) mod publish;
pub(super) mod publishing;
pub(super) mod runtime;
pub(super) mod site;
pub(super) mod spare;
