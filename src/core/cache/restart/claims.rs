//! What the records of a node claim, and which decision each belongs to.

use std::path::Path;

use super::decide::{Claim, Decision, Verdict};
use crate::cache::node::disk::{is_there, matches};
use crate::cache::node::layout::Layout;
use crate::cache::node::store::Held;
use crate::cache::sealing::catalog::Catalog;
use crate::cache::sealing::encoding::Encoding;
use crate::cache::sealing::marker::Marker;
use crate::records::DatasetRecord;

/// Puts first what goes: it may lie on a node under the name of what comes there, if two seals have
/// the same id.
pub(crate) fn in_order(decisions: Vec<Decision>) -> Vec<Decision> {
    let (mut first, rest): (Vec<_>, Vec<_>) =
        decisions.into_iter().partition(|one| goes(&one.verdict));
    first.extend(rest);
    first
}

/// Tells whether the dataset leaves the cache.
pub(super) fn goes(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Delete(_) | Verdict::Forget)
}

/// Tells whether the directory is that of the seal of dataset `id` that is to be restored: in a
/// store that several nodes reach, there is one directory for all seals of an id.
pub(crate) fn belongs_to_winner(dir: &Path, id: u64, decisions: &[Decision]) -> bool {
    let wins = |one: &&Decision| one.id == id && id != 0 && one.verdict == Verdict::Restore;
    let Some(winner) = decisions.iter().find(wins) else { return false };
    matches!(Catalog::read(dir), Ok(Some(found)) if found.epoch == winner.epoch)
}

/// Tells whether the claim is one of the decided dataset.
pub(crate) fn belongs(claim: &Claim, decision: &Decision) -> bool {
    (claim.id, claim.epoch, &claim.key) == (decision.id, decision.epoch, &decision.key)
}

/// Tells whether the record is that of the decided dataset.
pub(crate) fn matches_record(record: &DatasetRecord, decision: &Decision) -> bool {
    (record.dataset_id, record.epoch, &record.key) == (decision.id, decision.epoch, &decision.key)
}

/// Makes the claim of one record that `holder` answers for, by a look at its files. Local.
pub(crate) fn claim_of(layout: &Layout, holder: usize, (owner, record): &Held) -> Claim {
    let dir = layout.data_dir(record);
    let mut claim = Claim::new(*owner, holder, record);
    let marked = |marker: Marker| claim.prepared && marker.epoch(&dir) == Some(record.epoch);
    claim.strange = !layout.owner.owns(record);
    (claim.confirmed, claim.offered) =
        (claim.confirmed || marked(Marker::Confirmed), marked(Marker::Offered));
    claim.trusted = marked(Marker::Trusted);
    claim.present = is_there(&dir);
    let mut files = record.files.iter().filter(|file| !file.on_prefix);
    claim.intact = files.all(|file| matches(&dir.join(&file.name), file, false));
    claim.encodings = Encoding::list(*owner, record, &dir);
    claim
}
