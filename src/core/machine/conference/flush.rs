//! What is brought to the PFS.

use super::doubts::Doubt;
use super::votes::Conference;
use crate::machine::matters::deletions::Deletions;
use crate::machine::state::dataset::Phase;
use crate::machine::state::ledger::MachineLedger;
use crate::machine::state::shared::{DatasetState, SharedDataset};
use crate::machine::terms::keys::DatasetKey;
use crate::machine::terms::steps::Step;

/// Deletions become real; at the end all of them, `last` of all, when what is newer is written.
pub fn publish(
    ledger: &MachineLedger,
    deletions: &Deletions,
    index: usize,
    last: bool,
    conference: &mut Conference,
) -> Option<Step> {
    let newest = ledger.shared.newest_confirmed(index);
    let ending = conference.ending;
    if ending != last || (newest == 0 && !ending) || !conference.published.insert(index) {
        return None;
    }
    Some(Step::PublishDeletions { series: index, files: deletions.passed(ledger, index, ending) })
}

/// Finds what is to be flushed now, the oldest first: each flush leaves on the PFS what the
/// program saw at that time.
pub fn flush(
    ledger: &mut MachineLedger,
    doubt: &mut Doubt,
    index: usize,
    conference: &mut Conference,
) -> Option<Step> {
    let closing = conference.closes();
    let series = &ledger.shared.series[index];
    let count = series.datasets.len();
    let due = series.datasets.iter().rposition(|one| one.due && !one.flushed).unwrap_or(0);
    if !closing && series.datasets[..due].iter().any(|one| doubt.is_unsure(one)) {
        doubt.wait(ledger); // they tell what has to go before it
        return None;
    }
    let pending = (0..count).filter(|at| is_pending(ledger, index, *at, closing));
    let (along, mut whole): (Vec<usize>, Vec<usize>) =
        pending.partition(|at| goes_along(ledger, index, *at, closing));
    if along.last() > whole.last() {
        let datasets = &ledger.shared.series[index].datasets;
        whole.extend(datasets.iter().rposition(|one| one.state == DatasetState::Confirmed));
    }
    let datasets = &ledger.shared.series[index].datasets;
    let key = |at: &usize| datasets[*at].key.clone();
    let at = whole.into_iter().find(|at| conference.flush_tried.insert(key(at)))?;
    let along = along.iter().filter(|older| **older < at).map(key);
    let along = along.filter(|older| conference.flush_tried.insert(older.clone())).collect();
    Some(Step::Flush { key: key(&at), id: datasets[at].id, along })
}

/// It is to be on the PFS now, and is not.
fn is_pending(ledger: &MachineLedger, index: usize, at: usize, closing: bool) -> bool {
    let datasets = &ledger.shared.series[index].datasets;
    let dataset = &datasets[at];
    let sealed = |dataset: &SharedDataset| match dataset.state {
        DatasetState::Confirmed => true,
        DatasetState::Provisional => dataset.is_second_rate(),
        DatasetState::Open | DatasetState::Dropped => false,
    };
    // What the program still sees of an older one belongs to what a newer one needs.
    let needed = closing || datasets[at + 1..].iter().any(|newer| newer.due);
    let seen = dataset.told.live || dataset.seals.fresh || is_part(ledger, index, at);
    let is_newest = || datasets.iter().rposition(sealed) == Some(at);
    let last = closing
        && ledger.config.series[index].flushes_last
        && (is_newest() || is_last_kept(ledger, index, at));
    let kept = closing && ledger.is_kept_series(index) && dataset.is_kept();
    let last = last || (needed && seen) || kept;
    let due = dataset.due || is_due_unconfirmed(ledger, index, at, closing);
    sealed(dataset) && !dataset.flushed && (due || last)
}

/// The newest one, or the newest known to be complete, of which the program has deleted
/// nothing: what the end leaves of a newer one may be less. Without ids they share their names.
fn is_last_kept(ledger: &MachineLedger, index: usize, at: usize) -> bool {
    let kept = ledger.shared.series[index].datasets.iter().enumerate().rev();
    let mut kept = kept.filter(|(_, one)| !one.told.deleted_from);
    let complete = |one: &SharedDataset| one.state == DatasetState::Confirmed;
    let newest = kept.clone().find(|(_, one)| complete(one) || one.is_second_rate());
    let newest_complete = kept.find(|(_, one)| complete(one));
    let is_it = |found: Option<(usize, _)>| found.is_some_and(|(found, _)| found == at);
    ledger.config.series[index].has_id && (is_it(newest) || is_it(newest_complete))
}

/// Without ids, what is not known to be complete takes names of a checkpoint that is on the
/// PFS. It must not come there before the complete one that rests on it, nor after it: either
/// would leave a mixture, and that may be all there is after the loss of the cache. So would,
/// at the end, a complete one whose other names were those of one that has left the cache since
/// a newer one has them.
fn goes_along(ledger: &MachineLedger, index: usize, at: usize, closing: bool) -> bool {
    let datasets = &ledger.shared.series[index].datasets;
    let mut newer = datasets[at + 1..].iter();
    let newest = newer.rfind(|newer| newer.state == DatasetState::Confirmed);
    !ledger.config.series[index].has_id
        && (closing || datasets[at].is_second_rate())
        && newest.is_some_and(|newest| !newest.flushed)
}

/// What will never be confirmed is due like any other when it is about to go: the program has
/// not deleted what is left of it. Without ids what follows has the same names.
fn is_due_unconfirmed(ledger: &MachineLedger, index: usize, at: usize, closing: bool) -> bool {
    let (rule, series) = (&ledger.config.series[index], &ledger.shared.series[index]);
    let dataset = &series.datasets[at];
    dataset.is_second_rate()
        && rule.has_id
        && rule.is_due(dataset.number)
        && (closing || series.newer_confirmed(at))
}

/// An older generation of the newest id that still holds files of it.
fn is_part(ledger: &MachineLedger, index: usize, at: usize) -> bool {
    let datasets = &ledger.shared.series[index].datasets;
    let joins = ledger.config.series[index].joins_generations();
    let newest = datasets.iter().rfind(|dataset| dataset.state == DatasetState::Confirmed);
    joins
        && datasets[at].told.held
        && newest.is_some_and(|newest| newest.key.same_group(&datasets[at].key))
}

/// Finds what cannot be sealed in the cache, and goes to the PFS.
pub fn spill(ledger: &MachineLedger, index: usize, conference: &mut Conference) -> Option<Step> {
    let datasets = ledger.shared.series[index].datasets.iter();
    let mut open = datasets.filter(|dataset| dataset.state == DatasetState::Open);
    let closed = |key: &DatasetKey| {
        conference.votes.get(key).is_some_and(|vote| vote.open == 0 && vote.invalid.is_none())
    };
    let fallen_back = ledger.shared.fallen_back;
    let stuck = open.find(|dataset| {
        let rest = fallen_back || ledger.is_rest(&dataset.key);
        let fails = dataset.is_failing() || (rest && closed(&dataset.key));
        let due = conference.ending || (fails && !dataset.failing.spilled);
        due && !conference.spill_tried.contains(&dataset.key)
    });
    let (tried, key) = match stuck {
        Some(dataset) => (dataset.key.clone(), dataset.key.clone()),
        None if conference.ending && ledger.config.series[index].has_id => {
            // Floating datasets differ by rank: every rank spills its own, in one step.
            let mut own = ledger.series[index].datasets.iter();
            let own = own.find(|own| ledger.is_floating(&own.key) && own.phase == Phase::Open);
            let none = DatasetKey::new(index, "", u64::MAX);
            (none.clone(), own.map_or(none, |own| own.key.clone()))
        }
        None => return None,
    };
    if !conference.spill_tried.insert(tried) {
        return None;
    }
    let own = ledger.series[index].find(&key);
    let files = own.into_iter().flat_map(|own| &own.files);
    let files =
        files.filter(|(_, file)| file.open == 0 && file.on_prefix.is_none() && !file.is_deleted());
    let names = files.map(|(name, _)| name);
    let names = names.filter(|name| {
        !ledger.has_newer_on_prefix(&key, name) && !ledger.is_older_pointer(&key, name)
    });
    let files = names.cloned().collect();
    Some(Step::Spill { key, files })
}

/// Halts when nothing is in progress any more.
pub fn halt(ledger: &MachineLedger, conference: &mut Conference) -> Option<Step> {
    let open = ledger.shared.series.iter().any(|series| series.open().next().is_some());
    if conference.halt == 0 || open || std::mem::replace(&mut conference.halted, true) {
        return None;
    }
    Some(Step::Halt { reason: conference.halt })
}
