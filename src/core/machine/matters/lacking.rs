//! Checkpoints that have less than the one before. A rank that could not write its file may have
//! deleted what there was of it and gone on: nothing says that the rest is no checkpoint. Sets of
//! files that vary are as likely, so it counts; but the one before goes to the PFS before it leaves
//! the cache, whatever else is due.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::state::dataset::{LocalDataset, Standing};
use crate::machine::state::ledger::MachineLedger;
use crate::machine::state::shared::DatasetState;
use crate::machine::terms::keys::DatasetKey;
use crate::machine::terms::report::{DatasetReport, Report};

/// Tells whether this rank has fewer files of a kind in its dataset at `at` than in the newest
/// complete one before it. What the program says itself is complete is not asked.
pub fn lacks(ledger: &MachineLedger, series: usize, at: usize) -> bool {
    let datasets = &ledger.series[series].datasets;
    let own = &datasets[at];
    if ledger.config.series[series].is_explicit() || ledger.is_floating(&own.key) {
        return false;
    }
    let joins = ledger.config.series[series].joins_generations();
    let same = |one: &LocalDataset, key: &DatasetKey| {
        one.key == *key || (joins && one.key.same_group(key))
    };
    let older = datasets[..at].iter().rev().filter(|one| !same(one, &own.key));
    let mut complete = older.filter(|one| ledger.status(&one.key) == Standing::Confirmed);
    let Some(before) = complete.next() else { return false };
    let kinds = |key: &DatasetKey| {
        let parts = datasets[..=at].iter().filter(|one| same(one, key));
        let mut names: BTreeMap<&String, u64> = BTreeMap::new();
        names.extend(parts.flat_map(|one| &one.files).map(|(name, file)| (name, file.named.kind)));
        let mut kinds: BTreeMap<u64, usize> = BTreeMap::new();
        names.into_values().for_each(|kind| *kinds.entry(kind).or_default() += 1);
        kinds
    };
    let here = kinds(&own.key);
    kinds(&before.key).iter().any(|(kind, count)| here.get(kind).unwrap_or(&0) < count)
}

/// The matter of what has less than the one before; equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Lacking {
    /// Datasets that are not confirmed, to which some rank has written fewer files of a kind.
    datasets: BTreeSet<DatasetKey>,
}

impl Lacking {
    /// Takes what the ranks say of datasets that are not confirmed. One that has not heard of it
    /// has no file in it.
    pub fn take_lacks(&mut self, ledger: &MachineLedger, reports: &[Report]) {
        for (index, series) in ledger.shared.series.iter().enumerate() {
            if ledger.config.series[index].is_explicit() {
                continue;
            }
            let waiting = series.datasets.iter().filter(|dataset| {
                matches!(dataset.state, DatasetState::Open | DatasetState::Provisional)
            });
            for dataset in waiting {
                let own = |one: &&DatasetReport| one.key == dataset.key;
                let lacks = reports.iter().any(|report| {
                    let told = report.datasets.iter().find(own);
                    told.map_or(!report.series[index].writes_nothing, |own| own.set.lacks)
                });
                match lacks {
                    true => _ = self.datasets.insert(dataset.key.clone()),
                    false => self.forget(&dataset.key),
                }
            }
        }
    }

    /// Makes the newest complete dataset before that of `key` due, if that lacks names.
    pub fn make_whole_one_due(&self, ledger: &mut MachineLedger, key: &DatasetKey) {
        if !self.datasets.contains(key) {
            return;
        }
        let datasets = &mut ledger.shared.series[key.series].datasets;
        let own = datasets.iter().position(|dataset| dataset.key == *key);
        let mut older = datasets[..own.unwrap_or(0)].iter_mut().rev();
        let whole = older.find(|one| {
            one.state == DatasetState::Confirmed && (one.key.id.is_empty() || one.key.id != key.id)
        });
        if let Some(whole) = whole {
            whole.due = true;
        }
    }

    /// Forgets a dataset that has left.
    pub fn forget(&mut self, key: &DatasetKey) {
        self.datasets.remove(key);
    }
}
