//! Names as hashes (FNV-1a, 64 bits), the form in which they travel and are remembered.

use std::collections::BTreeSet;

pub fn name_hash(masked: &str) -> u64 {
    masked.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Masks other numbers than the id, too, so that `part.7` of one checkpoint is known when `part.8`
/// of the next one comes.
pub fn kind_hash(masked: &str) -> u64 {
    name_hash(&mask_numbers(masked, '#'))
}

/// Puts `mask` in the place of each number in a name.
pub fn mask_numbers(name: &str, mask: char) -> String {
    let mut masked = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '0'..='9' if masked.ends_with(mask) => {}
            '0'..='9' => masked.push(mask),
            other => masked.push(other),
        }
    }
    masked
}

pub fn set_hash(names: &BTreeSet<u64>) -> u64 {
    names.iter().fold(0xcbf2_9ce4_8422_2325, |hash, name| {
        name.to_be_bytes()
            .iter()
            .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
    })
}
