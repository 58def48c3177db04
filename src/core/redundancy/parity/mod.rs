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
//!
//! | file | job |
//! |---|---|
//! | `field.rs` | GF(2^8), the code's constants, whole pieces times a constant |
//! | `shape.rs` | who has what in which slot; how missing pieces follow from others |
//! | `schedule.rs` | who sends what to whom in which round |
//! | `pipeline.rs` | the work itself, piece by piece |
//! | `part.rs` | the parity file |
//! | `code.rs`, `header.rs` | which code; the header of a parity file |
//! | `encode.rs`, `rebuild.rs`, `lists.rs` | both uses of it; the lists of lost members |
//! | `state.rs` | what a member brings to a rebuild |

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

use super::{MemberData, Protection, RedundancySet, Scheme, Single, Survivor};
use crate::error::Result;

pub use code::Code;
pub use header::ParityHeader;

/// XOR: any one member of a set may be lost.
pub struct Xor;

/// RS: any members of a set may be lost, up to [`RedundancySet::failures`].
pub struct ReedSolomon;

impl Scheme for Xor {
    fn encode(&self, set: &RedundancySet, data: Result<MemberData>) -> Result<Protection> {
        encode(Code::Xor, set, data)
    }

    fn compares_on_the_way(&self) -> bool {
        true
    }

    fn rebuild(&self, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
        rebuild(Code::Xor, set, own)
    }
}

impl Scheme for ReedSolomon {
    fn encode(&self, set: &RedundancySet, data: Result<MemberData>) -> Result<Protection> {
        encode(Code::ReedSolomon, set, data)
    }

    fn compares_on_the_way(&self) -> bool {
        true
    }

    fn rebuild(&self, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
        rebuild(Code::ReedSolomon, set, own)
    }
}

fn encode(code: Code, set: &RedundancySet, data: Result<MemberData>) -> Result<Protection> {
    match set.comm.size() {
        1 => Single.encode(set, data),
        _ => encode::encode(code, set, data),
    }
}

fn rebuild(code: Code, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
    match set.comm.size() {
        1 => Single.rebuild(set, own),
        _ => rebuild::rebuild(code, set, own),
    }
}
