//! Datasets whose boundary the program gives: it says when one begins, which files are in it, and
//! when it is complete. From there on they are as all others.
//!
//! Every rank begins and completes them, also one that has no file; between the two the dataset
//! counts as open, and once complete on all ranks it is sealed and confirmed by one conference.

use super::parts::Machine;
use super::state::dataset::{Explicit, Phase, Standing};
use super::state::file::OnPfs;
use super::state::shared::DatasetState;
use super::terms::answers::Placed;
use super::terms::keys::{DatasetKey, FileRef};
use super::terms::reason::Reason;

impl Machine {
    /// Begins the dataset `id` for the program; every rank calls this between the same two
    /// conferences. The caller writes its durable record (state Open).
    pub fn begin_explicit(
        &mut self,
        series: usize,
        id: &str,
        output: bool,
        now_ms: u64,
    ) -> DatasetKey {
        self.ledger.tick(now_ms);
        let after = self.ledger.series[series].left.after_evicted(id);
        let newest = self.ledger.newest(series, id);
        let generation = newest.map_or(after, |newest| after.max(newest.generation + 1));
        let key = DatasetKey::new(series, id, generation);
        self.ledger.begins += 1;
        let order = self.ledger.begins;
        let dataset = self.ledger.series[series].entry(&key, now_ms);
        dataset.begun = true;
        dataset.begun_ms = now_ms;
        dataset.order = order;
        dataset.explicit = Some(Explicit { output, complete: false });
        key
    }

    /// Adds `file`, which the program will write, as a part to `key`, which it has begun.
    pub fn add_explicit(
        &mut self,
        file: &FileRef,
        key: &DatasetKey,
        keep: Option<Reason>,
        now_ms: u64,
    ) -> Placed {
        self.ledger.tick(now_ms);
        self.put(file, key.clone(), keep)
    }

    /// Notes the program's word that its files in `key` are written; the sizes of all of them are
    /// known.
    pub fn complete_explicit(&mut self, key: &DatasetKey, sizes: &[(String, u64)], now_ms: u64) {
        self.ledger.tick(now_ms);
        for (name, bytes) in sizes {
            self.write_closed(key, name, *bytes, now_ms);
        }
        let Some(dataset) = self.ledger.series[key.series].find_mut(key) else { return };
        if let Some(explicit) = &mut dataset.explicit {
            explicit.complete = true;
        }
        for file in dataset.files.values_mut() {
            (file.open, file.published) = (0, OnPfs::No);
        }
        dataset.touch(now_ms);
    }

    /// Notes that the program could not restart from the dataset, or wants it no more: it counts no
    /// longer, and leaves the cache when a newer one is complete. All ranks call this alike,
    /// outside of conferences.
    pub fn reject(&mut self, key: &DatasetKey) {
        if matches!(self.ledger.status(key), Standing::Open) {
            return;
        }
        if let Some(dataset) = self.ledger.shared.find_mut(key) {
            dataset.state = DatasetState::Dropped;
        }
        if let Some(dataset) = self.ledger.series[key.series].find_mut(key) {
            dataset.phase = Phase::Dropped;
        }
    }
}
