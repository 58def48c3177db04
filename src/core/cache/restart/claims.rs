//! What the records of a node claim, and which decision each belongs to.

use std::path::Path;

use super::decide::{Claim, Decision, Marks, Verdict};
use crate::cache::node::disk::{is_there, matches};
use crate::cache::node::layout::Layout;
use crate::cache::node::store::Held;
use crate::cache::sealing::catalog::Catalog;
use crate::cache::sealing::encoding::Encoding;
use crate::cache::sealing::marker::Marker;
use crate::records::DatasetRecord;

/// Puts first what goes: if two seals have the same id, it may lie on a node under the name of what
/// comes there.
pub(crate) fn in_order(decisions: Vec<Decision>) -> Vec<Decision> {
    let (mut first, rest): (Vec<_>, Vec<_>) =
        decisions.into_iter().partition(|one| goes(&one.verdict));
    first.extend(rest);
    first
}

pub(super) fn goes(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Delete(_) | Verdict::Forget)
}

/// Tells whether the directory is that of the seal of dataset `id` that is to be restored: a shared
/// store has one directory for all seals of an id.
pub(crate) fn belongs_to_winner(dir: &Path, id: u64, decisions: &[Decision]) -> bool {
    let wins = |one: &&Decision| one.id == id && id != 0 && one.verdict == Verdict::Restore;
    let Some(winner) = decisions.iter().find(wins) else { return false };
    matches!(Catalog::read(dir), Ok(Some(found)) if found.epoch == winner.epoch)
}

pub(crate) fn belongs(claim: &Claim, decision: &Decision) -> bool {
    (claim.id, claim.epoch, &claim.key) == (decision.id, decision.epoch, &decision.key)
}

pub(crate) fn matches_record(record: &DatasetRecord, decision: &Decision) -> bool {
    (record.dataset_id, record.epoch, &record.key) == (decision.id, decision.epoch, &decision.key)
}

/// Makes the claim of a record that `holder` answers for, by a look at its files.
pub(crate) fn claim_of(layout: &Layout, holder: usize, (owner, record): &Held) -> Claim {
    let dir = layout.data_dir(record);
    let mut claim = Claim::new(*owner, holder, record);
    let marked = |marker: Marker| claim.prepared && marker.epoch(&dir) == Some(record.epoch);
    let marks = Marks {
        confirmed: record.confirmed || marked(Marker::Confirmed),
        offered: marked(Marker::Offered),
        trusted: marked(Marker::Trusted),
    };
    claim.marks = marks;
    claim.strange = !layout.owner.owns(record);
    claim.present = is_there(&dir);
    let mut files = record.files.iter().filter(|file| !file.on_prefix);
    claim.intact = files.all(|file| matches(&dir, file, false));
    claim.encodings = Encoding::list(*owner, record, &dir);
    claim
}
