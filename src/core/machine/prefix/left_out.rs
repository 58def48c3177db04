//! What a flush leaves out, and what it takes along of older datasets.

use crate::machine::matters::logs::Logs;
use crate::machine::state::dataset::Standing;
use crate::machine::state::file::{Deleted, LocalFile, OnPfs};
use crate::machine::state::ledger::MachineLedger;
use crate::machine::state::shared::SharedDataset;
use crate::machine::terms::keys::DatasetKey;

/// Judges what a flush writes.
pub struct LeftOut<'a> {
    pub ledger: &'a MachineLedger,
    pub logs: &'a Logs,
}

impl LeftOut<'_> {
    /// Does what `Machine::is_left_out` does.
    pub fn is_left_out(&self, key: &DatasetKey, name: &str) -> bool {
        self.is_withdrawn(key, name) || self.is_replaced(key, name)
    }

    /// Does what `Machine::is_left_out_now` does.
    pub fn is_left_out_now(&self, key: &DatasetKey, name: &str) -> bool {
        self.is_gone(key, name)
            || self.ledger.has_newer(key, name, OnPfs::There)
            || self.is_replaced(key, name)
    }

    /// Does what `Machine::files_along` does.
    pub fn files_along(
        &self,
        along: &[DatasetKey],
        head: &DatasetKey,
    ) -> Vec<(DatasetKey, Vec<String>)> {
        let datasets = &self.ledger.series[head.series].datasets;
        let end = datasets.iter().position(|dataset| dataset.key == *head);
        let until = &datasets[..end.map_or(datasets.len(), |end| end + 1)];
        let counts = |key: &DatasetKey| {
            along.contains(key) || self.ledger.status(key) == Standing::Confirmed
        };
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
        self.is_gone(key, name) || self.ledger.has_newer_on_prefix(key, name)
    }

    fn is_gone(&self, key: &DatasetKey, name: &str) -> bool {
        let id = self.ledger.id_of(key);
        let own = self.ledger.series[key.series].find(key);
        let file = own.and_then(|own| own.files.get(name));
        let deleted = file.is_some_and(LocalFile::is_deleted);
        let moved = file.is_some_and(|file| file.moved || file.deleted == Deleted::Amended);
        let silenced =
            file.is_some_and(|file| self.logs.is_silenced(key.series, file.named.masked));
        let outdated = || {
            id < self.ledger.shared.newest_confirmed(key.series)
                && !self.ledger.is_remade(key, name)
        };
        let real = deleted && (self.ledger.ending || outdated());
        moved || silenced || real
    }

    /// The dataset is flushed only for what nothing newer has, since it is not complete (any more),
    /// and a newer confirmed one has this, or at the end any newer one a pointer file: that comes
    /// to the PFS in any case, and what the older one names is not whole.
    fn is_replaced(&self, key: &DatasetKey, name: &str) -> bool {
        let datasets = &self.ledger.series[key.series].datasets;
        let newer = datasets.iter().skip_while(|dataset| dataset.key != *key).skip(1);
        let mut newer = newer.filter(|newer| self.ledger.status(&newer.key) == Standing::Confirmed);
        let has_id = self.ledger.config.series[key.series].has_id;
        let partial = |shared: &SharedDataset| {
            shared.is_second_rate() || (has_id && shared.told.deleted_from)
        };
        let replaced = newer.any(|newer| newer.files.contains_key(name));
        self.ledger.shared.find(key).is_some_and(partial)
            && (replaced || (self.ledger.ending && self.ledger.is_older_pointer(key, name)))
    }
}
