//! A series, as this rank has written it.

use std::collections::BTreeMap;

use super::dataset::LocalDataset;
use super::file::LocalFile;
use super::ids::LeftIds;
use crate::machine::terms::DatasetKey;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalSeries {
    /// [`set_hash`](crate::machine::set_hash) of the last confirmed dataset's names here.
    pub known: Option<u64>,
    pub datasets: Vec<LocalDataset>,
    pub last_begin_ms: Option<u64>,
    /// Between the last two begins; 0 if there was none since the last report.
    pub interval_ms: u64,
    pub temporaries: Vec<String>,
    /// Since the last report.
    pub has_new_temporaries: bool,
    pub sizes: BTreeMap<u64, u64>,
    /// Checkpoints known to have begun in this launch, on any rank.
    pub begun: u64,
    /// Counts floating datasets, so that their directories differ.
    pub floating: u64,
    pub left: LeftIds,
}

impl LocalSeries {
    pub fn find(&self, key: &DatasetKey) -> Option<&LocalDataset> {
        self.datasets.iter().find(|dataset| dataset.key == *key)
    }

    /// Returns this rank's datasets after that of `key`.
    pub fn newer(&self, key: &DatasetKey) -> impl Iterator<Item = &LocalDataset> {
        self.datasets.iter().skip_while(move |dataset| dataset.key != *key).skip(1)
    }

    pub fn find_mut(&mut self, key: &DatasetKey) -> Option<&mut LocalDataset> {
        self.datasets.iter_mut().find(|dataset| dataset.key == *key)
    }

    pub fn entry(&mut self, key: &DatasetKey, now_ms: u64) -> &mut LocalDataset {
        let at = match self.datasets.iter().position(|dataset| dataset.key == *key) {
            Some(at) => at,
            None => {
                self.datasets.push(LocalDataset::new(key.clone(), now_ms));
                self.datasets.len() - 1
            }
        };
        &mut self.datasets[at]
    }

    /// Leaves the file to another rank of the node, if that one answered for it while it was open.
    pub fn leave_joined(&mut self, key: &DatasetKey, name: &str) {
        if let Some(dataset) = self.find_mut(key)
            && dataset.files.get(name).is_some_and(|file| file.joined && file.open == 0)
        {
            dataset.leave(name);
        }
    }

    pub fn note_moved(&mut self, name: &str) {
        let held = self.datasets.iter_mut().filter_map(|dataset| dataset.files.get_mut(name));
        held.for_each(|file| file.moved = true);
    }

    pub fn note_begin(&mut self, key: &DatasetKey, now_ms: u64) {
        if key.generation > 0 && !key.id.is_empty() {
            return;
        }
        if let Some(last_ms) = self.last_begin_ms {
            self.interval_ms = now_ms.saturating_sub(last_ms);
        }
        self.last_begin_ms = Some(now_ms);
    }

    pub fn held(&mut self, name: &str) -> impl Iterator<Item = &mut LocalFile> {
        self.datasets.iter_mut().filter_map(move |dataset| dataset.files.get_mut(name))
    }

    pub fn learn_temporary(&mut self, template: &str) -> Option<String> {
        const TEMPLATES_MAX: usize = 16;
        // A program whose names are never alike would have all stored anew at each checkpoint.
        const STORED_AT_ONCE: usize = 4;
        let known = &mut self.temporaries;
        if known.iter().any(|text| text == template) {
            return None;
        }
        let last = if known.len() < TEMPLATES_MAX { None } else { known.pop() };
        known.push(template.to_string());
        self.has_new_temporaries |= known.len() <= STORED_AT_ONCE;
        last
    }
}
