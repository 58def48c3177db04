//! What a flush leaves out, and what it takes along of older datasets.

use super::parts::Machine;
use super::state::{Deleted, LocalFile, OnPfs, SharedDataset, Status};
use super::terms::DatasetKey;

impl Machine {
    /// Tells whether a flush of the dataset must not write this file of ours: its deletion is real,
    /// or the PFS has it under another name or with newer content of this rank, or it is never
    /// quiet.
    pub fn is_left_out(&self, key: &DatasetKey, name: &str) -> bool {
        self.is_withdrawn(key, name) || self.is_replaced(key, name)
    }

    /// Does what [`Machine::is_left_out`] does, for a thread that has its turn to give the file its
    /// name. Flushes that have begun since do not keep it back: other ranks' threads may have named
    /// their files, and the PFS would have a part of this flush.
    pub fn is_left_out_now(&self, key: &DatasetKey, name: &str) -> bool {
        self.is_gone(key, name)
            || self.facts.has_newer(key, name, OnPfs::There)
            || self.is_replaced(key, name)
    }

    /// Finds this rank's files of `along` that a flush of `head` publishes with its own: those of
    /// which no complete dataset up to it has newer content.
    pub fn files_along(
        &self,
        along: &[DatasetKey],
        head: &DatasetKey,
    ) -> Vec<(DatasetKey, Vec<String>)> {
        let datasets = &self.facts.series[head.series].datasets;
        let end = datasets.iter().position(|dataset| dataset.key == *head);
        let until = &datasets[..end.map_or(datasets.len(), |end| end + 1)];
        let counts =
            |key: &DatasetKey| along.contains(key) || self.facts.status(key) == Status::Confirmed;
        let names = |key: &DatasetKey| {
            let from = until.iter().skip_while(|dataset| dataset.key != *key);
            let newer = from.clone().skip(1).filter(|newer| counts(&newer.key));
            let own = from.take(1).flat_map(|own| &own.files).filter(|(name, file)| {
                let replaced = newer.clone().any(|newer| newer.files.contains_key(*name));
                file.on_prefix.is_none() && !replaced && !self.is_withdrawn(key, name)
            });
            own.map(|(name, _)| name.clone()).collect()
        };
        along.iter().map(|key| (key.clone(), names(key))).collect()
    }

    fn is_withdrawn(&self, key: &DatasetKey, name: &str) -> bool {
        self.is_gone(key, name) || self.facts.has_newer_on_prefix(key, name)
    }

    fn is_gone(&self, key: &DatasetKey, name: &str) -> bool {
        let id = self.facts.id_of(key);
        let file = self.facts.file(key, name);
        let deleted = file.is_some_and(LocalFile::is_deleted);
        let moved = file.is_some_and(|file| file.moved || file.deleted == Deleted::Amended);
        let silenced =
            file.is_some_and(|file| self.logs.is_silenced(key.series, file.named.masked));
        let outdated = || {
            id < self.facts.shared.newest_confirmed(key.series) && !self.facts.is_remade(key, name)
        };
        let real = deleted && (self.facts.ending || outdated());
        moved || silenced || real
    }

    /// The dataset is flushed only for what nothing newer has, and a newer confirmed one has this,
    /// or at the end any newer one a pointer file: that comes to the PFS in any case.
    fn is_replaced(&self, key: &DatasetKey, name: &str) -> bool {
        let newer = self.facts.series[key.series].newer(key);
        let mut newer = newer.filter(|newer| self.facts.status(&newer.key) == Status::Confirmed);
        let has_id = self.facts.config.series[key.series].has_id;
        let partial = |shared: &SharedDataset| {
            shared.is_second_rate() || (has_id && shared.told.deleted_from)
        };
        let replaced = newer.any(|newer| newer.files.contains_key(name));
        self.facts.shared.find(key).is_some_and(partial)
            && (replaced || (self.facts.ending && self.facts.is_older_pointer(key, name)))
    }
}
