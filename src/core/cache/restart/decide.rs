//! Which datasets of a cache count at a restart: a pure function of what all records say.
//!
//! A dataset counts if every member's record says Prepared with the same epoch. If records are
//! lost, it counts only if it was confirmed on any node, since a lost record might have been
//! revoked; or offered by an earlier restart, since newer datasets may rest on its files. One that
//! the program had left alone for longer than it took was on all ranks what the records say; the
//! restart then goes back behind a change that a lost record may tell of.

use std::collections::{BTreeMap, BTreeSet};

use crate::cache::sealing::encoding::Encoding;
use crate::comm::ranks::ranks_phrase;
use crate::kvtree::KvTree;
use crate::records::text::{epoch_text, parse_epoch};
use crate::records::{DatasetRecord, RecordKey, RecordedState};

/// What the holder's node knows of a dataset as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// It is complete.
    pub confirmed: bool,
    /// An earlier restart offered it.
    pub offered: bool,
    /// The program had left it alone for longer than it took.
    pub trusted: bool,
}

/// What one record says, and where it is.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are those of the record")]
pub struct Claim {
    pub key: RecordKey,
    /// 0 if it never came to a seal.
    pub id: u64,
    pub epoch: u64,
    /// It was made for another prefix.
    pub strange: bool,
    /// World rank that wrote the files.
    pub owner: usize,
    /// World rank that answers for the record now; the files are on its node.
    pub holder: usize,
    /// Its state is Prepared.
    pub prepared: bool,
    /// What the holder's node knows of the dataset.
    pub marks: Marks,
    /// A directory of the dataset is on the holder's node.
    pub present: bool,
    /// The program's files are there with the right sizes.
    pub intact: bool,
    /// The dataset's encodings, the newest first.
    pub encodings: Vec<Encoding>,
    pub scheme: String,
    /// Losses that the scheme was to survive.
    pub failures: usize,
    pub store: String,
}

impl Claim {
    /// Returns the caller fills in what it knows of holder and files.
    pub fn new(owner: usize, holder: usize, record: &DatasetRecord) -> Claim {
        let text = |key| record.descriptor.get_value(key).unwrap_or_default().to_owned();
        Claim {
            key: record.key.clone(),
            id: record.dataset_id,
            epoch: record.epoch,
            strange: false,
            owner,
            holder,
            prepared: record.state == RecordedState::Prepared && record.dataset_id != 0,
            marks: Marks { confirmed: record.confirmed, ..Marks::default() },
            present: false,
            intact: false,
            encodings: Vec::new(),
            scheme: text("TYPE"),
            failures: record.descriptor.parse("SET_FAILURES").unwrap_or(1),
            store: text("STORE"),
        }
    }

    pub(crate) fn under(&self, number: u64) -> Option<&Encoding> {
        self.encodings.iter().find(|encoding| encoding.number == number)
    }

    /// Makes the tree in which the claim travels.
    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set("KEY", self.key.to_tree());
        tree.set_value("DSET", self.id);
        tree.set_value("EPOCH", epoch_text(self.epoch));
        tree.set_value("OWNER", self.owner);
        tree.set_value("HOLDER", self.holder);
        tree.set_flag("STRANGE", self.strange);
        tree.set_flag("PREPARED", self.prepared);
        tree.set_flag("CONFIRMED", self.marks.confirmed);
        tree.set_flag("OFFERED", self.marks.offered);
        tree.set_flag("TRUSTED", self.marks.trusted);
        tree.set_flag("PRESENT", self.present);
        tree.set_flag("INTACT", self.intact);
        for encoding in &self.encodings {
            tree.child_mut("ENCODING").set(encoding.number, encoding.to_tree());
        }
        tree.set_value("TYPE", &self.scheme);
        tree.set_value("SET_FAILURES", self.failures);
        tree.set_value("STORE", &self.store);
        tree
    }

    /// Returns `None` if a field is missing or malformed.
    pub fn from_tree(tree: &KvTree) -> Option<Claim> {
        let encodings = tree.child("ENCODING").iter();
        let encodings: Option<Vec<_>> = encodings.map(|(n, e)| Encoding::from_tree(n, e)).collect();
        let mut encodings = encodings?;
        encodings.sort_by_key(|encoding| std::cmp::Reverse(encoding.number));
        Some(Claim {
            key: RecordKey::from_tree(tree.get("KEY")?)?,
            id: tree.get_u64("DSET")?,
            epoch: parse_epoch(tree.get_value("EPOCH")?)?,
            owner: tree.parse("OWNER")?,
            holder: tree.parse("HOLDER")?,
            strange: tree.get_flag("STRANGE"),
            prepared: tree.get_flag("PREPARED"),
            marks: Marks {
                confirmed: tree.get_flag("CONFIRMED"),
                offered: tree.get_flag("OFFERED"),
                trusted: tree.get_flag("TRUSTED"),
            },
            present: tree.get_flag("PRESENT"),
            intact: tree.get_flag("INTACT"),
            encodings,
            scheme: tree.get_value("TYPE")?.to_owned(),
            failures: tree.parse("SET_FAILURES")?,
            store: tree.get_value("STORE")?.to_owned(),
        })
    }
}

/// What is to be done with a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Bring it back.
    Restore,
    /// It was made for another prefix, and is left alone.
    Strange,
    /// Not now, but a node that returns may make it whole.
    Withhold(String),
    /// It can never be whole.
    Delete(String),
    /// It was evicted, and only its records are left: nothing to be told of.
    Forget,
}

/// The verdict on the records of one id and epoch (or, without an id, of one key).
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are those of the records")]
pub struct Decision {
    /// 0 without an id.
    pub id: u64,
    pub epoch: u64,
    pub key: RecordKey,
    pub confirmed: bool,
    pub verdict: Verdict,
    /// World ranks of which no node has a record.
    pub absent: Vec<usize>,
}

/// Judges all claims; lowest id first, at most one Restore for each id.
pub fn decide(claims: &[Claim], world_size: usize) -> Vec<Decision> {
    let mut groups: BTreeMap<(u64, u64, &RecordKey), Vec<&Claim>> = BTreeMap::new();
    for claim in claims {
        groups.entry((claim.id, claim.epoch, &claim.key)).or_default().push(claim);
    }
    let mut decisions: Vec<Decision> = groups
        .into_iter()
        .map(|((id, epoch, key), members)| Decision {
            id,
            epoch,
            key: key.clone(),
            confirmed: members.iter().any(|claim| claim.marks.confirmed),
            verdict: judge(id, &members, claims, world_size),
            absent: absent(&members, world_size),
        })
        .collect();
    forget_evicted(&mut decisions, claims);
    one_for_each_id(&mut decisions);
    decisions
}

/// An eviction leaves records for a while ([`crate::cache::FilemapFile`]): they are of a dataset
/// that has no directory on any node, while a newer one of its series has.
fn forget_evicted(decisions: &mut [Decision], claims: &[Claim]) {
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut present: BTreeSet<(u64, u64, &RecordKey)> = BTreeSet::new();
    for claim in claims.iter().filter(|claim| claim.present) {
        let slot = newest.entry(&claim.key.series).or_insert(claim.id);
        *slot = claim.id.max(*slot);
        present.insert((claim.id, claim.epoch, &claim.key));
    }
    for decision in decisions.iter_mut().filter(|decision| decision.id != 0) {
        let outdated = newest.get(&decision.key.series[..]).is_some_and(|id| *id > decision.id);
        if outdated && !present.contains(&(decision.id, decision.epoch, &decision.key)) {
            decision.verdict = Verdict::Forget;
        }
    }
}

fn judge(id: u64, claims: &[&Claim], all: &[Claim], world_size: usize) -> Verdict {
    if id == 0 {
        return Verdict::Delete("it was still being written".into());
    }
    if claims.iter().any(|claim| !claim.prepared) {
        return Verdict::Delete("it was not sealed on all ranks".into());
    }
    if claims.iter().any(|claim| claim.strange) {
        return Verdict::Strange;
    }
    if let Some(stray) = claims.iter().find(|claim| claim.owner >= world_size) {
        return Verdict::Withhold(format!("it has files of rank {}", stray.owner));
    }
    let missing = absent(claims, world_size);
    let confirmed = claims.iter().any(|claim| claim.marks.confirmed || claim.marks.offered);
    if missing.is_empty() || confirmed {
        return Verdict::Restore;
    }
    let sealed_otherwise =
        |rank: &usize| all.iter().any(|c| (c.id, &c.key, c.owner) == (id, &claims[0].key, *rank));
    if missing.iter().all(sealed_otherwise) {
        return Verdict::Delete("it was being sealed again".into());
    }
    if claims.iter().any(|claim| claim.marks.trusted) && !missing.iter().any(sealed_otherwise) {
        return Verdict::Restore;
    }
    // The node of one of whom there is something else is there.
    let is_away = |rank: &usize| all.iter().all(|claim| claim.owner != *rank);
    let away: Vec<usize> = missing.iter().copied().filter(is_away).collect();
    let reason = match away.is_empty() {
        true => format!("{} had not sealed it when the run ended", ranks_phrase(&missing)),
        false => format!(
            "it was not yet known to be complete when the run ended, and nothing is there of {}",
            ranks_phrase(&away)
        ),
    };
    Verdict::Withhold(reason)
}

fn absent(claims: &[&Claim], world_size: usize) -> Vec<usize> {
    let owners: BTreeSet<usize> = claims.iter().map(|claim| claim.owner).collect();
    (0..world_size).filter(|rank| !owners.contains(rank)).collect()
}

/// Two seals have one id if a node that was away has an old cache. Confirmed beats provisional;
/// then the larger epoch only makes the choice the same everywhere.
fn one_for_each_id(decisions: &mut [Decision]) {
    let mut best: BTreeMap<u64, (bool, u64)> = BTreeMap::new();
    for decision in decisions.iter().filter(|d| d.verdict == Verdict::Restore) {
        let rank = (decision.confirmed, decision.epoch);
        let slot = best.entry(decision.id).or_insert(rank);
        *slot = rank.max(*slot);
    }
    for decision in decisions.iter_mut() {
        let loses = best.get(&decision.id).is_some_and(|(_, epoch)| *epoch != decision.epoch);
        if loses && matches!(decision.verdict, Verdict::Restore | Verdict::Withhold(_)) {
            decision.verdict = Verdict::Delete("it is a leftover of an earlier launch".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(id: u64, epoch: u64, owners: &[usize]) -> Vec<Claim> {
        let one = |owner: &usize| Claim {
            key: RecordKey { series: "s".into(), id: id.to_string(), generation: 0 },
            id,
            epoch,
            prepared: true,
            present: true,
            intact: true,
            encodings: vec![Encoding { number: 10, set: vec![0, 1], protected: true }],
            scheme: "XOR".into(),
            store: "ram".into(),
            ..Claim::new(*owner, *owner, &DatasetRecord::default())
        };
        owners.iter().map(one).collect()
    }

    fn verdicts(claims: &[Claim]) -> Vec<(u64, u64, Verdict)> {
        decide(claims, 3).into_iter().map(|d| (d.id, d.epoch, d.verdict)).collect()
    }

    #[test]
    fn whole_counts_even_if_provisional() {
        assert_eq!(verdicts(&claims(4, 9, &[0, 1, 2])), [(4, 9, Verdict::Restore)]);
    }

    #[test]
    fn a_lost_member_needs_a_confirmation() {
        let mut seen = claims(4, 9, &[0, 2]);
        assert!(matches!(verdicts(&seen)[0].2, Verdict::Withhold(_)));
        seen[1].marks.confirmed = true;
        assert_eq!(verdicts(&seen)[0].2, Verdict::Restore);
        (seen[0].marks.offered, seen[1].marks.confirmed) = (true, false);
        assert_eq!(verdicts(&seen)[0].2, Verdict::Restore);
    }

    #[test]
    fn of_a_node_that_is_there_nobody_says_that_it_was_lost() {
        let mut seen = claims(4, 9, &[0]);
        let why = |seen: &[Claim]| match &verdicts(seen)[0].2 {
            Verdict::Withhold(why) => why.clone(),
            other => panic!("{other:?}"),
        };
        assert!(why(&seen).contains("ranks 1, 2"), "{}", why(&seen));
        seen.extend(claims(5, 1, &[1]));
        assert!(why(&seen).contains("rank 2"), "{}", why(&seen));
    }

    #[test]
    fn a_lost_member_needs_trust_and_nobody_who_was_sealing_again() {
        let mut seen = claims(4, 9, &[0]);
        seen[0].marks.trusted = true;
        assert_eq!(verdicts(&seen)[0].2, Verdict::Restore);
        // Rank 1 has amended it, and come to its next seal: rank 2 may have changed its files, too.
        seen.extend(claims(4, 8, &[1]));
        assert!(verdicts(&seen).iter().all(|(_, _, v)| matches!(v, Verdict::Withhold(_))));
        // Rank 1 has just begun to amend it.
        seen[1].epoch = 9;
        seen[1].prepared = false;
        assert!(matches!(verdicts(&seen)[0].2, Verdict::Delete(_)));
    }

    #[test]
    fn what_was_evicted_is_forgotten_and_what_was_lost_is_not() {
        let mut seen = claims(4, 9, &[0, 1, 2]);
        seen.iter_mut().for_each(|claim| claim.present = false);
        let lost = seen.clone();
        seen.extend(claims(5, 9, &[0]));
        seen.iter_mut().for_each(|claim| claim.marks.confirmed = true);
        assert_eq!(verdicts(&seen), [(4, 9, Verdict::Forget), (5, 9, Verdict::Restore)]);
        // Nothing is newer: the stores were emptied.
        assert_eq!(verdicts(&lost)[0].2, Verdict::Restore);
        // Not yet on all nodes.
        seen[1].present = true;
        assert_eq!(verdicts(&seen)[0].2, Verdict::Restore);
    }

    #[test]
    fn what_was_made_for_another_prefix_is_left_alone() {
        let mut seen = claims(4, 9, &[0, 2]);
        seen[1].strange = true;
        assert_eq!(verdicts(&seen), [(4, 9, Verdict::Strange)]);
        seen.extend(claims(4, 8, &[0, 1, 2]));
        assert_eq!(verdicts(&seen)[0], (4, 8, Verdict::Restore));
    }

    #[test]
    fn one_open_member_voids_the_seal() {
        let mut seen = claims(4, 9, &[0, 1, 2]);
        seen[2].prepared = false;
        assert!(matches!(verdicts(&seen)[0].2, Verdict::Delete(_)));
    }

    #[test]
    fn mixed_epochs_never_combine() {
        let mut seen = claims(4, 9, &[0, 1]);
        seen.extend(claims(4, 8, &[2]));
        assert!(verdicts(&seen).iter().all(|(_, _, v)| matches!(v, Verdict::Delete(_))));
        // With rank 2 away nobody knows whether it was sealed with either.
        seen.retain(|claim| claim.owner != 2);
        assert!(matches!(verdicts(&seen)[0].2, Verdict::Withhold(_)));
    }

    #[test]
    fn an_old_cache_loses_against_the_confirmed_one() {
        let mut seen = claims(4, 9, &[0, 1]);
        seen[0].marks.confirmed = true;
        seen.extend(claims(4, 77, &[0, 1, 2]));
        let verdicts = verdicts(&seen);
        assert_eq!(verdicts[0], (4, 9, Verdict::Restore));
        assert!(matches!(verdicts[1].2, Verdict::Delete(_)));
    }

    #[test]
    fn lowest_id_comes_first_and_a_claim_survives_its_tree() {
        let mut seen = claims(11, 1, &[0, 1, 2]);
        seen.extend(claims(2, 5, &[0, 1, 2]));
        assert_eq!(verdicts(&seen).iter().map(|v| v.0).collect::<Vec<_>>(), [2, 11]);
        assert_eq!(Claim::from_tree(&seen[0].to_tree()), Some(seen[0].clone()));
    }
}
