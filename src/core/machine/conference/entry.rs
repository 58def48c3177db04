//! What the reports change in what is known, before anything is decided.

use super::votes::ConferenceState;
use crate::machine::state::{DatasetState, Phase, RunFacts, SharedDataset};
use crate::machine::terms::{DatasetKey, DatasetReport, Report, SealedNews};

/// Enters datasets that are new, or open again, into the shared list and into this rank's own.
/// Returns the new ones.
pub fn meet(
    facts: &mut RunFacts,
    series: usize,
    reports: &[Report],
    conference: &mut ConferenceState,
) -> Vec<DatasetKey> {
    let mut course = Vec::new();
    for report in reports {
        let own = report.datasets.iter().filter(|dataset| dataset.key.series == series);
        let own: Vec<&DatasetReport> = own.collect();
        for (index, dataset) in own.iter().enumerate() {
            if facts.is_floating(&dataset.key) {
                if dataset.files > 0 {
                    conference.floating.entry(series).or_default().count(dataset);
                }
                continue;
            }
            if let Some(before) = dataset.key.before().filter(|_| dataset.returns) {
                conference.returning.entry(before).or_default().count(dataset);
                continue;
            }
            let list = &mut facts.shared.series[series].datasets;
            let at = match list.iter().position(|known| known.key == dataset.key) {
                Some(at) => at,
                None => {
                    // Ahead of what this rank began later, if others have named that already.
                    let is_later = |known: &SharedDataset| {
                        known.id == 0 && own[index..].iter().any(|later| later.key == known.key)
                    };
                    let at = list.iter().position(is_later).unwrap_or(list.len());
                    list.insert(at, SharedDataset::new(dataset.key.clone()));
                    let again = dataset.key.generation > 0 && !dataset.key.id.is_empty();
                    facts.series[series].begun += u64::from(!again);
                    course.push(dataset.key.clone());
                    at
                }
            };
            list[at].word.output |= dataset.word.output;
            if !dataset.sealed && list[at].state == DatasetState::Provisional {
                list[at].state = DatasetState::Open;
            }
        }
    }
    open_for_floating(facts, series, conference);
    let clock_ms = facts.clock_ms;
    let open = facts.shared.series[series].open();
    for key in open.map(|dataset| dataset.key.clone()).collect::<Vec<_>>() {
        let local = facts.series[series].entry(&key, clock_ms);
        if local.phase == Phase::Sealed {
            local.phase = Phase::Open;
        }
    }
    order_local(facts, series);
    course
}

/// Opens the sealed dataset that files float to again on all ranks. If it was confirmed as it is,
/// it would have lost the record of the rank that the files are from.
fn open_for_floating(facts: &mut RunFacts, series: usize, conference: &ConferenceState) {
    let Some(floating) = conference.floating.get(&series) else { return };
    let Some(into) = facts.newest_taker(series).cloned() else { return };
    if let Some(taker) = facts.shared.find_mut(&into).filter(|_| !floating.after.contains(&into)) {
        taker.state = DatasetState::Open;
    }
}

/// Gives new datasets their place in the order in which the ranks began them, whatever their
/// series.
pub fn number_begins(facts: &mut RunFacts, reports: &[Report]) {
    for report in reports {
        let begun = report.datasets.iter().filter(|dataset| dataset.order > 0);
        let mut begun: Vec<&DatasetReport> = begun.collect();
        begun.sort_by_key(|dataset| dataset.order);
        for dataset in begun {
            let turn = facts.shared.turns + 1;
            let known = facts.shared.find_mut(&dataset.key);
            if let Some(new) = known.filter(|known| known.turn == 0) {
                new.turn = turn;
                facts.shared.turns = turn;
            }
        }
    }
}

fn order_local(facts: &mut RunFacts, series: usize) {
    let shared = &facts.shared.series[series].datasets;
    facts.series[series].datasets.sort_by_key(|dataset| {
        shared.iter().position(|known| known.key == dataset.key).unwrap_or(usize::MAX)
    });
}

pub fn take_series_news(facts: &mut RunFacts, index: usize, reports: &[Report]) {
    let shared = &mut facts.shared.series[index];
    let news = || reports.iter().map(|report| &report.series[index]);
    let interval_ms = news().map(|news| news.interval_ms).max().unwrap_or(0);
    if interval_ms > 0 {
        shared.interval_ms = interval_ms;
    }
    shared.rewrites |= news().any(|news| news.rewrites);
    shared.learned |= news().any(|news| news.learned);
}

pub fn take_sealed_news(facts: &mut RunFacts, reports: &[Report]) {
    for dataset in facts.shared.series.iter_mut().flat_map(|series| &mut series.datasets) {
        if dataset.id == 0 || dataset.state == DatasetState::Open {
            continue;
        }
        let all = reports.iter().flat_map(|report| &report.sealed);
        dataset.told = SealedNews::default();
        for sealed in all.filter(|sealed| sealed.id == dataset.id) {
            dataset.told.add(sealed.news);
        }
        dataset.seals.fresh = false;
    }
}
