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

use std::collections::BTreeSet;

use super::Machine;
use super::conference::Conference;
use super::keys::DatasetKey;
use super::local::{LocalDataset, Status};
use super::report::Report;
use super::shared::{DatasetState, SharedDataset};
use super::steps::Step;

impl Machine {
    /// The dataset of the series that may come to be trusted, and for how long, ms, the series has
    /// to be left alone before it is; equal on all ranks.
    fn trustable(&self, series: usize) -> Option<(&SharedDataset, u64)> {
        let settle_ms = self.shared.series[series].settle_ms;
        let datasets = &self.shared.series[series].datasets;
        let is_open = |one: &SharedDataset| one.state == DatasetState::Open;
        let newest = datasets.last().filter(|_| !datasets.iter().any(is_open))?;
        let sealed = newest.state == DatasetState::Provisional && !newest.is_second_rate();
        let wanted = sealed && newest.covers && !newest.on_prefix && !newest.trusted;
        wanted.then(|| (newest, newest.took_ms.max(settle_ms)))
    }

    /// Tells whether this rank's part of a dataset has all names that the ones before it have, so
    /// that it may be as complete as they.
    pub(super) fn covers_last(&self, dataset: &LocalDataset) -> bool {
        let series = dataset.key.series;
        let datasets = self.series[series].datasets.iter();
        let older = datasets.take_while(|other| other.key != dataset.key);
        let older = older.filter(|other| self.status(&other.key) != Status::Dropped);
        let names: BTreeSet<u64> = older.flat_map(LocalDataset::names).collect();
        let own = dataset.names();
        names.is_empty() || (!self.shared.series[series].rewrites && names.is_subset(&own))
    }

    /// Tells after how much agreed time without a conference, ms, one may find a dataset to be
    /// trusted.
    pub(super) fn trust_due_ms(&self) -> Option<u64> {
        let due = (0..self.shared.series.len()).filter_map(|series| self.trustable(series));
        due.map(|(_, quiet_ms)| quiet_ms).min()
    }

    /// Tells for how long this rank has not touched any file of the series, ms.
    pub(super) fn quiet_ms(&self, series: usize) -> u64 {
        let touched = self.series[series].datasets.iter().map(|dataset| dataset.touched_ms);
        self.clock_ms.saturating_sub(touched.max().unwrap_or(0))
    }

    /// Tells when this rank last opened, closed or changed a file of the dataset, ms, if it has
    /// begun to write it.
    #[must_use]
    pub fn changed_ms(&self, key: &DatasetKey) -> Option<u64> {
        let dataset = self.series[key.series].find(key).filter(|dataset| dataset.begun);
        dataset.map(|dataset| dataset.changed_ms)
    }

    /// Finds the datasets that all ranks have left alone for long enough.
    pub(super) fn quiet_enough(&self, reports: &[Report]) -> Vec<DatasetKey> {
        let quiet = |series: usize| {
            let (dataset, quiet_ms) = self.trustable(series)?;
            let all = reports.iter().all(|report| {
                let own = report.datasets.iter().find(|own| own.key == dataset.key);
                own.is_some_and(|own| own.sealed && own.quiet_ms >= quiet_ms)
            });
            all.then(|| dataset.key.clone())
        };
        (0..self.shared.series.len()).filter_map(quiet).collect()
    }

    pub(super) fn trust(&mut self, index: usize, conference: &mut Conference) -> Option<Step> {
        let at = conference.quiet.iter().position(|key| key.series == index)?;
        let key = conference.quiet.remove(at);
        let dataset = self.shared.find_mut(&key)?;
        if dataset.state != DatasetState::Provisional {
            return None; // confirmed just now
        }
        // Once: a node that has no marker is no worse off than before, and others have theirs.
        dataset.trusted = true;
        Some(Step::Trust { id: dataset.id, key })
    }
}
