//! Which store a dataset goes to, and whether there is room in it.

use crate::cache::Store;
use crate::descriptors::RedundancyDesc;
use crate::error::Result;
use crate::machine::DatasetKey;
use crate::namespace as ns;
use crate::session::{node::State, stores::Stores};

impl Stores {
    pub(crate) fn descriptor(&self, series: usize, number: u64) -> &RedundancyDesc {
        let output = self.rank.series.series().get(series).is_some_and(|one| one.output);
        self.site.descriptor(output, number)
    }

    /// Returns where the first file on this rank went, else the store by the number.
    pub(crate) fn store_for(&self, state: &State, key: &DatasetKey) -> String {
        let begun = state.own.holdings.get(key).filter(|holding| !holding.store.is_empty());
        begun.map_or_else(
            || self.store_of_number(key.series, state.machine.number_of(key)),
            |holding| holding.store.clone(),
        )
    }

    pub(crate) fn store_of_number(&self, series: usize, number: u64) -> String {
        self.descriptor(series, number).base.display().to_string()
    }

    /// Counts bytes of a store whose capacity the user has given.
    pub(crate) fn capacity_left(&self, state: &State, store: &Store) -> u64 {
        let Some(capacity) = self.capacity_of(store) else { return u64::MAX };
        let holdings = state.own.holdings.iter().filter(|(_, holding)| holding.store == store.name);
        let used = holdings
            .map(|(key, holding)| state.machine.cached_bytes(key) + holding.redundancy_bytes);
        capacity.saturating_sub(used.sum())
    }

    /// Returns this rank's share of what the user says that a store has.
    pub(crate) fn capacity_of(&self, store: &Store) -> Option<u64> {
        let mut described = self.site.descriptors.stores.iter();
        let described = described.find(|one| one.base.as_os_str() == store.name.as_str());
        Some(described?.capacity_bytes? / self.sharers(store))
    }

    /// Counts as many ranks for each live launch of the job; at least 1.
    pub(crate) fn sharers(&self, store: &Store) -> u64 {
        let index = self.site.layout.store_index(&store.name);
        let ranks = self.site.store_sharers.get(index).copied().unwrap_or(self.site.ranks_on_node);
        ranks.max(1).saturating_mul(self.launches.alive(&self.site.layout.control_dir))
    }

    /// Makes durable what takes a promise back.
    pub(crate) fn record_begin(
        &self,
        state: &mut State,
        key: &DatasetKey,
        begin: bool,
        revoke: bool,
    ) -> Result<()> {
        let record = self.rank.record_key(key);
        let store = self.store_for(state, key);
        if begin {
            self.report.write_begun(key);
        }
        if begin || state.view.layer(key).is_none() {
            let dir = self.site.layout.open_dir(&store, &record);
            // Who puts a file there makes it, too, and hears if that fails.
            let _ = ns::make_parents(&dir, "x");
            state.view.begin(ns::Layer::new(key.clone(), dir));
            state.own.holdings.entry(key.clone()).or_default().store.clone_from(&store);
            self.site.filemap.note_open(&record, &store);
        }
        if revoke {
            self.site.filemap.revoke(&record)?;
        }
        Ok(())
    }
}
