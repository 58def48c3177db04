//! The checksum of a whole file from its parts, without reading it as a whole.
//!
//! CRC32 is linear: with nothing put in at the begin and nothing done at the end, that of the whole
//! is the XOR of those of its pieces, each with zeros in the place of all others. Zeros before a
//! piece change nothing; so many after it are one multiplication.

use crate::files::{crc32, multiplied};

/// A part's share in the checksum of the whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrcShare {
    whole: u64,
    value: u32,
}

impl CrcShare {
    /// Begins one in a file of `whole` bytes.
    #[must_use]
    pub fn new(whole: u64) -> Self {
        CrcShare { whole, value: 0 }
    }

    /// Adds `bytes`, which lie at `offset` of the file; every byte once, in any order.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) {
        let length = bytes.len() as u64;
        let raw = crc32(bytes) ^ crc32_of_zeros(length);
        self.value ^= multiplied(raw, self.whole.saturating_sub(offset + length));
    }

    /// Returns the share.
    #[must_use]
    pub fn value(self) -> u32 {
        self.value
    }
}

/// Returns the CRC32 of a file of `size` bytes from the shares of all its parts.
#[must_use]
pub fn whole_crc32(size: u64, shares: impl IntoIterator<Item = u32>) -> u32 {
    shares.into_iter().fold(crc32_of_zeros(size), |sum, share| sum ^ share)
}

fn crc32_of_zeros(count: u64) -> u32 {
    !multiplied(!0, count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_of_zeros_has_no_shares() {
        for size in [0, 1, 5, 4096] {
            assert_eq!(whole_crc32(size as u64, []), crc32(&vec![0; size]), "{size}");
        }
    }

    proptest! {
        #[test]
        fn shares_of_all_parts_give_the_checksum_of_the_whole(
            mut bytes in prop::collection::vec(any::<u8>(), 1..3000),
            holes in prop::collection::vec((0_u64..3000, 0_u64..200), 0..8),
            parts in 1_usize..6,
            step in 1_u64..300,
        ) {
            let size = bytes.len() as u64;
            for (begin, length) in holes {
                let (begin, end) = (begin.min(size) as usize, (begin + length).min(size) as usize);
                bytes[begin..end].fill(0);
            }
            // In turns, a step each; zeros are in nobody's part.
            let pieces = (0..size).step_by(step as usize).enumerate();
            let mut shares = vec![CrcShare::new(size); parts];
            for (turn, begin) in pieces {
                let piece = &bytes[begin as usize..(begin + step).min(size) as usize];
                if piece.iter().any(|byte| *byte != 0) {
                    shares[turn % parts].add(begin, piece);
                }
            }
            let whole = whole_crc32(size, shares.into_iter().map(CrcShare::value));
            prop_assert_eq!(whole, crc32(&bytes));
        }
    }
}
