//! What leaves the cache, and what stays there until it is on the PFS or the program has given it
//! up.

use super::Machine;
use super::conference::Conference;
use super::shared::{DatasetState, SharedDataset};
use super::steps::Step;

impl Machine {
    pub(super) fn evict(&mut self, index: usize, conference: &mut Conference) -> Option<Step> {
        let rule = self.config.series[index].clone();
        for at in 0..self.shared.series[index].datasets.len() {
            let series = &self.shared.series[index];
            let dataset = &series.datasets[at];
            let confirmed = dataset.state == DatasetState::Confirmed;
            let written = rule.output_only && confirmed && dataset.flushed;
            if !written && !series.newer_confirmed(at) {
                continue;
            }
            let store = self.store_of(index, dataset.number);
            let beside = |other: &SharedDataset| self.store_of(index, other.number) == store;
            let joins = rule.joins_generations();
            let newer = series.confirmed_after(at, joins, &|_| true);
            let in_store = series.confirmed_after(at, joins, &beside);
            let replaced = joins && !dataset.held && self.has_newer_generation(index, at);
            let out = match dataset.state {
                DatasetState::Open => false,
                DatasetState::Dropped => true,
                DatasetState::Provisional => dataset.is_second_rate(),
                DatasetState::Confirmed => {
                    written
                        || in_store >= self.kept_in(index, store)
                        || replaced
                        || (dataset.deleted_from && newer >= 1)
                }
            };
            if !out {
                continue;
            }
            let offered = dataset.state != DatasetState::Dropped;
            if offered && self.is_kept_series(index) && dataset.is_kept() {
                continue; // until the program has deleted it, or it is on the PFS
            }
            if offered && (dataset.fresh || series.is_unsure(at)) {
                self.wait_for_reports(index);
                continue;
            }
            let mut older = series.datasets[..at].iter();
            let shares = |older: &SharedDataset| {
                dataset.live || (joins && older.key.same_group(&dataset.key))
            };
            let uncovers = older.any(|older| older.state != DatasetState::Dropped && shares(older));
            if offered && uncovers {
                continue; // an older one would show its files where this one's are on the PFS
            }
            if offered && dataset.live && !dataset.flushed {
                // It holds the only copy of files that the program still sees: to the PFS first.
                self.shared.series[index].datasets[at].due = true;
                if let Some(step) = self.flush(index, conference) {
                    return Some(step);
                }
                continue;
            }
            if offered && dataset.due && !dataset.flushed {
                continue;
            }
            return Some(Step::Evict { key: dataset.key.clone(), id: dataset.id });
        }
        None
    }

    fn has_newer_generation(&self, index: usize, at: usize) -> bool {
        let datasets = &self.shared.series[index].datasets;
        datasets[at + 1..].iter().any(|newer| {
            newer.state == DatasetState::Confirmed && newer.key.same_group(&datasets[at].key)
        })
    }
}
