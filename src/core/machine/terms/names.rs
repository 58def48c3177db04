//! Names as hashes, the form in which they travel and are remembered.

use std::collections::BTreeSet;

/// Returns the hash of a masked name, the form in which names travel and are remembered (FNV-1a, 64
/// bits).
#[must_use]
pub fn name_hash(masked: &str) -> u64 {
    masked.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the hash of a kind of names: a masked name whose other numbers are masked, too, so that
/// `part.7` of one checkpoint is known when `part.8` of the next one comes.
#[must_use]
pub fn kind_hash(masked: &str) -> u64 {
    name_hash(&kind_of(masked))
}

/// Masks the numbers in a name.
pub fn kind_of(name: &str) -> String {
    let mut kind = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            other => kind.push(other),
        }
    }
    kind
}

/// Returns the hash of a set of masked-name hashes; independent of their order.
#[must_use]
pub fn set_hash(names: &BTreeSet<u64>) -> u64 {
    names.iter().fold(0xcbf2_9ce4_8422_2325, |hash, name| {
        name.to_be_bytes()
            .iter()
            .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
    })
}
