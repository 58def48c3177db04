//! At a restart: what the records of all ranks say. The leader of each node gets all of it, and
//! judges; to the other ranks it passes on what follows, which does not grow with the records.

use std::collections::{BTreeMap, BTreeSet};

use super::alike::{join_alike, split_alike};
use super::claims::{belongs, claim_of, in_order};
use super::decide::{Claim, Decision, Verdict, decide};
use super::distribute::{FileMove, plan};
use super::protect_anew;
use crate::cache::Ctx;
use crate::cache::node::agree::from_root;
use crate::comm::ranks::{parse_ranks, ranks_text};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::records::RecordKey;
use crate::records::text::{epoch_text, parse_epoch};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub encoding: u64,
    pub newest: u64,
    /// The redundancy sets of several ranks, under the encoding that serves.
    pub sets: BTreeSet<Vec<usize>>,
    pub scheme: String,
    pub failures: usize,
    pub store: String,
    pub whole: bool,
    /// For each rank whose files others answer for: the lowest of these.
    pub moved: BTreeMap<usize, usize>,
    pub holders: BTreeSet<usize>,
    pub rounds: Vec<Vec<FileMove>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Survey {
    /// With the facts of what is to be brought back.
    pub decisions: Vec<(Decision, Option<Facts>)>,
    /// Largest id of any record; 0 without one.
    pub highest_id: u64,
}

impl Survey {
    pub fn gather(ctx: &Ctx, nodes: &[usize]) -> Result<Survey> {
        let mut own = KvTree::new();
        for (index, held) in ctx.filemap.held().iter().enumerate() {
            own.set(index, claim_of(ctx.layout, ctx.world.rank(), held).to_tree());
        }
        let near = ctx.node.all_gather(&own.encode())?;
        let judged = match ctx.leaders {
            None => Ok(KvTree::new()),
            Some(leaders) => claims_in(&leaders.all_gather(&join_alike(&near))?)
                .map(|claims| Survey::of(&claims, nodes).to_tree()),
        };
        // All leaders have judged the same bytes, so what one cannot read nobody can.
        let judged = from_root(ctx.node, judged.map(|judged| judged.encode()))?;
        Survey::from_tree(&KvTree::decode(&judged)?).ok_or_else(unreadable)
    }

    fn of(claims: &[Claim], nodes: &[usize]) -> Survey {
        let ranks = nodes.len();
        let judged = |decision: Decision| {
            let facts = (decision.verdict == Verdict::Restore).then(|| {
                let of_it = claims.iter().filter(|claim| belongs(claim, &decision));
                Facts::of(&of_it.collect::<Vec<_>>(), ranks, nodes)
            });
            (decision, facts)
        };
        Survey {
            decisions: in_order(decide(claims, ranks)).into_iter().map(judged).collect(),
            highest_id: claims.iter().map(|claim| claim.id).max().unwrap_or(0),
        }
    }

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("HIGHEST", self.highest_id);
        for (index, (decision, facts)) in self.decisions.iter().enumerate() {
            let entry = tree.child_mut("DATASET").child_mut(format_args!("{index:08}"));
            entry.set("DECISION", decision.to_tree());
            if let Some(facts) = facts {
                entry.set("FACTS", facts.to_tree());
            }
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Option<Survey> {
        let dataset = |(_, entry): (&str, &KvTree)| {
            let facts = entry.get("FACTS").map(Facts::from_tree);
            Some((Decision::from_tree(entry.get("DECISION")?)?, facts))
        };
        let decisions: Option<Vec<_>> = tree.child("DATASET").iter().map(dataset).collect();
        Some(Survey { decisions: decisions?, highest_id: tree.get_u64("HIGHEST")? })
    }
}

fn unreadable() -> Error {
    Error::Unreadable("what the records say cannot be read".into())
}

fn claims_in(nodes: &[Vec<u8>]) -> Result<Vec<Claim>> {
    let mut claims = Vec::new();
    for node in nodes {
        for rank in split_alike(node).ok_or_else(unreadable)? {
            let tree = KvTree::decode(&rank)?;
            claims.extend(tree.iter().filter_map(|(_, claim)| Claim::from_tree(claim)));
        }
    }
    claims.sort_by_key(|claim| claim.holder);
    Ok(claims)
}

impl Facts {
    /// Draws the facts from a dataset's claims, in a world of `ranks`, which run on `nodes` now.
    pub fn of(claims: &[&Claim], ranks: usize, nodes: &[usize]) -> Facts {
        let encoding = protect_anew::choose(claims);
        let numbers = claims.iter().flat_map(|claim| &claim.encodings).map(|one| one.number);
        let served = claims.iter().filter_map(|claim| claim.under(encoding));
        let several = served.filter(|one| one.set.len() > 1).map(|one| one.set.clone());
        let mut copies: BTreeMap<usize, usize> = BTreeMap::new();
        for claim in claims.iter().filter(|claim| claim.intact && claim.owner < ranks) {
            let holder = copies.entry(claim.owner).or_insert(claim.holder);
            *holder = claim.holder.min(*holder);
        }
        let first = claims.first();
        Facts {
            encoding,
            newest: numbers.max().unwrap_or(0),
            sets: several.collect(),
            scheme: first.map_or_else(String::new, |claim| claim.scheme.clone()),
            failures: first.map_or(1, |claim| claim.failures),
            store: first.map_or_else(String::new, |claim| claim.store.clone()),
            whole: copies.len() == ranks,
            moved: copies.into_iter().filter(|(owner, holder)| owner != holder).collect(),
            holders: claims.iter().map(|claim| claim.holder).collect(),
            rounds: plan(claims, encoding, nodes),
        }
    }

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("ENCODING", self.encoding);
        tree.set_value("NEWEST", self.newest);
        tree.set_value("TYPE", &self.scheme);
        tree.set_value("SET_FAILURES", self.failures);
        tree.set_value("STORE", &self.store);
        tree.set_flag("WHOLE", self.whole);
        let holders: Vec<usize> = self.holders.iter().copied().collect();
        tree.set_value("HOLDERS", ranks_text(&holders));
        for set in &self.sets {
            tree.child_mut("SET").child_mut(ranks_text(set));
        }
        let pairs = self.moved.iter().flat_map(|(owner, holder)| [*owner, *holder]);
        tree.set_value("MOVED", ranks_text(&pairs.collect::<Vec<_>>()));
        for (index, round) in self.rounds.iter().enumerate() {
            let pairs = round.iter().flat_map(|transfer| [transfer.from, transfer.to]);
            let text = ranks_text(&pairs.collect::<Vec<_>>());
            tree.child_mut("ROUND").set_value(format!("{index:08}"), text);
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Facts {
        let text = |key: &str| tree.get_value(key).unwrap_or_default();
        let round = |(key, _): (&str, &KvTree)| {
            let pairs = pairs_in(tree.child("ROUND").get_value(key).unwrap_or_default());
            pairs.into_iter().map(|(from, to)| FileMove { from, to }).collect()
        };
        Facts {
            encoding: tree.get_u64("ENCODING").unwrap_or(0),
            newest: tree.get_u64("NEWEST").unwrap_or(0),
            sets: tree.child("SET").keys().map(parse_ranks).collect(),
            scheme: text("TYPE").to_owned(),
            failures: tree.parse("SET_FAILURES").unwrap_or(1),
            store: text("STORE").to_owned(),
            whole: tree.get_flag("WHOLE"),
            moved: pairs_in(text("MOVED")).into_iter().collect(),
            holders: parse_ranks(text("HOLDERS")).into_iter().collect(),
            rounds: tree.child("ROUND").iter().map(round).collect(),
        }
    }

    /// Tells who answers for the files of a rank, if all ranks' files are somewhere.
    pub fn holder_of(&self, owner: usize) -> Option<usize> {
        self.whole.then(|| self.moved.get(&owner).copied().unwrap_or(owner))
    }
}

fn pairs_in(text: &str) -> Vec<(usize, usize)> {
    parse_ranks(text).chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

impl Decision {
    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("DSET", self.id);
        tree.set_value("EPOCH", epoch_text(self.epoch));
        tree.set("KEY", self.key.to_tree());
        tree.set_flag("CONFIRMED", self.confirmed);
        tree.set_value("ABSENT", ranks_text(&self.absent));
        match &self.verdict {
            Verdict::Restore => tree.set_flag("RESTORE", true),
            Verdict::Forget => tree.set_flag("FORGET", true),
            Verdict::Strange => tree.set_flag("STRANGE", true),
            Verdict::Withhold(why) => tree.set_value("WITHHOLD", why),
            Verdict::Delete(why) => tree.set_value("DELETE", why),
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Option<Decision> {
        let text = |key: &str| tree.get_value(key).map(str::to_owned);
        let verdict = match (text("WITHHOLD"), text("DELETE")) {
            (Some(why), _) => Verdict::Withhold(why),
            (_, Some(why)) => Verdict::Delete(why),
            _ if tree.get_flag("RESTORE") => Verdict::Restore,
            _ if tree.get_flag("FORGET") => Verdict::Forget,
            _ if tree.get_flag("STRANGE") => Verdict::Strange,
            _ => return None,
        };
        Some(Decision {
            id: tree.get_u64("DSET")?,
            epoch: parse_epoch(tree.get_value("EPOCH")?)?,
            key: RecordKey::from_tree(tree.get("KEY")?)?,
            confirmed: tree.get_flag("CONFIRMED"),
            absent: parse_ranks(tree.get_value("ABSENT")?),
            verdict,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::restart::decide::Marks;
    use crate::cache::sealing::encoding::Encoding;
    use crate::records::DatasetRecord;

    const RANKS: usize = 100_000;
    const RANKS_ON_NODE: usize = 64;
    const DATASETS: u64 = 4;
    /// One node in so many is looked at; the others have as much to say.
    const NODES_TO_ONE: usize = 50;

    /// Of a rank under XOR, in sets of 16 nodes.
    fn claims_of(rank: usize) -> Vec<u8> {
        let mut own = KvTree::new();
        let first = rank / (RANKS_ON_NODE * 16) * RANKS_ON_NODE * 16 + rank % RANKS_ON_NODE;
        let set = (0..16).map(|node| first + node * RANKS_ON_NODE).collect();
        for id in 1..=DATASETS {
            let claim = Claim {
                key: RecordKey { series: "CHECKPOINT".into(), id: format!("{id}0"), generation: 0 },
                id,
                epoch: 0x1234_5678_9abc_def0 + id,
                prepared: true,
                marks: Marks { confirmed: true, ..Marks::default() },
                present: true,
                intact: true,
                encodings: vec![Encoding { number: 0, set: Vec::clone(&set), protected: true }],
                scheme: "XOR".into(),
                store: "/dev/shm".into(),
                ..Claim::new(rank, rank, &DatasetRecord::default())
            };
            own.set(id, claim.to_tree());
        }
        own.encode()
    }

    #[test]
    fn what_each_leader_gets_of_a_large_job_is_a_part_of_what_the_ranks_say() {
        let (mut said, mut sent) = (0, 0);
        for first in (0..RANKS).step_by(RANKS_ON_NODE * NODES_TO_ONE) {
            let node: Vec<_> = (first..first + RANKS_ON_NODE).map(claims_of).collect();
            let packed = join_alike(&node);
            if first == 0 {
                assert_eq!(claims_in(std::slice::from_ref(&packed)).unwrap().len(), 256);
            }
            said += node.iter().map(Vec::len).sum::<usize>() * NODES_TO_ONE;
            sent += packed.len() * NODES_TO_ONE;
        }
        println!("{RANKS} ranks, {DATASETS} datasets: {said} bytes said, {sent} bytes sent");
        assert!(sent * 3 < said, "{said} {sent}");
    }
}
