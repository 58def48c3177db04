//! What a scheme keeps beside the files of a rank.

use super::{RedundancyDesc, SchemeKind};

/// Bytes of redundancy data on a rank, as a share of the bytes of its files; exact where all
/// members of a set have as many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overhead {
    parts: u64,
    of: u64,
}

impl Overhead {
    /// Nothing is kept.
    pub const NONE: Overhead = Overhead { parts: 0, of: 1 };

    /// Computes the overhead of a rank whose set has so many members, itself included.
    pub fn new(descriptor: &RedundancyDesc, members: usize) -> Overhead {
        let losses = descriptor.set_failures.max(1).min(members.saturating_sub(1));
        let of = match descriptor.scheme {
            _ if losses == 0 => return Overhead::NONE, // alone
            SchemeKind::Single => return Overhead::NONE,
            SchemeKind::Partner => 1,
            SchemeKind::Xor | SchemeKind::ReedSolomon => members - losses,
        };
        Overhead { parts: losses as u64, of: of as u64 }
    }

    /// Computes the bytes of redundancy data for so many bytes of files.
    pub fn of(self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.parts).div_ceil(self.of)
    }
}
