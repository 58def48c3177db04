//! What is known of how the program writes a series, on one rank.

use std::collections::{BTreeMap, BTreeSet};

use super::habit::Habit;

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
pub(super) fn kind_of(name: &str) -> String {
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

/// Why new files of a name stay on the PFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Several ranks write it.
    Writers,
    /// Ranks of other nodes read it while the run goes on.
    Readers,
    /// A checkpoint goes on after a collective, in place.
    GoesOn,
    /// It got its name by a rename, but cannot be moved into the cache.
    Stays,
}

impl Why {
    const ALL: [Why; 4] = [Why::Writers, Why::Readers, Why::GoesOn, Why::Stays];

    /// Returns the word for it in files and messages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Why::Writers => "WRITERS",
            Why::Readers => "READERS",
            Why::GoesOn => "GOES_ON",
            Why::Stays => "STAYS",
        }
    }

    /// Finds what [`Why::word`] gives this word for; `None` for an unknown one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Why> {
        Why::ALL.into_iter().find(|why| why.word() == word)
    }

    pub(super) fn number(self) -> u64 {
        self as u64
    }

    pub(super) fn from_number(number: u64) -> Option<Why> {
        Why::ALL.into_iter().find(|why| why.number() == number)
    }
}

/// Knowledge of one series on one rank; stored in `<prefix>/.scr/learned.scr`. All fields but
/// `files`, `marked`, `kinds`, `sizes` and `temporaries` are equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Knowledge {
    /// [`set_hash`] of this rank's file names, the captured id masked, in the last confirmed
    /// dataset; `None` before the first one.
    pub files: Option<u64>,
    /// The settle time, milliseconds; 0: the configured one.
    pub settle_ms: u64,
    /// Datasets that were sealed just once, in a row.
    pub clean_seals: u32,
    /// Longest time between the first files of two successive datasets, milliseconds; 0: unknown.
    pub interval_ms: u64,
    /// Names ([`name_hash`]) that stay on the PFS, and why.
    pub unsafe_names: BTreeMap<u64, Why>,
    /// A name without id is unsafe, so that a roll-back could not be consistent: the whole series
    /// stays on the PFS.
    pub prefix_only: Option<Why>,
    /// That file, if this rank has it.
    pub marked: Option<String>,
    /// Files are written again inside one checkpoint, so that a full set does not tell that it is
    /// complete.
    pub rewrites: bool,
    /// Names ([`name_hash`]) that are never quiet: they belong to no dataset.
    pub restless: BTreeSet<u64>,
    /// This rank's temporary-name templates (`patterns::temporary`), in text.
    pub temporaries: Vec<String>,
    /// Kinds of names ([`kind_hash`]) that this rank has written in confirmed datasets.
    pub kinds: BTreeSet<u64>,
    /// Largest size of each of this rank's files seen so far, bytes, by [`name_hash`].
    pub sizes: BTreeMap<u64, u64>,
    /// For how long the program keeps its checkpoints.
    pub habit: Habit,
}
