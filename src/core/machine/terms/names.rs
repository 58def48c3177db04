//! Names as hashes (FNV-1a, 64 bits), the form in which they travel and are remembered.

use std::collections::BTreeSet;

pub fn name_hash(masked: &str) -> u64 {
    masked.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A word of so many characters may be the hash of something.
const HASH_MIN: usize = 4;

/// Masks other numbers than the id, too, so that `part.7` of one checkpoint is known when `part.8`
/// of the next one comes, and words that look like hashes.
pub fn kind_hash(masked: &str) -> u64 {
    name_hash(&mask_numbers(&mask_hashes(masked), '#'))
}

/// Puts a number in the place of each word of hexadecimal digits, if some of them are decimal.
fn mask_hashes(name: &str) -> String {
    let is_hash = |word: &str| {
        word.len() >= HASH_MIN
            && word.bytes().all(|byte| byte.is_ascii_hexdigit())
            && word.bytes().any(|byte| byte.is_ascii_digit())
    };
    let pieces = name.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric());
    let masked = |piece: &str| {
        let word = piece.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        if is_hash(word) { piece.replacen(word, "0", 1) } else { piece.to_owned() }
    };
    pieces.map(masked).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_kind_differ_in_numbers_and_hashes() {
        let kinds = [
            &["part.7", "part.18"][..],
            &["chk-{id}-9e3779b1-r0.bin", "chk-{id}-deadbee5-r0.bin", "chk-{id}-17156075-r0.bin"],
            &["{id}.550e8400-e29b-41d4", "{id}.6ba7b810-9dad-11d1"],
            &["{id}.2026-11-30T23:59:05", "{id}.2026-12-01T00:04:11"],
            &["face.dat"],
            &["cafe.dat"],
            &["ab1"],
            &["cd1"],
        ];
        let hashes = |names: &&[&str]| names.iter().map(|name| kind_hash(name)).collect();
        let all: Vec<BTreeSet<u64>> = kinds.iter().map(hashes).collect();
        assert!(all.iter().all(|kind| kind.len() == 1), "{all:?}");
        assert_eq!(all.iter().flatten().collect::<BTreeSet<_>>().len(), kinds.len());
    }
}
