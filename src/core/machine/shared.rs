//! What is equal on all ranks: changed only by a conference and the outcome of its steps.

use std::collections::{BTreeMap, BTreeSet};

use super::config::MachineConfig;
use super::encoding::UnderWay;
use super::habit::Habit;
use super::keys::DatasetKey;
use super::knowledge::{Knowledge, Why};
use super::report::Mark;

/// Failed tries in a row after which a dataset is written to the PFS, and after which it is left
/// there as it is.
pub(super) const FAILURES_MAX: u32 = 3;

/// Datasets in a row that could not be sealed in the cache after which no further one is tried.
const SPILLS_MAX: u32 = 3;

/// Where the files of a series go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Routing {
    /// To the cache.
    Cache,
    /// To the PFS, watched, since nothing is known of the series.
    Learning,
    /// To the cache, but for the first dataset: that is sealed, so it is known who writes what; who
    /// reads it is watched until it is confirmed.
    Trial,
    /// To the PFS: a roll-back of it could not be consistent.
    Prefix,
}

impl Routing {
    /// Tells whether new datasets go to the cache.
    #[must_use]
    pub fn caches(self) -> bool {
        matches!(self, Routing::Cache | Routing::Trial)
    }

    /// Tells whether it is still being learned how the program treats its files.
    #[must_use]
    pub fn watches(self) -> bool {
        matches!(self, Routing::Learning | Routing::Trial)
    }
}

/// How far a dataset has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DatasetState {
    /// In progress, or amended since its seal.
    Open,
    /// Sealed, not known to be complete.
    Provisional,
    /// Sealed and complete.
    Confirmed,
    /// Invalid, or rejected at the restart.
    Dropped,
}

/// A dataset as all ranks know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SharedDataset {
    /// Its key.
    pub key: DatasetKey,
    /// Its number; 0 before its first seal.
    pub id: u64,
    /// Number in its series; 0 before its first seal.
    pub number: u64,
    /// Its place among all that was begun in this launch, of all series; 0 if it was not.
    pub turn: u64,
    /// Its state.
    pub state: DatasetState,
    /// It was found at the restart; a provisional one then is never confirmed.
    pub restored: bool,
    /// It must reach the PFS before it may be evicted.
    pub due: bool,
    /// It is on the PFS.
    pub flushed: bool,
    /// It must reach the PFS, whatever its number: the program calls it output.
    pub output: bool,
    /// None of its files is in cache.
    pub on_prefix: bool,
    /// It is being encoded beside the program.
    pub encoding: Option<UnderWay>,
    /// Seals so far.
    pub seals: u32,
    /// Time from its first open to its last seal, milliseconds.
    pub took_ms: u64,
    /// It was left alone for longer since that seal: see [`super::Step::Trust`].
    pub trusted: bool,
    /// It has all names of those before it.
    pub covers: bool,
    /// Tries in a row to seal it that failed for a reason other than a touch.
    pub failures: u32,
    /// All ranks have written their closed files of it to the PFS, since it could not be sealed.
    pub spilled: bool,
    /// New files of it go to the PFS: it began while the series was being learned, or could not be
    /// sealed in the cache.
    pub prefix_only: bool,
    /// The program deleted some of its files before they were known to be all: it is never
    /// confirmed.
    pub abandoned: bool,
    /// See [`super::report::SealedReport`]; as of the last conference.
    pub deleted_from: bool,
    /// See [`super::report::SealedReport`].
    pub live: bool,
    /// See [`super::report::SealedReport`].
    pub held: bool,
    /// See [`super::report::SealedReport`].
    pub kept: bool,
    /// A rank has written fewer files of a kind to it than to the one before.
    pub lacks: bool,
    /// Sealed since the last reports: whether it is live or held is not known yet.
    pub fresh: bool,
}

impl SharedDataset {
    /// Tells whether it is sealed, but never to be confirmed: offered at a restart if no node is
    /// lost, and removed after a newer one is confirmed.
    pub(super) fn is_second_rate(&self) -> bool {
        self.state == DatasetState::Provisional && (self.restored || self.abandoned)
    }

    /// Tells whether the program still sees, for all that is known, what only the cache has of it.
    pub(super) fn is_kept(&self) -> bool {
        (self.kept || self.fresh) && !self.flushed
    }

    /// Tells whether it was tried often enough: see [`super::Step::Spill`] and
    /// [`super::Step::GiveUp`].
    pub(super) fn is_failing(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    pub(super) fn new(key: DatasetKey) -> Self {
        SharedDataset {
            key,
            id: 0,
            number: 0,
            turn: 0,
            state: DatasetState::Open,
            restored: false,
            due: false,
            flushed: false,
            output: false,
            on_prefix: false,
            encoding: None,
            seals: 0,
            took_ms: 0,
            trusted: false,
            covers: false,
            failures: 0,
            spilled: false,
            prefix_only: false,
            abandoned: false,
            deleted_from: false,
            live: false,
            held: false,
            kept: false,
            lacks: false,
            fresh: false,
        }
    }
}

/// A series as all ranks know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SharedSeries {
    pub routing: Routing,
    pub settle_ms: u64,
    pub clean_seals: u32,
    pub interval_ms: u64,
    pub habit: Habit,
    pub next_number: u64,
    pub unsafe_names: BTreeMap<u64, Why>,
    /// The first name without id among them, for which the routing is that to the PFS.
    pub marked: Option<Mark>,
    /// Files are written again inside one checkpoint: a full set does not tell that it is complete.
    pub rewrites: bool,
    /// Names that are never quiet.
    pub restless: BTreeSet<u64>,
    /// Oldest first.
    pub datasets: Vec<SharedDataset>,
    /// One was confirmed since the last reports: it may have what was live of older ones.
    pub confirms: bool,
    /// Something waits for the next reports to tell that, or has waited for these: not again.
    pub waits: bool,
    pub waited: bool,
    /// (name, rank) of all files written while learning, or new, since the last confirmation.
    pub written: BTreeSet<(u64, usize)>,
    /// While learning: (name, rank, has no id) of all files read but not written by a rank.
    pub read: BTreeSet<(u64, usize, bool)>,
    /// The knowledge changed and is to be stored.
    pub learned: bool,
}

/// The state that all ranks share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Shared {
    pub series: Vec<SharedSeries>,
    pub next_id: u64,
    /// Counts what was begun.
    pub turns: u64,
    /// Counts seals tried, so that no two have the same epoch.
    pub seals_tried: u64,
    /// Encodings beside the program in a row that failed.
    pub encodings_failed: u32,
    /// Datasets in a row that could not be sealed in the cache.
    pub spills: u32,
    /// A rank cannot use the cache any more: the files of all ranks go to the PFS.
    pub fallen_back: bool,
}

impl Shared {
    pub fn new(config: &MachineConfig, knowledge: &[Knowledge]) -> Self {
        let series = config.series.iter().enumerate().map(|(index, series)| {
            let known = knowledge.get(index).cloned().unwrap_or_default();
            let learning = series.learn && known.files.is_none();
            // With `:own` or SCR_LEARN=0 the user says what learning could not tell.
            let is_told = |why: &Why| !series.learn && *why == Why::GoesOn;
            let prefix_only = known.prefix_only.filter(|why| !is_told(why));
            let routing = match (prefix_only, learning) {
                (Some(_), _) => Routing::Prefix,
                (None, true) => Routing::Learning,
                (None, false) => Routing::Cache,
            };
            SharedSeries {
                routing,
                settle_ms: if known.settle_ms == 0 { config.settle_ms } else { known.settle_ms },
                clean_seals: known.clean_seals,
                interval_ms: known.interval_ms,
                habit: known.habit,
                next_number: 1,
                unsafe_names: known.unsafe_names,
                marked: prefix_only.map(|why| Mark { name: 0, bare: true, why }),
                rewrites: known.rewrites,
                restless: known.restless,
                datasets: Vec::new(),
                confirms: false,
                waits: false,
                waited: false,
                written: BTreeSet::new(),
                read: BTreeSet::new(),
                learned: false,
            }
        });
        Shared {
            series: series.collect(),
            next_id: 1,
            turns: 0,
            seals_tried: 0,
            encodings_failed: 0,
            spills: 0,
            fallen_back: false,
        }
    }

    /// Notes that one more dataset could not be sealed in the cache.
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

    /// Returns the newest number of a confirmed dataset of the series; 0 if there is none.
    pub fn newest_confirmed(&self, series: usize) -> u64 {
        let confirmed = self.series[series].datasets.iter().rev();
        let mut confirmed = confirmed.filter(|dataset| dataset.state == DatasetState::Confirmed);
        confirmed.next().map_or(0, |dataset| dataset.id)
    }

    /// Makes a number that differs when anything here differs.
    pub fn digest(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        // DefaultHasher::new has fixed keys: equal states give equal digests on all ranks.
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl SharedSeries {
    /// Returns the place of its oldest dataset in progress among those of all series.
    pub fn first_turn(&self) -> u64 {
        self.open().next().map_or(u64::MAX, |dataset| dataset.turn)
    }

    pub fn open(&self) -> impl Iterator<Item = &SharedDataset> {
        self.datasets.iter().filter(|dataset| dataset.state == DatasetState::Open)
    }

    /// Tells how many other ids (or generations, without ids) that `counts` are confirmed after
    /// `index`.
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

    /// Tells whether it is unknown if the program still sees files of the dataset that only the
    /// cache has.
    pub fn is_unsure(&self, index: usize) -> bool {
        let dataset = &self.datasets[index];
        let unsure = self.confirms && !self.waited;
        unsure && dataset.live && !dataset.due && !dataset.flushed
    }

    /// Tells whether there is any newer confirmed dataset, other generations of the same id
    /// included.
    pub fn newer_confirmed(&self, index: usize) -> bool {
        let mut newer = self.datasets[index + 1..].iter();
        newer.any(|dataset| dataset.state == DatasetState::Confirmed)
    }
}
