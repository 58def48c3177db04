//! What a restart offers: a pure function of the records that were found.

use std::collections::BTreeMap;

use super::keys::DatasetKey;

/// State of a rank's durable record of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordState {
    /// Written at the first open, or set back by an amendment.
    Open,
    /// All its files are recorded and protected.
    Prepared,
    /// Reported invalid.
    Invalid,
}

/// A rank's record of a dataset as found at a restart: its own, or (its node being lost) the copy
/// that its right neighbour keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRecord {
    /// The dataset.
    pub key: DatasetKey,
    /// Its number; 0 until prepared.
    pub id: u64,
    /// Number of the dataset in its series; 0 until prepared.
    pub number: u64,
    /// Epoch of the seal; 0 until prepared.
    pub epoch: u64,
    /// The record's state.
    pub state: RecordState,
    /// The record says confirmed, or the dataset's directory has the marker (of the same epoch).
    pub confirmed: bool,
    /// An earlier restart offered it: no rank can have begun to change it since, for the program's
    /// writes to what a restart found go to the next generation. The restart sets it in all records.
    pub survived: bool,
    /// Its files never were in cache ([`super::SealPlan::on_prefix`]).
    pub on_prefix: bool,
    /// It is on the PFS, complete.
    pub flushed: bool,
}

/// All that was found of one world rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankRecords {
    /// The rank's own records are gone (node lost, or control directory wiped).
    pub lost: bool,
    /// Its records, or its neighbours' copies.
    pub records: Vec<FoundRecord>,
}

/// A dataset that is offered, provided that its files can be rebuilt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The dataset.
    pub key: DatasetKey,
    /// Its number.
    pub id: u64,
    /// Number of the dataset in its series.
    pub number: u64,
    /// The epoch that all its parts must carry.
    pub epoch: u64,
    /// Known to be complete.
    pub confirmed: bool,
    /// On the PFS only.
    pub on_prefix: bool,
    /// On the PFS too.
    pub flushed: bool,
}

/// A dataset that is not offered, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The dataset.
    pub key: DatasetKey,
    /// Its number; 0 if no record has one.
    pub id: u64,
    /// For people, and for tests.
    pub reason: Rejection,
}

/// Why a dataset is not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// A rank was still writing it, or had begun to change it.
    Unfinished,
    /// A rank has no record of it and was not lost.
    Incomplete,
    /// Its parts come from different seals.
    MixedEpochs,
    /// It was provisional, and a node is lost that may have held a revocation.
    ProvisionalNodeLost,
    /// The program failed to write it.
    Invalid,
    /// Its files are lost beyond what the scheme covers (decided by the rebuild).
    Unrecoverable,
}

/// The decision; equal wherever the same records were gathered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestartDecision {
    /// Datasets to rebuild and offer, lowest id first.
    pub offered: Vec<Offer>,
    /// Datasets whose cached parts do not count. They are hidden (unless the same id is also
    /// offered from the PFS) and removed only after a newer one is confirmed.
    pub rejected: Vec<Rejected>,
    /// Largest id in any record, 0 if none.
    pub last_id: u64,
}

impl RestartDecision {
    /// Moves an offered dataset to the rejected ones, since its rebuild failed on some rank. One
    /// that was flushed is offered from the PFS instead.
    pub fn reject(&mut self, id: u64, reason: Rejection) {
        let Some(at) = self.offered.iter().position(|offer| offer.id == id) else { return };
        let offer = &mut self.offered[at];
        self.rejected.push(Rejected { key: offer.key.clone(), id, reason });
        if offer.flushed {
            offer.on_prefix = true;
        } else {
            self.offered.remove(at);
        }
    }

    fn offer_from_prefix(&mut self, record: &FoundRecord, confirmed: bool) {
        self.offered.push(Offer {
            key: record.key.clone(),
            id: record.id,
            number: record.number,
            epoch: record.epoch,
            // That some records say confirmed proves nothing when those of other ranks are lost.
            confirmed: record.flushed && confirmed,
            on_prefix: true,
            flushed: record.flushed,
        });
    }
}

/// Decides from all ranks' records (index = world rank) what to rebuild and offer.
///
/// A dataset counts when every rank's record, or for a lost rank its neighbour's copy, says
/// prepared with the same epoch. A provisional one counts only if no rank's records are lost (one
/// of them may have said that it was being changed), or if an earlier restart offered it. What
/// is on the PFS (flushed, or written there in the first place) is offered from there whatever the
/// cache has lost. The caller rebuilds what is offered, checks that the files on the PFS are there
/// with the recorded sizes (the program's deletions may have become real just before the crash),
/// and calls [`RestartDecision::reject`] for what fails.
#[must_use]
pub fn choose_restart(ranks: &[RankRecords]) -> RestartDecision {
    let mut found: BTreeMap<&DatasetKey, Vec<Option<&FoundRecord>>> = BTreeMap::new();
    for (rank, records) in ranks.iter().enumerate() {
        let ours = records.records.iter();
        for record in ours.filter(|record| !record.on_prefix || record.id != 0) {
            let members = found.entry(&record.key).or_insert_with(|| vec![None; ranks.len()]);
            members[rank] = Some(record);
        }
    }
    let mut decision = RestartDecision::default();
    for (key, members) in found {
        let present = || members.iter().flatten();
        let id = present().map(|record| record.id).max().unwrap_or(0);
        decision.last_id = decision.last_id.max(id);
        match judge(ranks, &members) {
            Ok(record) => decision.offered.push(Offer {
                key: key.clone(),
                id,
                number: record.number,
                epoch: record.epoch,
                confirmed: present().any(|record| record.confirmed),
                on_prefix: record.on_prefix,
                flushed: present().any(|record| record.flushed),
            }),
            Err(reason) => {
                decision.rejected.push(Rejected { key: key.clone(), id, reason });
                let confirmed = present().any(|record| record.confirmed);
                let prefix = present().find(|record| record.flushed || record.on_prefix);
                if let Some(record) = prefix {
                    decision.offer_from_prefix(record, confirmed);
                }
            }
        }
    }
    decision.offered.sort_by_key(|offer| offer.id);
    decision
}

/// The record that stands for the dataset, or why it does not count.
fn judge<'a>(
    ranks: &[RankRecords],
    members: &[Option<&'a FoundRecord>],
) -> Result<&'a FoundRecord, Rejection> {
    let present = || members.iter().flatten();
    if present().any(|record| record.state == RecordState::Invalid) {
        return Err(Rejection::Invalid);
    }
    if present().any(|record| record.state == RecordState::Open) {
        return Err(Rejection::Unfinished);
    }
    let Some(first) = present().next() else { return Err(Rejection::Incomplete) };
    if present().any(|record| record.epoch != first.epoch || record.id != first.id) {
        return Err(Rejection::MixedEpochs);
    }
    for (rank, member) in members.iter().enumerate() {
        if member.is_none() {
            let lost = ranks[rank].lost;
            return Err(if lost { Rejection::Unrecoverable } else { Rejection::Incomplete });
        }
    }
    let confirmed = present().any(|record| record.confirmed);
    if !confirmed && !first.survived && ranks.iter().any(|rank| rank.lost) {
        return Err(Rejection::ProvisionalNodeLost);
    }
    Ok(first)
}
