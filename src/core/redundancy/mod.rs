//! Redundancy schemes behind one trait: SINGLE, PARTNER, XOR, RS (manual 1.1, section 7).
//!
//! A scheme protects the files of a dataset within a redundancy set: ranks that do not share a
//! failure group. It reads the members' files, writes redundancy files to `<dataset dir>/.scr/`,
//! and gives back the lost ones. All file names are relative to the dataset directory.
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
pub(crate) use member_list::MemberList;
pub use parity::{Code, ParityHeader};
pub(crate) use partner::Manifest;
pub use scheme::{MemberData, Protection, RedundancySet, Scheme, Survivor};
pub use spares::Spares;
pub use verify::verify;

/// Finds the scheme of a descriptor's TYPE; LOCAL is the older name of SINGLE.
#[must_use]
pub fn scheme_by_name(name: &str) -> Option<&'static dyn Scheme> {
    match name {
        "SINGLE" | "LOCAL" => Some(&single::Single),
        "PARTNER" => Some(&partner::Partner),
        "XOR" => Some(&parity::ParityScheme(Code::Xor)),
        "RS" => Some(&parity::ParityScheme(Code::ReedSolomon)),
        _ => None,
    }
}
