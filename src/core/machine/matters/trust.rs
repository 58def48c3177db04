//! Trust in what is sealed but not confirmed: a checkpoint that has been left alone for longer than
//! it took to write is, by all likelihood, all there is to it.
//!
//! Likelihood is not knowledge: nothing is evicted, flushed or deleted because of it, and what the
//! program writes to such a dataset is an amendment as before. But where nothing of the series is
//! confirmed, withholding it after the loss of a node would leave nothing at all, so a restart may
//! offer it then, as it was at its seal: a state that the program has left its files in, on all
//! ranks, at a sync point. Where something is confirmed, that is what a lost node leaves, for
//! without ids a part of a checkpoint would take its names; unless the new one has all names that
//! those before it had, and more: the first ones of a program that keeps its last states under
//! names that move, of which none would be known to be complete before the next one begins.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::state::dataset::{LocalDataset, Standing};
use crate::machine::state::ledger::MachineLedger;
use crate::machine::state::shared::{DatasetState, SharedDataset};
use crate::machine::terms::keys::DatasetKey;
use crate::machine::terms::report::Report;
use crate::machine::terms::steps::Step;

/// What matters of a dataset's last seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct LastSeal {
    /// Time from its first open, milliseconds.
    took_ms: u64,
    /// It has all names of those before it.
    covers: bool,
    /// It was left alone for longer since.
    trusted: bool,
}

/// The matter of trust; equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Trust {
    seals: BTreeMap<DatasetKey, LastSeal>,
}

impl Trust {
    /// Notes that a dataset is about to be sealed, which took so long; it `covers` those before.
    pub fn note_seal(&mut self, key: &DatasetKey, took_ms: u64, covers: bool) {
        self.seals.insert(key.clone(), LastSeal { took_ms, covers, trusted: false });
    }

    /// Forgets a dataset that has left.
    pub fn forget(&mut self, key: &DatasetKey) {
        self.seals.remove(key);
    }

    /// The dataset of the series that may come to be trusted, and for how long, ms, the series has
    /// to be left alone before it is; equal on all ranks.
    fn trustable<'a>(
        &self,
        ledger: &'a MachineLedger,
        series: usize,
    ) -> Option<(&'a SharedDataset, u64)> {
        let settle_ms = ledger.shared.series[series].settle_ms;
        let datasets = &ledger.shared.series[series].datasets;
        let is_open = |one: &SharedDataset| one.state == DatasetState::Open;
        let newest = datasets.last().filter(|_| !datasets.iter().any(is_open))?;
        let sealed = newest.state == DatasetState::Provisional && !newest.is_second_rate();
        let seal = self.seals.get(&newest.key)?;
        let wanted = sealed && seal.covers && !newest.on_prefix && !seal.trusted;
        wanted.then(|| (newest, seal.took_ms.max(settle_ms)))
    }

    /// Tells after how much agreed time without a conference, ms, one may find a dataset to be
    /// trusted.
    pub fn trust_due_ms(&self, ledger: &MachineLedger) -> Option<u64> {
        let due =
            (0..ledger.shared.series.len()).filter_map(|series| self.trustable(ledger, series));
        due.map(|(_, quiet_ms)| quiet_ms).min()
    }

    /// Finds the datasets that all ranks have left alone for long enough.
    pub fn quiet_enough(&self, ledger: &MachineLedger, reports: &[Report]) -> Vec<DatasetKey> {
        let quiet = |series: usize| {
            let (dataset, quiet_ms) = self.trustable(ledger, series)?;
            let all = reports.iter().all(|report| {
                let own = report.datasets.iter().find(|own| own.key == dataset.key);
                own.is_some_and(|own| own.sealed && own.quiet_ms >= quiet_ms)
            });
            all.then(|| dataset.key.clone())
        };
        (0..ledger.shared.series.len()).filter_map(quiet).collect()
    }

    /// Trusts the next dataset of the series among those that are `quiet`.
    pub fn trust(
        &mut self,
        ledger: &MachineLedger,
        index: usize,
        quiet: &mut Vec<DatasetKey>,
    ) -> Option<Step> {
        let at = quiet.iter().position(|key| key.series == index)?;
        let key = quiet.remove(at);
        let dataset = ledger.shared.find(&key)?;
        if dataset.state != DatasetState::Provisional {
            return None; // confirmed just now
        }
        // Once: a node that has no marker is no worse off than before, and others have theirs.
        self.seals.get_mut(&key)?.trusted = true;
        Some(Step::Trust { id: dataset.id, key })
    }
}

/// Tells whether this rank's part of a dataset has all names that the ones before it have, so
/// that it may be as complete as they.
pub fn covers_last(ledger: &MachineLedger, dataset: &LocalDataset) -> bool {
    let series = dataset.key.series;
    let datasets = ledger.series[series].datasets.iter();
    let older = datasets.take_while(|other| other.key != dataset.key);
    let older = older.filter(|other| ledger.status(&other.key) != Standing::Dropped);
    let names: BTreeSet<u64> = older.flat_map(LocalDataset::names).collect();
    let own = dataset.names();
    names.is_empty() || (!ledger.shared.series[series].rewrites && names.is_subset(&own))
}
