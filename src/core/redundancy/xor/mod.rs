//! XOR: each member keeps one chunk of parity over the others' files (000 section 7.3).
//!
//! With `n` members, each member's files, concatenated and padded, are `n - 1` chunks. Slot `s` of
//! the set is one chunk of every member but `s`, and member `s` keeps their XOR (figure 4):
//!
//! ```text
//!            slot 0   slot 1   slot 2
//! member 0   parity   chunk 0  chunk 1
//! member 1   chunk 0  parity   chunk 1
//! member 2   chunk 0  chunk 1  parity
//! ```
//! So whoever is lost, all it had in each slot is the XOR of what the others have there.

mod encode;
mod kernel;
mod part;
mod rebuild;

use super::{MemberData, Protection, RedundancySet, Scheme, Single, Survivor};
use crate::error::Result;

pub use kernel::xor_into;

/// The scheme.
pub struct Xor;

impl Scheme for Xor {
    fn name(&self) -> &'static str {
        "XOR"
    }

    fn tolerated_losses(&self) -> usize {
        1
    }

    fn encode(&self, set: &RedundancySet, data: &MemberData) -> Result<Protection> {
        match set.comm.size() {
            1 => Single.encode(set, data),
            _ => encode::encode(set, data, None),
        }
    }

    fn rebuild(&self, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)> {
        match set.comm.size() {
            1 => Single.rebuild(set, own),
            _ => rebuild::rebuild(set, own),
        }
    }
}

/// Offset in a member's logical file of what it has in `slot`; `None` in its own slot.
fn chunk_offset(member: usize, slot: usize, chunk_bytes: u64) -> Option<u64> {
    match slot.cmp(&member) {
        std::cmp::Ordering::Less => Some(slot as u64 * chunk_bytes),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some((slot - 1) as u64 * chunk_bytes),
    }
}

/// The pieces of a chunk, as offset and length.
fn pieces(chunk_bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    let piece = super::PIECE_BYTES as u64;
    (0..chunk_bytes.div_ceil(piece)).map(move |index| {
        let offset = index * piece;
        (offset, (chunk_bytes - offset).min(piece) as usize)
    })
}
