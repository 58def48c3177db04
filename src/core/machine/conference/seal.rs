//! Which dataset is sealed next, or dropped, and how.

use super::votes::{ConferenceState, Readiness, Vote};
use crate::machine::matters::encodings::{Encodings, PlannedSeal};
use crate::machine::matters::trust::Trust;
use crate::machine::state::{DatasetState, RunFacts};
use crate::machine::terms::{CompleteBy, SealPlan, Step};

pub struct Sealing<'a> {
    pub facts: &'a mut RunFacts,
    pub encodings: &'a mut Encodings,
    pub trust: &'a mut Trust,
}

pub fn seal_or_drop(
    parts: &mut Sealing<'_>,
    index: usize,
    conference: &mut ConferenceState,
) -> Option<Step> {
    let has_id = parts.facts.config.series[index].has_id;
    for at in 0..parts.facts.shared.series[index].datasets.len() {
        let facts = &*parts.facts;
        let dataset = &facts.shared.series[index].datasets[at];
        if dataset.state != DatasetState::Open {
            continue;
        }
        let key = dataset.key.clone();
        let mut vote = conference.votes.get(&key).cloned().unwrap_or_default();
        vote.followed |= facts.is_followed(index, at);
        if let Some(planned) = parts.encodings.planned(&key) {
            let confirmed = confirms(facts, index, &vote, conference);
            let over = is_over(facts, &vote, conference);
            return after_encoding(planned, over, confirmed, &vote, conference); // later ones wait
        }
        if !conference.tried.contains(&key) && vote.open == 0 {
            if let Some((rank, reason)) = vote.invalid {
                conference.tried.insert(key.clone());
                return Some(Step::Drop { id: dataset.id, key, rank, reason });
            }
            if vote.files == 0 && vote.readiness > Readiness::Writes {
                conference.tried.insert(key.clone());
                return Some(Step::Evict { id: dataset.id, key });
            }
            // What is left of a checkpoint that the program gave up while no agreement came.
            let leftover = has_id && conference.ending && vote.abandoned;
            if leftover && facts.is_followed(index, at) {
                continue; // spilled: sealed, it might be offered instead of a newer one
            }
            let fails = dataset.is_failing() || facts.is_rest(&key);
            if fails && dataset.failing.spilled {
                conference.tried.insert(key.clone());
                return Some(Step::GiveUp { key });
            }
            let may_seal = vote.readiness > Readiness::Writes || conference.ending || vote.followed;
            if vote.files > 0 && !fails && may_seal {
                let plan = seal(parts, index, at, &vote, conference);
                return Some(aside_if_it_pays(parts, at, plan, &vote, conference));
            }
        }
        // Numbers follow the order in which the program began: a later one waits, except at
        // the end, when what is left open is written to the PFS anyway. Without ids a later one
        // may rest on files of this one, and goes to the PFS with it.
        if !conference.ending || !has_id {
            return None;
        }
    }
    None
}

fn is_over(facts: &RunFacts, vote: &Vote, conference: &ConferenceState) -> bool {
    vote.followed || conference.closes() || facts.shared.fallen_back
}

fn confirms(facts: &RunFacts, index: usize, vote: &Vote, conference: &ConferenceState) -> bool {
    let once = facts.config.series[index].complete == CompleteBy::FirstSeal;
    let is_over = once || vote.followed || conference.closes();
    vote.readiness == Readiness::Complete || (!vote.abandoned && is_over)
}

fn seal(
    parts: &mut Sealing<'_>,
    index: usize,
    at: usize,
    vote: &Vote,
    conference: &ConferenceState,
) -> SealPlan {
    let facts = &mut *parts.facts;
    facts.shared.seals_tried += 1;
    let number = facts.number_at(index, at);
    let series = &mut facts.shared.series[index];
    let dataset = &mut series.datasets[at];
    let resealed = dataset.seals.count > 0;
    dataset.seals.split = vote.named_there > 0 && vote.on_prefix < vote.files;
    parts.trust.note_seal(&dataset.key, vote.since_begun_ms, vote.covers);
    if dataset.id == 0 {
        // It keeps the id if the seal fails: its directory may have that name by then, and some
        // rank a record. No other dataset ever has it.
        dataset.id = facts.shared.next_id;
        facts.shared.next_id += 1;
    }
    if !resealed {
        dataset.number = number;
    }
    // Mixed so that no two seals of any launch have the same epoch; rank 0's bits are random.
    let tried = facts.shared.seals_tried.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let epoch = (conference.entropy ^ tried).max(1);
    let confirmed = confirms(facts, index, vote, conference);
    let dataset = &facts.shared.series[index].datasets[at];
    SealPlan {
        key: dataset.key.clone(),
        id: dataset.id,
        number: dataset.number,
        epoch,
        confirmed,
        resealed,
        on_prefix: vote.on_prefix == vote.files,
    }
}

pub fn confirm(facts: &RunFacts, index: usize, conference: &mut ConferenceState) -> Option<Step> {
    for at in 0..facts.shared.series[index].datasets.len() {
        let dataset = &facts.shared.series[index].datasets[at];
        let ours = dataset.state == DatasetState::Provisional && !dataset.is_second_rate();
        let over = conference.closes() || facts.is_followed(index, at);
        if ours && over && conference.confirm_tried.insert(dataset.key.clone()) {
            return Some(Step::Confirm { key: dataset.key.clone(), id: dataset.id });
        }
    }
    None
}

/// Encodes beside the program where that keeps it from waiting, else in the seal.
fn aside_if_it_pays(
    parts: &mut Sealing<'_>,
    at: usize,
    plan: SealPlan,
    vote: &Vote,
    conference: &mut ConferenceState,
) -> Step {
    let (facts, key) = (&*parts.facts, plan.key.clone());
    let is_large = facts.config.aside_bytes.is_some_and(|least| vote.bytes >= least);
    let over = is_over(facts, vote, conference);
    let is_calm = conference.aside && !over && !parts.encodings.is_failing();
    let fits = is_large && !plan.on_prefix && !facts.config.series[key.series].is_explicit();
    let is_first = conference.encode_tried.insert(key.clone());
    let fails = facts.shared.series[key.series].datasets[at].failing.tries > 0;
    if is_calm && fits && is_first && !fails {
        parts.encodings.plan(&plan);
        return Step::Encode(plan);
    }
    conference.tried.insert(key);
    Step::Seal(plan)
}

/// Decides what follows on an encoding, `None` if it goes on; what comes next waits for it if that
/// is `over`.
fn after_encoding(
    planned: &PlannedSeal,
    over: bool,
    confirmed: bool,
    vote: &Vote,
    conference: &mut ConferenceState,
) -> Option<Step> {
    let key = planned.plan.key.clone();
    let waits = vote.encoding.failed || over;
    if conference.encode_tried.contains(&key) || (!vote.encoding.encoded && !waits) {
        return None; // of this conference, or not at its end
    }
    if vote.encoding.failed {
        conference.encode_tried.insert(key.clone()); // at once, with the program waiting
        return Some(Step::Discard { key, failed: true });
    }
    let spoiled = planned.spoiled || vote.encoding.spoiled;
    if spoiled || vote.open > 0 || vote.invalid.is_some() {
        return Some(Step::Discard { key, failed: false });
    }
    conference.tried.insert(key);
    Some(Step::Seal(SealPlan { confirmed, ..planned.plan.clone() }))
}
