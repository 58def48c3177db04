//! Files that a rank has open, and what it knows of its own.

mod access_logs;
mod alike;
mod base;
mod checksums;
mod groups;
mod holdings;
mod in_the_way;
mod loan;
mod parted;
mod placing;
mod rank_state;
mod together;

pub use access_logs::AccessLogs;
pub use alike::{descriptor_info, open_alike, open_in_place_of, own_path};
pub use base::{Base, stamp};
pub use checksums::Checksums;
pub use groups::{GroupCalls, group_number};
pub use holdings::{Holding, LiesAt, Room, TOKEN_LAZY, Tokens, Tracked};
pub use loan::{GRACE, Loan};
pub use parted::{PartedFile, PartedFiles};
pub(crate) use rank_state::{RankFiles, State};
