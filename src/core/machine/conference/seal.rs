//! Which dataset is sealed next, or dropped, and how.

use super::votes::{Conference, Readiness, Vote};
use crate::machine::matters::encodings::{Encodings, PlannedSeal};
use crate::machine::matters::trust::Trust;
use crate::machine::prefix::places::number_at;
use crate::machine::state::ledger::MachineLedger;
use crate::machine::state::shared::DatasetState;
use crate::machine::terms::config::CompleteBy;
use crate::machine::terms::steps::{SealPlan, Step};

/// What a seal changes.
pub struct Sealing<'a> {
    pub ledger: &'a mut MachineLedger,
    pub encodings: &'a mut Encodings,
    pub trust: &'a mut Trust,
}

/// Finds what is next in a series: a seal, or what becomes of a dataset that cannot have one.
pub fn seal_or_drop(
    parts: &mut Sealing<'_>,
    index: usize,
    conference: &mut Conference,
) -> Option<Step> {
    let has_id = parts.ledger.config.series[index].has_id;
    for at in 0..parts.ledger.shared.series[index].datasets.len() {
        let ledger = &*parts.ledger;
        let dataset = &ledger.shared.series[index].datasets[at];
        if dataset.state != DatasetState::Open {
            continue;
        }
        let key = dataset.key.clone();
        let vote = conference.votes.get(&key).cloned().unwrap_or_default();
        if let Some(planned) = parts.encodings.planned(&key) {
            let followed = vote.followed || ledger.is_followed(index, at);
            let over = followed || conference.closes() || ledger.shared.fallen_back;
            let once = ledger.config.series[index].complete == CompleteBy::FirstSeal;
            let confirmed = followed || once;
            let confirmed = confirms(&vote, conference, confirmed);
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
            if leftover && ledger.is_followed(index, at) {
                continue; // spilled: sealed, it might be offered instead of a newer one
            }
            let fails = dataset.is_failing() || ledger.is_rest(&key);
            if fails && dataset.failing.spilled {
                conference.tried.insert(key.clone());
                return Some(Step::GiveUp { key });
            }
            if vote.files > 0 && !fails && may_seal(ledger, index, at, &vote, conference) {
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

fn may_seal(
    ledger: &MachineLedger,
    index: usize,
    at: usize,
    vote: &Vote,
    conference: &Conference,
) -> bool {
    vote.readiness > Readiness::Writes
        || conference.ending
        || vote.followed
        || ledger.is_followed(index, at)
}

/// Tells whether the seal confirms, too.
fn confirms(vote: &Vote, conference: &Conference, is_over: bool) -> bool {
    let is_over = is_over || conference.closes();
    vote.readiness == Readiness::Complete || (!vote.abandoned && is_over)
}

fn seal(
    parts: &mut Sealing<'_>,
    index: usize,
    at: usize,
    vote: &Vote,
    conference: &Conference,
) -> SealPlan {
    let ledger = &mut *parts.ledger;
    ledger.shared.seals_tried += 1;
    let followed = vote.followed || ledger.is_followed(index, at);
    let number = number_at(ledger, index, at);
    let series = &mut ledger.shared.series[index];
    let dataset = &mut series.datasets[at];
    let resealed = dataset.seals.count > 0;
    parts.trust.note_seal(&dataset.key, vote.since_begun_ms, vote.covers);
    if dataset.id == 0 {
        // It keeps the id if the seal fails: its directory may have that name by then, and some
        // rank a record. No other dataset ever has it.
        dataset.id = ledger.shared.next_id;
        ledger.shared.next_id += 1;
    }
    if !resealed {
        dataset.number = number;
    }
    // Mixed so that no two seals of any launch have the same epoch; rank 0's bits are random.
    let tried = ledger.shared.seals_tried.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let epoch = (conference.entropy ^ tried).max(1);
    let seals_once = ledger.config.series[index].complete == CompleteBy::FirstSeal;
    SealPlan {
        key: dataset.key.clone(),
        id: dataset.id,
        number: dataset.number,
        epoch,
        confirmed: confirms(vote, conference, followed || seals_once),
        resealed,
        on_prefix: vote.on_prefix == vote.files,
    }
}

/// Finds the next sealed dataset of a series that is complete.
pub fn confirm(ledger: &MachineLedger, index: usize, conference: &mut Conference) -> Option<Step> {
    for at in 0..ledger.shared.series[index].datasets.len() {
        let dataset = &ledger.shared.series[index].datasets[at];
        let ours = dataset.state == DatasetState::Provisional && !dataset.is_second_rate();
        let over = conference.closes() || ledger.is_followed(index, at);
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
    conference: &mut Conference,
) -> Step {
    let (ledger, key) = (&*parts.ledger, plan.key.clone());
    let is_large = ledger.config.aside_bytes.is_some_and(|least| vote.bytes >= least);
    let followed = vote.followed || ledger.is_followed(key.series, at);
    let over = followed || conference.closes() || ledger.shared.fallen_back;
    let is_calm = conference.aside && !over && !parts.encodings.is_failing();
    let fits = is_large && !plan.on_prefix && !ledger.config.series[key.series].is_explicit();
    let is_first = conference.encode_tried.insert(key.clone());
    let fails = ledger.shared.series[key.series].datasets[at].failing.tries > 0;
    if is_calm && fits && is_first && !fails {
        parts.encodings.plan(&plan);
        return Step::Encode(plan);
    }
    conference.tried.insert(key);
    Step::Seal(plan)
}

/// Decides what follows on an encoding: `None` if it goes on. The seal is `confirmed` with
/// it; what comes next waits if that is `over`.
fn after_encoding(
    planned: &PlannedSeal,
    over: bool,
    confirmed: bool,
    vote: &Vote,
    conference: &mut Conference,
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
