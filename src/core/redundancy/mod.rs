//! Redundancy schemes behind one trait: SINGLE, PARTNER, XOR, RS (manual 1.1, section 7; the later
//! manuals).
//!
//! A scheme protects the files of a dataset within a redundancy set: ranks that do not share a
//! failure group. It reads the members' files, writes redundancy files to `<dataset dir>/.scr/`,
//! and gives back the lost ones. All file names are relative to the dataset directory.
//!
//! | file | job |
//! |---|---|
//! | `scheme.rs` | the contract: [`Scheme`] and what goes in and out |
//! | `single.rs`, `partner/`, `parity/` | the schemes; XOR and RS differ in the code only |
//! | `member_list.rs` | a member's files, as a record |
//! | `layout.rs`, `running_crc.rs` | a member's files as one padded file, checksums on the way |
//! | `spares.rs` | redundancy files of an evicted dataset, to be written over |
//! | `restore.rs` | lost files under temporary names until all of them are right |
//! | `ring.rs` | neighbours, outcomes that all members share |
//! | `ahead.rs` | exchanges under way while members work |
//! | `verify.rs` | whether files are what the records say |
//! | `folder.rs` | where redundancy files lie |
//!
//! Invariants:
//! * All members of a set get `Ok` or all get `Err`, unless communication itself failed.
//! * A rank whose own files fail goes on communicating (with zeros) up to the next agreement, so
//!   that the others never wait in vain; nothing is published before that agreement.
//! * A file gets its name in the dataset by rename after its content is complete and durable. A
//!   rebuild changes nothing of a member that has lost nothing, so it can be cut off anywhere and
//!   run again.

mod ahead;
mod folder;
mod layout;
mod member_list;
mod parity;
mod partner;
mod restore;
mod ring;
mod running_crc;
mod scheme;
mod single;
mod spares;
mod verify;

pub(crate) use folder::REDUNDANCY_DIR;
pub use member_list::MemberList;
pub use parity::{Code, ParityHeader, ReedSolomon, Xor};
pub(crate) use partner::Manifest;
pub use partner::Partner;
pub use scheme::{MemberData, Protection, RedundancySet, Scheme, Survivor};
pub use single::Single;
pub use spares::Spares;
pub use verify::verify;

/// Finds the scheme of a descriptor's TYPE; LOCAL is the older name of SINGLE (manual 1.1, section
/// 7.1).
#[must_use]
pub fn scheme_by_name(name: &str) -> Option<&'static dyn Scheme> {
    match name {
        "SINGLE" | "LOCAL" => Some(&Single),
        "PARTNER" => Some(&Partner),
        "XOR" => Some(&Xor),
        "RS" => Some(&ReedSolomon),
        _ => None,
    }
}
