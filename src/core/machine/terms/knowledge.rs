//! What is known of how the program writes a series, on one rank.

use std::collections::{BTreeMap, BTreeSet};

use super::habit::Habit;
use super::reason::Why;

/// Stored in `<prefix>/.scr/learned.scr`. All fields but `files`, `marked`, `kinds`, `sizes` and
/// `temporaries` are equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Knowledge {
    /// `set_hash` of this rank's masked names in the last confirmed dataset; `None` before the
    /// first one.
    pub files: Option<u64>,
    /// 0: the configured one.
    pub settle_ms: u64,
    pub clean_seals: u32,
    /// Longest time between the first files of two successive datasets; 0: unknown.
    pub interval_ms: u64,
    /// Names (`name_hash`) that stay on the PFS, and why.
    pub unsafe_names: BTreeMap<u64, Why>,
    /// Names (`name_hash`) that several ranks of one node write, and which ranks: files of theirs
    /// stay on the PFS where these are on several nodes.
    pub together: BTreeMap<u64, BTreeSet<usize>>,
    /// A name without id is unsafe, so that a roll-back could not be consistent: the whole series
    /// stays on the PFS.
    pub prefix_only: Option<Why>,
    /// That file, if this rank has it.
    pub marked: Option<String>,
    /// Files are written again inside one checkpoint, so that a full set does not tell that it is
    /// complete.
    pub rewrites: bool,
    /// Names (`name_hash`) that are never quiet: they belong to no dataset.
    pub restless: BTreeSet<u64>,
    /// Texts of this rank's temporary-name templates (`patterns::temporary`).
    pub temporaries: Vec<String>,
    /// `kind_hash`es of what this rank has written in confirmed datasets.
    pub kinds: BTreeSet<u64>,
    /// Largest size of each of this rank's files, bytes, by `name_hash`.
    pub sizes: BTreeMap<u64, u64>,
    pub habit: Habit,
}
