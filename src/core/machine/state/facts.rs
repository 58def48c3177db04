//! All that one rank knows of the run, with the questions that everyone asks.

use super::agreement::Agreement;
use super::dataset::{LocalDataset, Phase, Status};
use super::file::{Begun, LocalFile};
use super::series::LocalSeries;
use super::shared::{DatasetState, SharedDataset, SharedFacts};
use crate::machine::terms::{DatasetKey, FileRef, Knowledge, MachineConfig, SealFile};

/// `shared` is equal on all ranks.
#[derive(Debug, Clone)]
pub struct RunFacts {
    pub config: MachineConfig,
    pub shared: SharedFacts,
    pub series: Vec<LocalSeries>,
    pub agreement: Agreement,
    pub clock_ms: u64,
    pub falls_back: bool,
    pub ending: bool,
    pub exiting: bool,
    pub ended: bool,
    pub begins: u64,
    /// The thread that the next event comes from; 0: not told.
    pub caller: u64,
}

impl RunFacts {
    pub fn new(config: MachineConfig, knowledge: &[Knowledge], now_ms: u64) -> Self {
        let series = (0..config.series.len()).map(|index| {
            let known = knowledge.get(index).cloned().unwrap_or_default();
            LocalSeries {
                known: known.files,
                temporaries: known.temporaries,
                sizes: known.sizes,
                ..LocalSeries::default()
            }
        });
        RunFacts {
            shared: SharedFacts::new(&config, knowledge),
            series: series.collect(),
            agreement: Agreement::new(now_ms),
            clock_ms: now_ms,
            falls_back: false,
            ending: false,
            exiting: false,
            ended: false,
            begins: 0,
            caller: 0,
            config,
        }
    }

    /// Tells whether each node could have its part of such files: the dataset of one is known, and
    /// the program does not say by calls what is in it.
    pub fn may_be_parted(&self, file: &FileRef) -> bool {
        let rule = &self.config.series[file.series];
        self.config.caches_parts && rule.has_id == file.id.is_some() && !rule.is_explicit()
    }

    pub fn tick(&mut self, now_ms: u64) {
        self.clock_ms = self.clock_ms.max(now_ms);
    }

    pub fn is_passive(&self) -> bool {
        self.ended || self.agreement.disabled
    }

    /// Tells whether the event comes from a thread that sync points do not stop: one may be passed
    /// between any two of its doings.
    pub fn is_aside(&self) -> bool {
        self.agreement.streams.has_other_than(self.caller)
    }

    /// Tells whether the dataset waits to be told where its files belong.
    pub fn is_floating(&self, key: &DatasetKey) -> bool {
        key.id.is_empty() && self.config.series[key.series].has_id
    }

    pub fn cached_bytes(&self, key: &DatasetKey) -> u64 {
        let cached = self.files_of(key).filter(|(_, file)| file.on_prefix.is_none());
        cached.map(|(_, file)| file.bytes).sum()
    }

    pub fn own(&self, key: &DatasetKey) -> Option<&LocalDataset> {
        self.series[key.series].find(key)
    }

    pub fn own_mut(&mut self, key: &DatasetKey) -> Option<&mut LocalDataset> {
        self.series[key.series].find_mut(key)
    }

    pub fn file(&self, key: &DatasetKey, name: &str) -> Option<&LocalFile> {
        self.own(key)?.files.get(name)
    }

    pub fn files_of(&self, key: &DatasetKey) -> impl Iterator<Item = (&String, &LocalFile)> {
        self.own(key).into_iter().flat_map(|own| &own.files)
    }

    pub fn file_mut(&mut self, key: &DatasetKey, name: &str) -> Option<&mut LocalFile> {
        self.own_mut(key)?.files.get_mut(name)
    }

    /// Tells how far the dataset is, as this rank must treat it.
    pub fn status(&self, key: &DatasetKey) -> Status {
        let local = self.own(key).map(|dataset| dataset.phase);
        let shared = self.shared.find(key).map(|dataset| dataset.state);
        match (local, shared) {
            (Some(Phase::Dropped), _) | (_, Some(DatasetState::Dropped)) => Status::Dropped,
            (Some(Phase::Locked | Phase::Voted { confirms: true }), _)
            | (_, Some(DatasetState::Confirmed)) => Status::Confirmed,
            (Some(Phase::Voted { .. }), _) => Status::Provisional,
            (Some(Phase::Sealed), Some(DatasetState::Provisional)) => Status::Provisional,
            _ => Status::Open,
        }
    }

    /// Finds the newest generation of `(series, id)` that anyone knows of.
    pub fn newest(&self, series: usize, id: &str) -> Option<DatasetKey> {
        let local = self.series[series].datasets.iter().map(|dataset| &dataset.key);
        let shared = self.shared.series[series].datasets.iter().map(|dataset| &dataset.key);
        local.chain(shared).filter(|key| key.id == id).max_by_key(|key| key.generation).cloned()
    }

    /// Finds the newest dataset on this rank in which the program sees `file`, with its status.
    pub fn holder(&self, file: &FileRef) -> Option<(DatasetKey, Status)> {
        let datasets = self.series[file.series].datasets.iter().rev();
        let mut holders = datasets.filter(|dataset| dataset.holds(&file.name));
        holders.next().map(|dataset| (dataset.key.clone(), self.status(&dataset.key)))
    }

    pub fn file_is_on_prefix(&self, key: &DatasetKey, name: &str) -> bool {
        self.file(key, name).is_some_and(|file| file.on_prefix.is_some())
    }

    pub fn is_open_in_cache(&self, key: &DatasetKey, name: &str) -> bool {
        let file = self.file(key, name);
        file.is_some_and(|file| file.open > 0 && file.on_prefix.is_none() && !file.is_deleted())
    }

    /// Tells whether the file was written and closed in this dataset, with a sync point since: the
    /// program starts its next checkpoint when it changes the file again.
    pub fn written_before(&self, key: &DatasetKey, file: &FileRef) -> bool {
        let Some(own) = self.own(key) else { return false };
        let held = own.files.get(&file.name).or_else(|| own.left.get(&file.name));
        held.is_some_and(|file| file.is_past(self.agreement.count))
    }

    pub fn newest_taker(&self, series: usize) -> Option<&DatasetKey> {
        let newest = self.shared.series[series].datasets.last()?;
        let takes = match newest.state {
            DatasetState::Open => true,
            DatasetState::Provisional => !newest.restored,
            DatasetState::Confirmed | DatasetState::Dropped => false,
        };
        takes.then_some(&newest.key)
    }

    /// Tells whether the file was made anew, changed in place after a sync point, and is made anew
    /// once more.
    pub fn went_on(&self, file: &FileRef) -> bool {
        let held = self.holder(file).and_then(|(key, _)| self.file(&key, &file.name));
        held.is_some_and(|held| held.begun == Begun::GoesOn)
    }

    pub fn local_mut(&mut self, key: &DatasetKey) -> &mut LocalDataset {
        let clock_ms = self.clock_ms;
        self.series[key.series].entry(key, clock_ms)
    }

    pub fn is_followed(&self, index: usize, at: usize) -> bool {
        let mut later = self.shared.series[index].datasets[at + 1..].iter();
        later.any(|later| later.state != DatasetState::Dropped && !later.restored)
    }

    /// Tells whether the dataset is what the program writes to a checkpoint after that was given
    /// up: a part, and no checkpoint.
    pub fn is_rest(&self, key: &DatasetKey) -> bool {
        let mut all = self.shared.series[key.series].datasets.iter();
        self.config.series[key.series].has_id
            && all.any(|one| {
                one.state == DatasetState::Dropped && one.failing.spilled && one.key.same_group(key)
            })
    }

    /// Tells whether what the program keeps of the series has to reach the PFS, as long as it does.
    /// Without ids each checkpoint has the names of the one before.
    pub fn is_kept_series(&self, index: usize) -> bool {
        let rule = &self.config.series[index];
        rule.keeps && rule.has_id
    }

    /// Returns the datasets in progress that this rank knows of, without floating ones.
    pub fn in_progress(&self) -> impl Iterator<Item = &LocalDataset> {
        let all = self.series.iter().flat_map(|series| series.datasets.iter());
        all.filter(|dataset| {
            !self.is_floating(&dataset.key) && self.status(&dataset.key) == Status::Open
        })
    }

    /// Returns the datasets that are open on this rank, with floating ones.
    pub fn in_progress_here(&self) -> impl Iterator<Item = &LocalDataset> {
        let all = self.series.iter().flat_map(|series| series.datasets.iter());
        all.filter(|dataset| dataset.begun && self.status(&dataset.key) == Status::Open)
    }

    pub fn is_on_one_node(&self) -> bool {
        let nodes = &self.config.nodes;
        nodes.iter().all(|node| *node == nodes[0])
    }

    pub fn store_of(&self, series: usize, number: u64) -> usize {
        self.config.series[series].places.store(number)
    }

    pub fn kept_in(&self, series: usize, store: usize) -> usize {
        let rule = &self.config.series[series];
        rule.places.sizes.get(store).copied().unwrap_or(rule.cache_size).max(1)
    }

    /// Tells whether datasets that wait for their flush take every place in the store of the
    /// series' next dataset.
    pub fn is_overfull(&self, series: usize) -> bool {
        let store = self.store_of(series, self.shared.series[series].next_number);
        let waiting = self.shared.series[series].datasets.iter().filter(|dataset| {
            dataset.due
                && !dataset.flushed
                && dataset.state == DatasetState::Confirmed
                && self.store_of(series, dataset.number) == store
        });
        waiting.count() > self.kept_in(series, store)
    }

    /// Returns the number that all generations of one id share, so that they are due together.
    pub fn number_at(&self, index: usize, at: usize) -> u64 {
        let series = &self.shared.series[index];
        let key = &series.datasets[at].key;
        let joins = self.config.series[index].joins_generations();
        let same = |other: &&SharedDataset| {
            joins && other.number > 0 && other.seals.count > 0 && other.key.same_group(key)
        };
        series.datasets.iter().find(same).map_or(series.next_number, |other| other.number)
    }

    pub fn id_of(&self, key: &DatasetKey) -> u64 {
        self.shared.find(key).map_or(0, |dataset| dataset.id)
    }

    pub fn seal_files(&self, key: &DatasetKey) -> Vec<SealFile> {
        self.files_of(key)
            .map(|(name, file)| SealFile {
                name: name.clone(),
                bytes: file.bytes,
                on_prefix: file.on_prefix.is_some(),
            })
            .collect()
    }

    /// Tells whether this rank has begun a later dataset of the series, which is in progress.
    pub fn has_successor(&self, key: &DatasetKey) -> bool {
        self.series[key.series].newer(key).any(|later| {
            later.is_successor()
                && !self.is_floating(&later.key)
                && self.status(&later.key) == Status::Open
        })
    }

    pub fn keeps_any(&self, series: usize) -> bool {
        let series = &self.shared.series[series];
        let sealed = |one: &SharedDataset| one.id > 0 && !one.on_prefix;
        series.routing.caches() || series.datasets.iter().any(sealed)
    }

    /// Tells whether the file names no checkpoint, but lies beside those that are named.
    pub fn is_marker(&self, file: &FileRef) -> bool {
        file.id.is_none() && self.config.series[file.series].has_id
    }

    pub fn has_older(&self, file: &FileRef) -> bool {
        let mut datasets = self.series[file.series].datasets.iter();
        datasets.any(|dataset| dataset.files.contains_key(&file.name))
    }

    pub fn open_count(&self, file: &FileRef) -> u32 {
        let Some((key, Status::Open)) = self.holder(file) else { return 0 };
        self.file(&key, &file.name).map_or(0, |file| file.open)
    }

    pub fn quiet_ms(&self, series: usize) -> u64 {
        let touched = self.series[series].datasets.iter().map(|dataset| dataset.touched_ms);
        self.clock_ms.saturating_sub(touched.max().unwrap_or(0))
    }
}
