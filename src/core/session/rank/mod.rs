//! The session of one rank: its state.
//!
//! | file | job |
//! |---|---|
//! | `runtime.rs` | the state of a rank |
//! | `known.rs` | what it knows of itself and of names |
//! | `hooked.rs` | what the hooks report |
//! | `checksums.rs` | checksums that were taken while the program wrote |
//! | `publish.rs` | one file to the prefix by itself, for a reason |
//! | `publishing.rs` | threads that give files their names on the PFS, while the program goes on |

mod checksums;
pub(super) mod hooked;
pub(super) mod known;
pub(super) mod publish;
pub(super) mod publishing;
pub(super) mod runtime;
