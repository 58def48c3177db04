//! Files that a rank has open, and what it knows of its own.
//!
//! | file | job |
//! |---|---|
//! | `holdings.rs` | its files of each dataset, and the descriptors at work on them |
//! | `base.rs` | which file a private copy was made from |
//! | `checksums.rs` | checksums that were taken while the program wrote |

mod base;
mod checksums;
mod holdings;

pub use base::{Base, Stamp, stamp};
pub use checksums::Checksums;
pub use holdings::{Holding, LiesAt, Room, TOKEN_LAZY, Tokens, Tracked};
