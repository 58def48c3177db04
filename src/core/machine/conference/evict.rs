//! What leaves the cache, and what stays there until it is on the PFS or the program has given it
//! up.

use super::doubts::Doubt;
use super::flush::flush;
use super::votes::ConferenceState;
use crate::machine::state::{DatasetState, RunFacts, SharedDataset};
use crate::machine::terms::{OutputSeries, Step};

pub fn evict(
    facts: &mut RunFacts,
    doubt: &mut Doubt,
    index: usize,
    conference: &mut ConferenceState,
) -> Option<Step> {
    let rule = facts.config.series[index].clone();
    for at in 0..facts.shared.series[index].datasets.len() {
        let series = &facts.shared.series[index];
        let dataset = &series.datasets[at];
        let confirmed = dataset.state == DatasetState::Confirmed;
        let written = rule.output == OutputSeries::Only && confirmed && dataset.flushed;
        if !written && !series.newer_confirmed(at) {
            continue;
        }
        let store = facts.store_of(index, dataset.number);
        let beside = |other: &SharedDataset| facts.store_of(index, other.number) == store;
        let joins = rule.joins_generations();
        let newer = series.confirmed_after(at, joins, &|_| true);
        let in_store = series.confirmed_after(at, joins, &beside);
        let replaced = joins && !dataset.told.held && has_newer_generation(facts, index, at);
        let out = match dataset.state {
            DatasetState::Open => false,
            DatasetState::Dropped => true,
            DatasetState::Provisional => dataset.is_second_rate(),
            DatasetState::Confirmed => {
                written
                    || in_store >= facts.kept_in(index, store)
                    || replaced
                    || (dataset.told.deleted_from && newer >= 1)
            }
        };
        if !out {
            continue;
        }
        let offered = dataset.state != DatasetState::Dropped;
        if offered && facts.is_kept_series(index) && dataset.is_kept() {
            continue; // until the program has deleted it, or it is on the PFS
        }
        if offered && (dataset.seals.fresh || doubt.is_unsure(dataset)) {
            doubt.wait(facts);
            continue;
        }
        let mut older = series.datasets[..at].iter();
        let shares = |older: &SharedDataset| {
            dataset.told.live || (joins && older.key.same_group(&dataset.key))
        };
        let uncovers = older.any(|older| older.state != DatasetState::Dropped && shares(older));
        if offered && uncovers {
            continue; // an older one would show its files where this one's are on the PFS
        }
        if offered && dataset.told.live && !dataset.flushed {
            // It holds the only copy of files that the program still sees: to the PFS first.
            facts.shared.series[index].datasets[at].due = true;
            if let Some(step) = flush(facts, doubt, index, conference) {
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

fn has_newer_generation(facts: &RunFacts, index: usize, at: usize) -> bool {
    let datasets = &facts.shared.series[index].datasets;
    datasets[at + 1..].iter().any(|newer| {
        newer.state == DatasetState::Confirmed && newer.key.same_group(&datasets[at].key)
    })
}
