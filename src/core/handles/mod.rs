//! Files that a rank has open, and what it knows of its own.
//!
//! | file | job |
//! |---|---|
//! | `holdings.rs` | its files of each dataset, and the descriptors at work on them |
//! | `loan.rs` | a file that a child of the rank writes, too |
//! | `access_logs.rs` | logs of what is done to files that are watched |
//! | `alike.rs` | opens a file as a descriptor is, to take its place |
//! | `base.rs` | which file a private copy was made from |
//! | `checksums.rs` | checksums that were taken while the program wrote |

mod access_logs;
mod alike;
mod base;
mod checksums;
mod holdings;
mod loan;

pub use access_logs::AccessLogs;
pub use alike::{descriptor_info, open_alike, open_in_place_of};
pub use base::{Base, Stamp, stamp};
pub use checksums::Checksums;
pub use holdings::{Holding, LiesAt, Room, TOKEN_LAZY, Tokens, Tracked};
pub use loan::{GRACE, Loan};
