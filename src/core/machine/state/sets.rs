//! Whether a dataset has all its files.

use std::collections::BTreeSet;

use super::dataset::{LocalDataset, Phase, Status};
use super::facts::RunFacts;
use super::shared::DatasetState;
use crate::machine::terms::{DatasetKey, FileRef};

/// By this the settle time is longer for a dataset that lacks names of those before.
const LACKING_FACTOR: u64 = 16;

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

    /// Tells whether this rank's files have been quiet for the settle time. While they are fewer
    /// than those before, the others are most likely about to come: a seal would be in their way.
    pub fn is_settled(&self, dataset: &LocalDataset) -> bool {
        let series = &self.shared.series[dataset.key.series];
        let settle_ms = series.settle_ms;
        let longer_ms = (settle_ms * LACKING_FACTOR).min(series.settle_most_ms(&self.config));
        let quiet_ms = self.clock_ms.saturating_sub(dataset.touched_ms);
        quiet_ms >= settle_ms && (quiet_ms >= longer_ms || !self.lacks_names(dataset))
    }

    /// Tells whether this rank's part of the datasets before had names that this one has not.
    pub fn lacks_names(&self, dataset: &LocalDataset) -> bool {
        let all = self.series[dataset.key.series].datasets.iter();
        let older = all.take_while(|other| other.key != dataset.key);
        let mut older = older.filter(|other| self.status(&other.key) != Status::Dropped);
        let own = dataset.names();
        older.any(|other| !other.names().is_subset(&own))
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

#[cfg(test)]
mod tests {
    use super::super::testing::{facts, file, share, write};
    use super::*;

    #[test]
    fn a_dataset_that_lacks_names_is_left_alone_for_longer() {
        let mut facts = facts(true);
        let (first, second) = (DatasetKey::new(0, "1", 0), DatasetKey::new(0, "2", 0));
        let settled = |facts: &mut RunFacts, key: &DatasetKey, at_ms| {
            facts.tick(at_ms);
            facts.series[0].find(key).map(|dataset| facts.is_settled(dataset))
        };
        for name in ["head.1", "data.1"] {
            write(&mut facts, &first, &file("1", name), 0);
        }
        assert_eq!(settled(&mut facts, &first, 49), Some(false));
        assert_eq!(settled(&mut facts, &first, 50), Some(true));
        share(&mut facts, &first, DatasetState::Confirmed);
        write(&mut facts, &second, &file("2", "head.2"), 1_000);
        assert_eq!(settled(&mut facts, &second, 1_000 + 799), Some(false));
        assert_eq!(settled(&mut facts, &second, 1_000 + 800), Some(true));
        write(&mut facts, &second, &file("2", "data.2"), 3_000);
        assert_eq!(settled(&mut facts, &second, 3_050), Some(true), "it has all");
        facts.shared.series[0].interval_ms = 400;
        write(&mut facts, &DatasetKey::new(0, "3", 0), &file("3", "head.3"), 4_000);
        assert_eq!(settled(&mut facts, &DatasetKey::new(0, "3", 0), 4_100), Some(true), "a fourth");
    }
}
