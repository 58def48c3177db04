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

/// Returns a sum over hashes of names, so that the sums of several ranks' sets tell whether these
/// have the same names together, whichever rank has which.
pub fn set_hash(names: &BTreeSet<u64>) -> u64 {
    names.iter().fold(0, |sum, name| sum.wrapping_add(mixed(*name)))
}

/// Hashes of similar names differ by similar numbers, of which sums would be equal by chance: here
/// each bit of the name's hash changes about half the bits (the last step of splitmix64).
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
