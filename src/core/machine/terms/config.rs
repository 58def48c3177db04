//! What a machine is told at its start; equal on all ranks except for `rank`.

use std::collections::BTreeSet;

use super::knowledge::Knowledge;
use super::reason::Why;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompleteBy {
    /// It follows from what the program does with its files.
    Files,
    /// The user: each is complete at its first seal.
    FirstSeal,
    /// The program, which begins and completes its datasets itself: a later one of the same id is
    /// another one.
    Program,
}

/// Output is due for a flush, each dataset of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSeries {
    No,
    Checkpoints,
    /// No restart needs them: what has reached the PFS leaves the cache (API manual, Output API).
    Only,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesConfig {
    pub name: String,
    /// Some pattern of the series captures `{id}`.
    pub has_id: bool,
    pub complete: CompleteBy,
    pub output: OutputSeries,
    /// Learn first, unless knowledge is given; not with `:own` or `SCR_LEARN=0`.
    pub learn: bool,
    /// Confirmed datasets kept in a store that `places` does not know, at least 1
    /// (`SCR_CACHE_SIZE`).
    pub cache_size: usize,
    pub places: StoreTurns,
    /// What the program has not deleted or replaced by itself must reach the PFS before it leaves
    /// the cache; else only what is due (`SCR_FLUSH`).
    pub keeps: bool,
    /// Every n-th dataset is due for a flush (`SCR_FLUSH`); 0: none but the last one.
    pub flush_every: u64,
    /// At the end the newest one goes to the PFS, due or not.
    pub flushes_last: bool,
}

impl SeriesConfig {
    pub fn new(name: impl Into<String>, has_id: bool) -> Self {
        SeriesConfig {
            name: name.into(),
            has_id,
            complete: CompleteBy::Files,
            output: OutputSeries::No,
            learn: true,
            cache_size: 2,
            places: StoreTurns::default(),
            keeps: false,
            flush_every: 10,
            flushes_last: true,
        }
    }

    pub fn is_explicit(&self) -> bool {
        self.complete == CompleteBy::Program
    }

    pub fn joins_generations(&self) -> bool {
        self.has_id && !self.is_explicit()
    }

    pub fn is_due(&self, number: u64) -> bool {
        self.output != OutputSeries::No
            || (self.flush_every > 0 && number.is_multiple_of(self.flush_every))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineConfig {
    pub rank: usize,
    pub nodes: Vec<usize>,
    /// Checkpoint series first.
    pub series: Vec<SeriesConfig>,
    /// Settle time of a series that nothing is known of.
    pub settle_ms: u64,
    /// A closed file that is not sealed within this time is overdue (`SCR_UNSEALED_SECONDS`).
    pub unsealed_ms: u64,
    /// Time between agreements that is aimed at while nothing is in progress.
    pub agreement_ms: u64,
    /// Datasets of which some rank has so many bytes in cache are encoded beside the program, where
    /// all ranks can; `None`: none is (`SCR_SEAL`).
    pub aside_bytes: Option<u64>,
    /// What is done to files that ranks of several nodes write is told (`SCR_SHARED`).
    pub tells_of_parted: bool,
    /// They are cached, each node its part (`SCR_SHARED_CACHE`): ranks share a store if and only if
    /// they are of one node.
    pub caches_parts: bool,
}

impl MachineConfig {
    pub fn new(rank: usize, nodes: Vec<usize>, series: Vec<SeriesConfig>) -> Self {
        MachineConfig {
            rank,
            nodes,
            series,
            settle_ms: 50,
            unsealed_ms: 60_000,
            agreement_ms: 20,
            aside_bytes: None,
            tells_of_parted: true,
            caches_parts: true,
        }
    }

    /// Returns why all of a series stays on the PFS, by what earlier runs have learned. With `:own`
    /// or SCR_LEARN=0 the user says what learning could not tell. Without ids one name is enough.
    pub fn prefix_only(&self, series: usize, known: &Knowledge) -> Option<Why> {
        let rule = &self.series[series];
        let stays = |why: &Why| !(self.caches_parts && why.is_of_nodes());
        let learned = known.prefix_only.filter(|why| rule.learn || *why != Why::GoesOn);
        let parted = known.together.iter().filter(|(_, ranks)| !self.are_on_one_node(ranks));
        let of = |name: &u64| *known.unsafe_names.get(name).unwrap_or(&Why::Writers);
        let parted = parted.map(|(name, _)| of(name)).find(stays);
        learned.filter(stays).or(parted.filter(|_| !rule.has_id))
    }

    /// Tells whether files of a series are still watched that several nodes write.
    pub fn watches_parted(&self, known: &Knowledge) -> bool {
        let tries = |why: &Why| matches!(why, Why::Tries(_));
        self.caches_parts && known.unsafe_names.values().any(tries)
    }

    /// Tells whether all these ranks are.
    pub fn are_on_one_node(&self, ranks: &BTreeSet<usize>) -> bool {
        let mut of = ranks.iter().map(|rank| self.nodes.get(*rank));
        let first = of.next().flatten();
        first.is_some() && of.all(|node| node == first)
    }
}

/// Sync points between two agreements, at most, so that a change of rhythm cannot starve them.
pub const SYNC_POINTS_MAX: u64 = 128;
/// Sync points between agreements up to which a barrier always carries one. Beyond it collectives
/// come every two milliseconds or faster, and one more at each barrier could be measured.
pub const BARRIER_STRIDE_MAX: u64 = 8;
/// A conference is held although a rank is busy when the last one is this long ago.
pub const CONFERENCE_MS: u64 = 1000;

/// Files that are open for longer than this are not waited for at every sync point.
pub const BUSY_MS: u64 = 200;

/// Sync points between agreements while files stay open, at most: the checkpoint that follows may
/// be written by slow steps.
pub const BUSY_SYNC_POINTS_MAX: u64 = 8;
/// The settle time doubles up to this when the series' interval is not known yet.
pub const SETTLE_MS_MAX: u64 = 5_000;
pub const CLEAN_SEALS: u32 = 10;

/// Stores in turn, as the CKPT and STORE lines have them; without rules all goes to store 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreTurns {
    /// Interval and store; of those whose interval divides a number the largest counts.
    pub rules: Vec<(u64, usize)>,
    /// By store: confirmed datasets of a series that are kept in it.
    pub sizes: Vec<usize>,
}

impl StoreTurns {
    /// Returns the index of the store of the dataset with this number.
    pub fn store(&self, number: u64) -> usize {
        let dividing = self.rules.iter().filter(|(every, _)| number.is_multiple_of(*every));
        // The first of equals, as in the choice of descriptors.
        dividing.reduce(|best, one| if one.0 > best.0 { one } else { best }).map_or(0, |one| one.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_interval_that_divides_has_the_store() {
        let places = StoreTurns { rules: vec![(1, 0), (4, 2), (2, 1)], sizes: vec![] };
        let stores: Vec<_> = (1..=8).map(|number| places.store(number)).collect();
        assert_eq!(stores, [0, 1, 0, 2, 0, 1, 0, 2]);
        assert_eq!(StoreTurns::default().store(7), 0);
    }
}
