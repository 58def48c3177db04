//! Checkpoints that have less than the one before. A rank that could not write its file may have
//! deleted what there was of it and gone on: nothing says that the rest is no checkpoint. Sets of
//! files that vary are as likely, so it counts; but the one before goes to the PFS before it leaves
//! the cache, whatever else is due.

use std::collections::BTreeMap;

use super::Machine;
use super::keys::DatasetKey;
use super::local::{LocalDataset, Status};
use super::report::{DatasetReport, Report};
use super::shared::{DatasetState, SharedSeries};

impl Machine {
    /// Tells whether this rank has fewer files of a kind in its dataset at `at` than in the newest
    /// complete one before it. What the program says itself is complete is not asked.
    pub(super) fn lacks(&self, series: usize, at: usize) -> bool {
        let datasets = &self.series[series].datasets;
        let own = &datasets[at];
        if self.config.series[series].explicit || self.is_floating(&own.key) {
            return false;
        }
        let joins = self.config.series[series].joins_generations();
        let same = |one: &LocalDataset, key: &DatasetKey| {
            one.key == *key || (joins && one.key.same_group(key))
        };
        let older = datasets[..at].iter().rev().filter(|one| !same(one, &own.key));
        let mut complete = older.filter(|one| self.status(&one.key) == Status::Confirmed);
        let Some(before) = complete.next() else { return false };
        let kinds = |key: &DatasetKey| {
            let parts = datasets[..=at].iter().filter(|one| same(one, key));
            let mut names: BTreeMap<&String, u64> = BTreeMap::new();
            names.extend(parts.flat_map(|one| &one.files).map(|(name, file)| (name, file.kind)));
            let mut kinds: BTreeMap<u64, usize> = BTreeMap::new();
            names.into_values().for_each(|kind| *kinds.entry(kind).or_default() += 1);
            kinds
        };
        let here = kinds(&own.key);
        kinds(&before.key).iter().any(|(kind, count)| here.get(kind).unwrap_or(&0) < count)
    }

    /// Takes what the ranks say of datasets that are not confirmed. One that has not heard of it
    /// has no file in it.
    pub(super) fn take_lacks(&mut self, reports: &[Report]) {
        for (index, series) in self.shared.series.iter_mut().enumerate() {
            if self.config.series[index].explicit {
                continue;
            }
            let waiting = series.datasets.iter_mut().filter(|dataset| {
                matches!(dataset.state, DatasetState::Open | DatasetState::Provisional)
            });
            for dataset in waiting {
                let own = |one: &&DatasetReport| one.key == dataset.key;
                dataset.lacks = reports.iter().any(|report| {
                    let told = report.datasets.iter().find(own);
                    told.map_or(!report.series[index].writes_nothing, |own| own.lacks)
                });
            }
        }
    }
}

impl SharedSeries {
    /// Makes the newest complete dataset before that of `key` due, if that lacks names.
    pub fn make_whole_one_due(&mut self, key: &DatasetKey) {
        if !self.datasets.iter().any(|dataset| dataset.key == *key && dataset.lacks) {
            return;
        }
        let older = self.datasets.iter_mut().take_while(|dataset| dataset.key != *key);
        let mut older = older.collect::<Vec<_>>().into_iter().rev();
        let whole = older.find(|one| {
            one.state == DatasetState::Confirmed && (one.key.id.is_empty() || one.key.id != key.id)
        });
        if let Some(whole) = whole {
            whole.due = true;
        }
    }
}
