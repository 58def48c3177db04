//! Datasets that the program begins and completes itself; from then on they are as all others.
//! Every rank does both, also one that has no file: one conference seals and confirms the dataset
//! once it is complete on all.

use super::parts::Machine;
use super::state::{DatasetState, Explicit, OnPfs, Phase, Status};
use super::terms::{DatasetKey, FileRef, Placed, Reason};

impl Machine {
    /// Begins the dataset `id`, on every rank between the same two conferences. The caller writes
    /// its durable record (state Open).
    pub fn begin_explicit(
        &mut self,
        series: usize,
        id: &str,
        output: bool,
        now_ms: u64,
    ) -> DatasetKey {
        self.facts.tick(now_ms);
        let after = self.facts.series[series].left.after_evicted(id);
        let newest = self.facts.newest(series, id);
        let generation = newest.map_or(after, |newest| after.max(newest.generation + 1));
        let key = DatasetKey::new(series, id, generation);
        self.facts.begins += 1;
        let order = self.facts.begins;
        let dataset = self.facts.series[series].entry(&key, now_ms);
        dataset.begun = true;
        dataset.begun_ms = now_ms;
        dataset.order = order;
        dataset.explicit = Some(Explicit { output, complete: false });
        key
    }

    pub fn add_explicit(
        &mut self,
        file: &FileRef,
        key: &DatasetKey,
        keep: Option<Reason>,
        now_ms: u64,
    ) -> Placed {
        self.facts.tick(now_ms);
        self.put(file, key.clone(), keep)
    }

    /// Takes the program's word that its files in `key`, with these sizes, are written.
    pub fn complete_explicit(&mut self, key: &DatasetKey, sizes: &[(String, u64)], now_ms: u64) {
        self.facts.tick(now_ms);
        for (name, bytes) in sizes {
            self.write_closed(key, name, *bytes, now_ms);
        }
        let Some(dataset) = self.facts.own_mut(key) else { return };
        if let Some(explicit) = &mut dataset.explicit {
            explicit.complete = true;
        }
        for file in dataset.files.values_mut() {
            (file.open, file.published) = (0, OnPfs::No);
        }
        dataset.touch(now_ms);
    }

    /// Drops what the program could not restart from, or wants no more: it leaves the cache when a
    /// newer one is complete. All ranks call this alike, outside of conferences.
    pub fn reject(&mut self, key: &DatasetKey) {
        if matches!(self.facts.status(key), Status::Open) {
            return;
        }
        if let Some(dataset) = self.facts.shared.find_mut(key) {
            dataset.state = DatasetState::Dropped;
        }
        if let Some(dataset) = self.facts.own_mut(key) {
            dataset.phase = Phase::Dropped;
        }
    }
}
