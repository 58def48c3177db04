//! Whether a dataset has all its files.

use std::collections::BTreeSet;

use super::dataset::{LocalDataset, Phase};
use super::facts::RunFacts;
use super::shared::DatasetState;
use crate::machine::terms::{DatasetKey, FileRef};

impl RunFacts {
    /// Tells whether this rank's files are those of the last confirmed dataset of the series, or
    /// the program has said that they are all.
    pub fn is_complete(&self, dataset: &LocalDataset) -> bool {
        if let Some(explicit) = dataset.explicit {
            return explicit.complete;
        }
        let rewrites = self.shared.series[dataset.key.series].rewrites;
        let known = self.series[dataset.key.series].known;
        !rewrites && dataset.open_files() == 0 && known == Some(dataset.set())
    }

    /// Does what [`RunFacts::is_complete`] does, but compares the second dataset of a series with
    /// the first, which only the conference that this one waits for confirms.
    pub fn looks_complete(&self, dataset: &LocalDataset) -> bool {
        self.excess(dataset) == Some(0)
    }

    /// Returns by what the sum of the dataset's names on this rank (`set_hash`) is more than that
    /// of the names to expect. Over all ranks it comes to 0 for a dataset that is complete, also if
    /// another rank of the node has made a file that several of them write.
    /// `None`: it is not complete, or nobody knows.
    pub fn excess(&self, dataset: &LocalDataset) -> Option<u64> {
        if let Some(explicit) = dataset.explicit {
            return explicit.complete.then_some(0);
        }
        let series = dataset.key.series;
        let datasets = &self.series[series].datasets;
        let before = datasets.iter().take_while(|other| other.key != dataset.key);
        let known = !self.shared.series[series].rewrites && dataset.open_files() == 0;
        let expected = known.then(|| self.expected_set(series, before)).flatten()?;
        Some(dataset.set().wrapping_sub(expected))
    }

    /// Returns the set of the last confirmed dataset on this rank; else that of the one among
    /// `datasets` that is confirmed as soon as all know of its successor.
    pub fn expected_set<'a>(
        &'a self,
        series: usize,
        datasets: impl Iterator<Item = &'a LocalDataset>,
    ) -> Option<u64> {
        let first = || {
            let mut sealed = datasets.filter(|dataset| {
                let shared = self.shared.find(&dataset.key);
                dataset.phase == Phase::Sealed
                    && shared.is_some_and(|shared| {
                        shared.state == DatasetState::Provisional && !shared.is_second_rate()
                    })
            });
            sealed.next().map(LocalDataset::set)
        };
        self.series[series].known.or_else(first)
    }

    pub fn is_settled(&self, dataset: &LocalDataset) -> bool {
        let settle_ms = self.shared.series[dataset.key.series].settle_ms;
        self.clock_ms.saturating_sub(dataset.touched_ms) >= settle_ms
    }

    /// Tells whether the oldest dataset in progress of some series cannot be sealed yet, as far as
    /// this rank can tell. Later ones must wait for it anyway.
    pub fn is_busy(&self) -> bool {
        (0..self.series.len()).any(|series| {
            let mut open = self.in_progress().filter(|dataset| dataset.key.series == series);
            let Some(oldest) = open.next() else { return false };
            let followed = open.any(|dataset| dataset.is_successor());
            let ready = followed
                || oldest.why_invalid().is_some()
                || self.looks_complete(oldest)
                || self.is_settled(oldest);
            oldest.open_files() > 0 || !ready
        })
    }

    /// Tells whether this rank's part of a dataset without id has all files of the last complete
    /// one: files that a checkpoint lacks while it is being written get their last names then.
    /// `None`: there is nothing to compare it with.
    pub fn is_full(&self, key: &DatasetKey) -> Option<bool> {
        self.is_full_but(key, &BTreeSet::new())
    }

    pub fn is_full_but(&self, key: &DatasetKey, names: &BTreeSet<u64>) -> Option<bool> {
        let local = &self.series[key.series];
        let mut confirmed = self.shared.series[key.series].datasets.iter().rev();
        let last = confirmed.find(|dataset| dataset.state == DatasetState::Confirmed)?;
        let last = local.find(&last.key).filter(|last| !last.files.is_empty())?;
        let mut wanted = last.files.iter().filter(|(_, file)| !names.contains(&file.named.masked));
        local.find(key).map(|own| wanted.all(|(name, _)| own.files.contains_key(name)))
    }

    /// Tells whether this rank's dataset at `at` keeps the file, which the program deletes or moves
    /// `into` a later one, since it was part of a checkpoint that is over. What has been written
    /// since the last sync point or seal is part of the next one, even under a temporary name.
    pub fn is_kept_of(&self, file: &FileRef, at: usize, into: Option<&DatasetKey>) -> bool {
        let dataset = &self.series[file.series].datasets[at];
        let key = &dataset.key;
        let over = || match into {
            Some(into) => into != key && self.goes_on(file, key, into),
            None => self.is_full(key) == Some(true) || self.is_complete(dataset),
        };
        !self.config.series[file.series].has_id
            && self.written_before(key, file)
            && !dataset.is_added(&file.name)
            && over()
    }

    /// Tells whether a file of `key` that is moved into `into` goes on there, and is not given up.
    /// The PFS has just one of it, so that the older dataset loses it.
    pub fn goes_on(&self, file: &FileRef, key: &DatasetKey, into: &DatasetKey) -> bool {
        into == key || (into.same_group(key) && !self.file_is_on_prefix(key, &file.name))
    }
}
