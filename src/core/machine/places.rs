//! Which store a dataset goes to, by its number in its series, and how many are kept there.

use super::keys::{DatasetKey, FileRef};
use super::local::Phase;
use super::reason::Reason;
use super::shared::SharedDataset;
use super::{DatasetState, Machine};

impl Machine {
    /// Returns the number in series that the dataset has, or will have if those before it are
    /// sealed: from it follow store and redundancy descriptor. The seal settles any difference.
    #[must_use]
    pub fn number_of(&self, key: &DatasetKey) -> u64 {
        let series = &self.shared.series[key.series];
        let joins = self.config.series[key.series].joins_generations();
        let numbered = |other: &&SharedDataset| {
            other.number > 0 && (other.key == *key || (joins && other.key.same_group(key)))
        };
        if let Some(numbered) = series.datasets.iter().find(numbered) {
            return numbered.number;
        }
        let waits = |other: &DatasetKey| {
            let shared = self.shared.find(other);
            let is_first = |found: &SharedDataset| found.number == 0 || found.encoding.is_some();
            let unsealed =
                shared.is_none_or(|found| is_first(found) && found.state == DatasetState::Open);
            unsealed && !self.is_floating(other) && !(joins && other.same_group(key))
        };
        let before = self.series[key.series].datasets.iter().take_while(|one| one.key != *key);
        let ahead = before.filter(|one| one.phase == Phase::Open && waits(&one.key));
        series.next_number + ahead.count() as u64
    }

    /// Does what [`Machine::number_of`] does for the dataset that a write of `file` would go to.
    #[must_use]
    pub fn number_for(&self, file: &FileRef) -> u64 {
        self.number_of(&self.target(file))
    }

    /// Returns the index of the store of the dataset with this number in its series.
    pub(super) fn store_of(&self, series: usize, number: u64) -> usize {
        self.config.series[series].places.store(number)
    }

    /// Notes that the PFS has the file under its own name.
    pub fn moved_to_prefix(&mut self, key: &DatasetKey, name: &str, reason: Reason) {
        self.set_on_prefix(key, name, Some(reason));
    }

    /// Notes that the PFS refuses the file: it is in the cache, however many datasets are there.
    pub fn kept_in_cache(&mut self, key: &DatasetKey, name: &str) {
        self.set_on_prefix(key, name, None);
    }

    /// Tells whether what the dataset has of this rank's file lies on the PFS, as its record is to
    /// say; `None` if it does not have the file (any more).
    #[must_use]
    pub fn lies_on_prefix(&self, key: &DatasetKey, name: &str) -> Option<bool> {
        let file = self.series[key.series].find(key)?.files.get(name)?;
        Some(file.on_prefix.is_some() && !file.keeps_copy)
    }

    /// Tells whether of some file of the dataset this rank's newest content is in the cache.
    #[must_use]
    pub fn has_cached(&self, key: &DatasetKey) -> bool {
        let own = self.series[key.series].find(key);
        own.is_some_and(|own| own.files.values().any(|file| file.on_prefix.is_none()))
    }

    /// Tells whether this file of a [`Step::Spill`](super::Step::Spill) is still to be written: a
    /// thread of the program may have opened or deleted it since.
    #[must_use]
    pub fn is_spilled(&self, key: &DatasetKey, name: &str) -> bool {
        let own = self.series[key.series].find(key);
        let file = own.and_then(|own| own.files.get(name));
        file.is_some_and(|file| file.open == 0 && file.on_prefix.is_none() && !file.deleted)
    }

    fn set_on_prefix(&mut self, key: &DatasetKey, name: &str, on_prefix: Option<Reason>) {
        if let Some(dataset) = self.series[key.series].find_mut(key)
            && let Some(file) = dataset.files.get_mut(name)
        {
            (file.on_prefix, file.keeps_copy) = (on_prefix, false);
            file.joined &= on_prefix.is_none(); // this rank answers for what it has there
            dataset.spoil();
        }
        self.note_name();
    }

    /// Tells how many datasets of the series are kept in a store.
    pub(super) fn kept_in(&self, series: usize, store: usize) -> usize {
        let rule = &self.config.series[series];
        rule.places.sizes.get(store).copied().unwrap_or(rule.cache_size).max(1)
    }

    /// Tells whether every place in the store of the series' next dataset is taken by ones that
    /// wait for their flush.
    pub(super) fn is_overfull(&self, series: usize) -> bool {
        let store = self.store_of(series, self.shared.series[series].next_number);
        let waiting = self.shared.series[series].datasets.iter().filter(|dataset| {
            dataset.due
                && !dataset.flushed
                && dataset.state == DatasetState::Confirmed
                && self.store_of(series, dataset.number) == store
        });
        waiting.count() > self.kept_in(series, store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Intent, MachineConfig, Places, SeriesConfig};

    #[test]
    fn the_largest_interval_that_divides_has_the_store() {
        let places = Places::new(vec![(1, 0), (4, 2), (2, 1)], vec![]);
        let stores: Vec<_> = (1..=8).map(|number| places.store(number)).collect();
        assert_eq!(stores, [0, 1, 0, 2, 0, 1, 0, 2]);
        assert_eq!(Places::default().store(7), 0);
    }

    #[test]
    fn a_dataset_that_begins_before_others_are_sealed_has_the_number_after_theirs() {
        let mut series = SeriesConfig::new("ckpt", true);
        series.learn = false;
        let mut machine = Machine::new(MachineConfig::new(0, vec![0], vec![series]), &[], 0);
        let file = |id: &str| FileRef {
            series: 0,
            id: Some(id.into()),
            name: format!("ckpt/{id}"),
            masked: "ckpt/{id}".into(),
            temporary: false,
        };
        assert_eq!(machine.number_for(&file("10")), 1);
        machine.write_open(&file("10"), Intent::REWRITE, 1);
        machine.write_open(&file("20"), Intent::REWRITE, 2);
        let numbers = ["10", "20", "30"].map(|id| machine.number_for(&file(id)));
        assert_eq!(numbers, [1, 2, 3]);
    }
}
