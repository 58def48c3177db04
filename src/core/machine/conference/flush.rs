//! What is brought to the PFS.

use super::doubts::Doubt;
use super::votes::ConferenceState;
use crate::machine::matters::deletions::Deletions;
use crate::machine::state::{DatasetState, Phase, RunFacts, SharedDataset};
use crate::machine::terms::{DatasetKey, Step};

/// Makes deletions real; at the end `last` of all, when what is newer is written.
pub fn publish(
    facts: &RunFacts,
    deletions: &Deletions,
    index: usize,
    last: bool,
    conference: &mut ConferenceState,
) -> Option<Step> {
    let newest = facts.shared.newest_confirmed(index);
    let ending = conference.ending;
    if ending != last || (newest == 0 && !ending) || !conference.published.insert(index) {
        return None;
    }
    Some(Step::PublishDeletions { series: index, files: deletions.passed(facts, index, ending) })
}

/// Finds the oldest first: each flush leaves on the PFS what the program saw at that time.
pub fn flush(
    facts: &mut RunFacts,
    doubt: &mut Doubt,
    index: usize,
    conference: &mut ConferenceState,
) -> Option<Step> {
    let closing = conference.closes();
    let series = &facts.shared.series[index];
    let count = series.datasets.len();
    let due = series.datasets.iter().rposition(|one| one.due && !one.flushed).unwrap_or(0);
    if !closing && series.datasets[..due].iter().any(|one| doubt.is_unsure(one)) {
        doubt.wait(facts); // they tell what has to go before it
        return None;
    }
    let pending = (0..count).filter(|at| is_pending(facts, index, *at, closing));
    let (along, mut whole): (Vec<usize>, Vec<usize>) =
        pending.partition(|at| goes_along(facts, index, *at, closing));
    if along.last() > whole.last() {
        let datasets = &facts.shared.series[index].datasets;
        whole.extend(datasets.iter().rposition(|one| one.state == DatasetState::Confirmed));
    }
    let datasets = &facts.shared.series[index].datasets;
    let key = |at: &usize| datasets[*at].key.clone();
    let at = whole.into_iter().find(|at| conference.flush_tried.insert(key(at)))?;
    let along = along.iter().filter(|older| **older < at).map(key);
    let along = along.filter(|older| conference.flush_tried.insert(older.clone())).collect();
    Some(Step::Flush { key: key(&at), id: datasets[at].id, along })
}

fn is_pending(facts: &RunFacts, index: usize, at: usize, closing: bool) -> bool {
    let datasets = &facts.shared.series[index].datasets;
    let dataset = &datasets[at];
    let sealed = |dataset: &SharedDataset| match dataset.state {
        DatasetState::Confirmed => true,
        DatasetState::Provisional => dataset.is_second_rate(),
        DatasetState::Open | DatasetState::Dropped => false,
    };
    // What the program still sees of an older one belongs to what a newer one needs.
    let needed = closing || datasets[at + 1..].iter().any(|newer| newer.due);
    let seen = dataset.told.live || dataset.seals.fresh || is_part(facts, index, at);
    let is_newest = || datasets.iter().rposition(sealed) == Some(at);
    let last = closing
        && facts.config.series[index].flushes_last
        && (is_newest() || is_last_kept(facts, index, at));
    let kept = closing && facts.is_kept_series(index) && dataset.is_kept();
    let last = last || (needed && seen) || kept;
    let due = dataset.due || is_due_unconfirmed(facts, index, at, closing);
    sealed(dataset) && !dataset.flushed && (due || last)
}

/// The newest, or newest complete, of which the program has deleted nothing: what the end leaves of
/// a newer one may be less. Without ids they share their names.
fn is_last_kept(facts: &RunFacts, index: usize, at: usize) -> bool {
    let kept = facts.shared.series[index].datasets.iter().enumerate().rev();
    let mut kept = kept.filter(|(_, one)| !one.told.deleted_from);
    let complete = |one: &SharedDataset| one.state == DatasetState::Confirmed;
    let newest = kept.clone().find(|(_, one)| complete(one) || one.is_second_rate());
    let newest_complete = kept.find(|(_, one)| complete(one));
    let is_it = |found: Option<(usize, _)>| found.is_some_and(|(found, _)| found == at);
    facts.config.series[index].has_id && (is_it(newest) || is_it(newest_complete))
}

/// Without ids, what is not known to be complete takes names of a checkpoint on the PFS. Flushed
/// before or after the complete one that rests on it, it would leave a mixture there, perhaps all
/// there is after the loss of the cache. So would, at the end, a complete one that shared names
/// with one that has left the cache.
fn goes_along(facts: &RunFacts, index: usize, at: usize, closing: bool) -> bool {
    let datasets = &facts.shared.series[index].datasets;
    let mut newer = datasets[at + 1..].iter();
    let newest = newer.rfind(|newer| newer.state == DatasetState::Confirmed);
    !facts.config.series[index].has_id
        && (closing || datasets[at].is_second_rate())
        && newest.is_some_and(|newest| !newest.flushed)
}

/// What will never be confirmed is due like any other when it is about to go: the program has not
/// deleted it. Without ids what follows has the same names.
fn is_due_unconfirmed(facts: &RunFacts, index: usize, at: usize, closing: bool) -> bool {
    let (rule, series) = (&facts.config.series[index], &facts.shared.series[index]);
    let dataset = &series.datasets[at];
    dataset.is_second_rate()
        && rule.has_id
        && rule.is_due(dataset.number)
        && (closing || series.newer_confirmed(at))
}

/// An older generation of the newest id that still holds files of it.
fn is_part(facts: &RunFacts, index: usize, at: usize) -> bool {
    let datasets = &facts.shared.series[index].datasets;
    let joins = facts.config.series[index].joins_generations();
    let newest = datasets.iter().rfind(|dataset| dataset.state == DatasetState::Confirmed);
    joins
        && datasets[at].told.held
        && newest.is_some_and(|newest| newest.key.same_group(&datasets[at].key))
}

pub fn spill(facts: &RunFacts, index: usize, conference: &mut ConferenceState) -> Option<Step> {
    let datasets = facts.shared.series[index].datasets.iter();
    let mut open = datasets.filter(|dataset| dataset.state == DatasetState::Open);
    let closed = |key: &DatasetKey| {
        conference.votes.get(key).is_some_and(|vote| vote.open == 0 && vote.invalid.is_none())
    };
    let fallen_back = facts.shared.fallen_back;
    let stuck = open.find(|dataset| {
        let rest = fallen_back || facts.is_rest(&dataset.key);
        let fails = dataset.is_failing() || (rest && closed(&dataset.key));
        let due = conference.ending || (fails && !dataset.failing.spilled);
        due && !conference.spill_tried.contains(&dataset.key)
    });
    let (tried, key) = match stuck {
        Some(dataset) => (dataset.key.clone(), dataset.key.clone()),
        None if conference.ending && facts.config.series[index].has_id => {
            // Floating datasets differ by rank: every rank spills its own, in one step.
            let mut own = facts.series[index].datasets.iter();
            let own = own.find(|own| facts.is_floating(&own.key) && own.phase == Phase::Open);
            let none = DatasetKey::new(index, "", u64::MAX);
            (none.clone(), own.map_or(none, |own| own.key.clone()))
        }
        None => return None,
    };
    if !conference.spill_tried.insert(tried) {
        return None;
    }
    let files = facts.files_of(&key);
    let files =
        files.filter(|(_, file)| file.open == 0 && file.on_prefix.is_none() && !file.is_deleted());
    let names = files.map(|(name, _)| name);
    let names = names.filter(|name| {
        !facts.has_newer_on_prefix(&key, name) && !facts.is_older_pointer(&key, name)
    });
    let files = names.cloned().collect();
    Some(Step::Spill { key, files })
}

pub fn halt(facts: &RunFacts, conference: &mut ConferenceState) -> Option<Step> {
    let open = facts.shared.series.iter().any(|series| series.open().next().is_some());
    if conference.halt == 0 || open || std::mem::replace(&mut conference.halted, true) {
        return None;
    }
    Some(Step::Halt { reason: conference.halt })
}
