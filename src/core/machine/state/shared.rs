//! What is equal on all ranks: changed only by a conference and the outcome of its steps.

use std::collections::BTreeSet;

use crate::machine::terms::{
    DatasetKey, Knowledge, MachineConfig, ProgramWord, SETTLE_MS_MAX, SealedNews,
};

/// Failed tries in a row after which a dataset is written to the PFS, and, there, left as it is.
pub const FAILURES_MAX: u32 = 3;

/// Datasets in a row that could not be sealed in the cache after which no further one is tried.
const SPILLS_MAX: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Routing {
    Cache,
    /// To the PFS, watched, since nothing is known of the series.
    Learning,
    /// To the cache, except the first dataset: that is sealed, so it is known who writes what; who
    /// reads it is watched until it is confirmed.
    Trial,
    /// To the PFS: a roll-back of it could not be consistent.
    Prefix,
}

impl Routing {
    pub fn caches(self) -> bool {
        matches!(self, Routing::Cache | Routing::Trial)
    }

    pub fn watches(self) -> bool {
        matches!(self, Routing::Learning | Routing::Trial)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DatasetState {
    /// In progress, or amended since its seal.
    #[default]
    Open,
    /// Sealed, not known to be complete.
    Provisional,
    Confirmed,
    /// Invalid, or rejected at the restart.
    Dropped,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SharedDataset {
    pub key: DatasetKey,
    /// 0 before its first seal.
    pub id: u64,
    /// Number in its series; 0 before its first seal.
    pub number: u64,
    /// Its place among all that was begun in this launch, of all series; 0 if it was not.
    pub turn: u64,
    pub state: DatasetState,
    /// A provisional one that was found at the restart is never confirmed.
    pub restored: bool,
    /// It must reach the PFS before it may be evicted.
    pub due: bool,
    pub flushed: bool,
    /// None of its files is in cache.
    pub on_prefix: bool,
    pub(in crate::machine) seals: Seals,
    pub(in crate::machine) failing: Failing,
    pub(in crate::machine) word: ProgramWord,
    /// As of the last conference.
    pub(in crate::machine) told: SealedNews,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seals {
    pub count: u32,
    /// Sealed since the last reports: whether it is live or held is not known yet.
    pub fresh: bool,
    /// The PFS had some of the files that have its id, and the caches had others: it is due, since
    /// half a checkpoint would stay there.
    pub split: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Failing {
    /// Tries in a row to seal it that failed for a reason other than a touch.
    pub tries: u32,
    /// All ranks have written their closed files of it to the PFS.
    pub spilled: bool,
    /// New files of it go to the PFS: it began while the series was being learned, or could not be
    /// sealed in the cache.
    pub prefix_only: bool,
}

impl SharedDataset {
    /// Tells whether it is never to be confirmed: offered at a restart if no node is lost, and
    /// removed after a newer one is confirmed.
    pub fn is_second_rate(&self) -> bool {
        self.state == DatasetState::Provisional && (self.restored || self.word.abandoned)
    }

    /// Tells whether the program still sees, as far as is known, what only the cache has of it.
    pub fn is_kept(&self) -> bool {
        (self.told.kept || self.seals.fresh) && !self.flushed
    }

    pub fn is_failing(&self) -> bool {
        self.failing.tries >= FAILURES_MAX
    }

    pub(in crate::machine) fn new(key: DatasetKey) -> Self {
        SharedDataset { key, ..SharedDataset::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SharedSeries {
    pub routing: Routing,
    pub settle_ms: u64,
    pub clean_seals: u32,
    pub interval_ms: u64,
    pub next_number: u64,
    /// Files are written again inside one checkpoint: a full set does not tell that it is complete.
    pub rewrites: bool,
    pub datasets: Vec<SharedDataset>,
    /// The knowledge has changed and is to be stored.
    pub learned: bool,
}

impl SharedSeries {
    /// Returns the longest settle time: a part of the time between two checkpoints.
    pub fn settle_most_ms(&self, config: &MachineConfig) -> u64 {
        let most_ms = if self.interval_ms > 0 { self.interval_ms / 4 } else { SETTLE_MS_MAX };
        most_ms.max(config.settle_ms)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SharedFacts {
    pub series: Vec<SharedSeries>,
    pub next_id: u64,
    pub turns: u64,
    /// Counts seals tried, so that no two have the same epoch.
    pub seals_tried: u64,
    /// Datasets in a row that could not be sealed in the cache.
    pub spills: u32,
    pub fallen_back: bool,
}

impl SharedFacts {
    pub fn new(config: &MachineConfig, knowledge: &[Knowledge]) -> Self {
        let series = config.series.iter().enumerate().map(|(index, series)| {
            let none = Knowledge::default();
            let known = knowledge.get(index).unwrap_or(&none);
            let learns = series.learn && known.files.is_none();
            let watches = !series.has_id && config.watches_parted(known);
            let routing = match config.prefix_only(index, known) {
                Some(_) => Routing::Prefix,
                None if learns || watches => Routing::Learning,
                None => Routing::Cache,
            };
            SharedSeries {
                routing,
                settle_ms: if known.settle_ms == 0 { config.settle_ms } else { known.settle_ms },
                clean_seals: known.clean_seals,
                interval_ms: known.interval_ms,
                next_number: 1,
                rewrites: known.rewrites,
                datasets: Vec::new(),
                learned: false,
            }
        });
        SharedFacts { series: series.collect(), next_id: 1, ..SharedFacts::default() }
    }

    pub fn note_spill(&mut self) {
        self.spills += 1;
        self.fallen_back |= self.spills >= SPILLS_MAX;
    }

    pub fn find(&self, key: &DatasetKey) -> Option<&SharedDataset> {
        self.series[key.series].datasets.iter().find(|dataset| dataset.key == *key)
    }

    pub fn find_mut(&mut self, key: &DatasetKey) -> Option<&mut SharedDataset> {
        self.series[key.series].datasets.iter_mut().find(|dataset| dataset.key == *key)
    }

    pub fn newest_confirmed(&self, series: usize) -> u64 {
        let confirmed = self.series[series].datasets.iter().rev();
        let mut confirmed = confirmed.filter(|dataset| dataset.state == DatasetState::Confirmed);
        confirmed.next().map_or(0, |dataset| dataset.id)
    }
}

impl SharedSeries {
    pub fn first_turn(&self) -> u64 {
        self.open().next().map_or(u64::MAX, |dataset| dataset.turn)
    }

    pub fn open(&self) -> impl Iterator<Item = &SharedDataset> {
        self.datasets.iter().filter(|dataset| dataset.state == DatasetState::Open)
    }

    /// Counts the confirmed ids (or generations, without ids) after `index`, of those that `counts`
    /// admits.
    pub fn confirmed_after(
        &self,
        index: usize,
        joins: bool,
        counts: &dyn Fn(&SharedDataset) -> bool,
    ) -> usize {
        let own = &self.datasets[index].key;
        let mut seen: BTreeSet<(&str, u64)> = BTreeSet::new();
        for dataset in &self.datasets[index + 1..] {
            let other = !(joins && own.same_group(&dataset.key));
            if dataset.state == DatasetState::Confirmed && other && counts(dataset) {
                let generation = if joins { 0 } else { dataset.key.generation };
                seen.insert((&dataset.key.id, generation));
            }
        }
        seen.len()
    }

    pub fn newer_confirmed(&self, index: usize) -> bool {
        let mut newer = self.datasets[index + 1..].iter();
        newer.any(|dataset| dataset.state == DatasetState::Confirmed)
    }
}
