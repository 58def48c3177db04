//! Files that turn out to belong to another dataset than the one they were written into.

use super::votes::{ConferenceState, Stray};
use crate::machine::state::{Phase, RunFacts};
use crate::machine::terms::{DatasetKey, Step};

/// Gives files without id to the newest dataset, if it can still take them.
pub fn adopt(facts: &RunFacts, index: usize, conference: &mut ConferenceState) -> Option<Step> {
    let floating = conference.floating.remove(&index)?;
    let into = facts.newest_taker(index)?.clone();
    if floating.after.contains(&into) {
        return None; // its successor has not begun yet
    }
    let local = &facts.series[index];
    let mut open = local.datasets.iter().filter(|dataset| dataset.phase == Phase::Open);
    let from = open.find(|own| facts.is_floating(&own.key) && !own.files.is_empty());
    let from = from.map_or_else(|| DatasetKey::new(index, "", 0), |own| own.key.clone());
    Some(move_files(facts, from, into, &floating, conference))
}

/// Takes back what was written to the next generation because of a vote that failed. Until it is
/// closed the dataset is not complete.
pub fn take_back(facts: &RunFacts, index: usize, conference: &mut ConferenceState) -> Option<Step> {
    while let Some(into) = conference.returning.keys().find(|key| key.series == index).cloned() {
        let stray = conference.returning.remove(&into).unwrap_or_default();
        if stray.open == 0 || conference.ending {
            let from = DatasetKey { generation: into.generation + 1, ..into.clone() };
            return Some(move_files(facts, from, into, &stray, conference));
        }
        conference.tried.insert(into);
    }
    None
}

fn move_files(
    facts: &RunFacts,
    from: DatasetKey,
    into: DatasetKey,
    stray: &Stray,
    conference: &mut ConferenceState,
) -> Step {
    if !conference.ending {
        conference.tried.insert(into.clone()); // complete or not: seen in the next conference
    } else if let Some(vote) = conference.votes.get_mut(&into) {
        vote.open += stray.open;
        vote.files += stray.files;
        vote.on_prefix += stray.on_prefix;
    }
    let local = &facts.series[into.series];
    let files: Vec<String> = facts.files_of(&from).map(|(name, _)| name.clone()).collect();
    let has_files = !files.is_empty();
    let target = local.find(&into);
    let begin = has_files && target.is_none_or(|target| !target.begun);
    let revoke = has_files && target.is_some_and(|target| target.prepared);
    Step::Adopt { from, into, files, begin, revoke }
}

pub fn adopted(facts: &mut RunFacts, from: &DatasetKey, into: &DatasetKey) {
    let local = &mut facts.series[from.series];
    let Some(at) = local.datasets.iter().position(|dataset| dataset.key == *from) else {
        return;
    };
    let floating = local.datasets.remove(at);
    if from.id.is_empty() {
        local.floating += 1;
    }
    if floating.files.is_empty() && floating.refused.is_empty() {
        return;
    }
    let clock_ms = facts.clock_ms;
    let target = facts.local_mut(into);
    target.begun = true;
    target.prepared = false;
    target.phase = Phase::Open;
    target.touched_ms = clock_ms;
    target.changed_ms = target.changed_ms.max(floating.changed_ms);
    target.files.extend(floating.files);
    target.abandoned.extend(floating.abandoned);
    target.invalid = target.invalid.take().or(floating.invalid);
    target.refused.extend(floating.refused);
    facts.agreement.changed(1);
}
