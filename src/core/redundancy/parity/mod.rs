//! XOR and Reed-Solomon: each member keeps parity over the others' files (manual 1.1, section 7.3).
//!
//! A set of `n` members survives `k` losses; XOR is the case of one. Each member's files,
//! concatenated and padded, are `n - k` chunks. Slot `s` of the set is a chunk of every member but
//! `s`, `s + 1`, ... `s + k - 1`, and these keep the slot's parity pieces 0, 1, ... `k - 1`:
//!
//! ```text
//! n = 4, k = 2   slot 0    slot 1    slot 2    slot 3
//! member 0       parity 0  chunk 0   chunk 1   parity 1
//! member 1       parity 1  parity 0  chunk 0   chunk 1
//! member 2       chunk 0   parity 1  parity 0  chunk 1
//! member 3       chunk 0   chunk 1   parity 1  parity 0
//! ```
//! So every member has as much parity as any other, and whoever is lost, all it had in each slot
//! follows from what any `n - k` others have there.

mod code;
mod encode;
mod field;
mod header;
mod lists;
mod part;
mod pipeline;
mod rebuild;
mod schedule;
mod shape;
mod state;

use super::single::Single;
use super::{MemberData, Protection, RedundancySet, Scheme, Survivor};
use crate::error::Result;

pub use code::Code;
pub use header::ParityHeader;

/// XOR: any one member may be lost; RS: any members, up to [`RedundancySet::failures`].
pub(super) struct ParityScheme(pub Code);

impl Scheme for ParityScheme {
    fn encode(&self, set: &RedundancySet, data: Result<MemberData>) -> Result<Protection> {
        match set.comm.size() {
            1 => Single.encode(set, data),
            _ => encode::encode(self.0, set, data),
        }
    }

    fn compares_on_the_way(&self) -> bool {
        true
    }

    fn rebuild(&self, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
        match set.comm.size() {
            1 => Single.rebuild(set, own),
            _ => rebuild::rebuild(self.0, set, own),
        }
    }
}
