//! What a run has left is brought back without its ranks, by one process that reaches all of it.
//! Redundancy sets are rebuilt by themselves, each member a thread, so the largest set bounds the
//! threads, however many ranks that run had.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;

use crate::cache::node::layout::Layout;
use crate::cache::node::scatter::read_filemaps;
use crate::cache::node::store::Held;
use crate::cache::removal::evict::directories;
use crate::cache::restart::claims::{
    belongs, belongs_to_winner, claim_of, in_order, matches_record,
};
use crate::cache::restart::decide::{Claim, Decision, Verdict, decide};
use crate::cache::restart::identity::strangers;
use crate::cache::restart::protect_anew;
use crate::cache::restart::recover::{
    Case, Inspected, Look, Part, inspect_record, plan_sets, rebuild_member,
};
use crate::cache::restart::survey::Facts;
use crate::cache::sealing::shared_store::records_in;
use crate::cache::{Protect, Withheld};
use crate::comm::threads::ThreadWorld;
use crate::error::{Error, Result};
use crate::files::remove_tree;
use crate::records::{DatasetRecord, RecordKey};
use crate::redundancy::RedundancySet;
use crate::system::{Lanes, block_signals, in_lanes};

pub(crate) struct Remains<'a> {
    pub nodes: Vec<(String, Layout)>,
    /// Files are rebuilt here that lie on none of them.
    pub spare: Layout,
    pub identity: &'a str,
    pub ranks: usize,
    pub protection: &'a dyn Protect,
    /// The threads that read files.
    pub lanes: Lanes<'a>,
    /// What is looked for, if only a part of the run is left.
    pub only: Option<PartsWanted<'a>>,
}

/// Parts of one dataset: only these are rebuilt, with their redundancy files, and have records.
#[derive(Clone, Copy)]
pub struct PartsWanted<'a> {
    /// The dataset's id.
    pub id: u64,
    /// The ranks whose files are looked for.
    pub ranks: &'a BTreeSet<usize>,
}

pub(crate) struct Whole {
    pub id: u64,
    pub key: RecordKey,
    /// Of each rank, in whose directory its files are.
    pub records: Vec<DatasetRecord>,
}

#[derive(Default)]
pub(crate) struct Brought {
    pub whole: Vec<Whole>,
    pub withheld: Vec<Withheld>,
    pub strange: BTreeSet<String>,
    pub damaged: bool,
}

/// A record and what it says; its holder is a number in [`Remains::nodes`].
type ToldRecord = (Claim, Held);

impl Remains<'_> {
    /// Rebuilds all that can be had; nothing is protected anew.
    pub fn rebuild(&self) -> Result<Brought> {
        self.check_identity()?;
        let mut brought = Brought::default();
        let mut held = self.read_records(&mut brought.damaged)?;
        held.retain(|(node, (_, record))| {
            let is_own = self.nodes[*node].1.owner.owns(record);
            if !is_own {
                brought.strange.insert(record.key.name());
            }
            is_own
        });
        let claim = |at: usize| claim_of(&self.nodes[held[at].0].1, held[at].0, &held[at].1);
        let claims = in_lanes(self.lanes, held.len(), &claim);
        let mut decisions = in_order(decide(&claims, self.ranks));
        decisions.retain(|one| self.only.is_none_or(|only| one.id == only.id));
        let told = claims.into_iter().zip(held.into_iter().map(|(_, held)| held));
        let told: Vec<ToldRecord> = told.collect();
        for decision in &decisions {
            let (reason, deleted) = match &decision.verdict {
                Verdict::Restore => match self.restore(decision, &told)? {
                    Ok(records) => {
                        let (id, key) = (decision.id, decision.key.clone());
                        brought.whole.push(Whole { id, key, records });
                        continue;
                    }
                    Err(reason) => (reason, false),
                },
                Verdict::Strange => continue,
                Verdict::Withhold(reason) => (reason.clone(), false),
                Verdict::Delete(reason) => {
                    self.delete(decision, &told, &decisions)?;
                    (reason.clone(), true)
                }
                Verdict::Forget => {
                    self.delete(decision, &told, &decisions)?;
                    continue;
                }
            };
            brought.withheld.push(Withheld {
                id: decision.id,
                key: decision.key.clone(),
                reason,
                absent: decision.absent.clone(),
                deleted,
                ..Withheld::default()
            });
        }
        Ok(brought)
    }

    fn check_identity(&self) -> Result<()> {
        let dirs: Vec<&Path> = self.nodes.iter().map(|(_, one)| &*one.control_dir).collect();
        let strange = strangers(&dirs, self.identity)?;
        let of = self.nodes.iter().filter(|(_, node)| strange.contains(&&*node.control_dir));
        let names: Vec<&str> = of.map(|(name, _)| &**name).collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(Error::Refused(format!(
                "what {} has of it is of several runs",
                names.join(", ")
            ))),
        }
    }

    /// All records with the node that each is on; those of shared stores are on the first.
    fn read_records(&self, damaged: &mut bool) -> Result<Vec<(usize, Held)>> {
        let mut all = Vec::new();
        for (number, (_, node)) in self.nodes.iter().enumerate() {
            let found = read_filemaps(&node.control_dir)?;
            *damaged |= !found.damaged.is_empty();
            all.extend(found.held.into_iter().map(|held| (number, held)));
        }
        let seal = |held: &Held| (held.0, held.1.key.clone(), held.1.epoch);
        let known: BTreeSet<_> = all.iter().map(|(_, one)| seal(one)).collect();
        let shared = self.nodes.first().map_or(&[][..], |(_, node)| &node.stores);
        for store in shared.iter().filter(|store| store.is_shared) {
            let found = records_in(store)?.into_iter().filter(|one| !known.contains(&seal(one)));
            all.extend(found.map(|held| (0, held)));
        }
        Ok(all)
    }

    /// Removes what is left of a dataset: it may lie under the name of another seal of its id.
    fn delete(&self, decision: &Decision, told: &[ToldRecord], all: &[Decision]) -> Result<()> {
        for (claim, (_, record)) in told.iter().filter(|one| matches_record(&one.1.1, decision)) {
            let dirs = directories(&self.nodes[claim.holder].1, record).into_iter();
            let mut doomed = dirs.filter(|dir| !belongs_to_winner(dir, decision.id, all));
            doomed.try_for_each(|dir| remove_tree(&dir))?;
        }
        Ok(())
    }

    fn restore(
        &self,
        chosen: &Decision,
        told: &[ToldRecord],
    ) -> Result<std::result::Result<Vec<DatasetRecord>, String>> {
        let told: Vec<&ToldRecord> = told.iter().filter(|one| belongs(&one.0, chosen)).collect();
        let claims: Vec<&Claim> = told.iter().map(|one| &one.0).collect();
        let facts = Facts::of(&claims, self.ranks, &[]);
        let encoding = facts.encoding;
        let mut of_owner: Vec<Vec<&ToldRecord>> = vec![Vec::new(); self.ranks];
        told.iter().for_each(|one| of_owner[one.0.owner].push(one));
        for copies in &mut of_owner {
            copies.sort_by_key(|(claim, _)| {
                let protected = claim.under(encoding).is_some_and(|found| found.protected);
                (Reverse((claim.intact, protected)), claim.holder)
            });
        }
        let inspect = |owner: usize| match self.leaves_out(owner) {
            true => Ok(Inspected { record: None, part: Part::Whole }),
            false => self.inspect(&of_owner[owner], encoding),
        };
        let mut found: Vec<Inspected> = Vec::new();
        for inspected in in_lanes(self.lanes, self.ranks, &inspect) {
            found.push(inspected?);
        }
        let holder = |copies: &Vec<&ToldRecord>| match copies.first() {
            Some((claim, _)) => self.nodes[claim.holder].0.clone(),
            None => String::new(),
        };
        let hosts: Vec<String> = of_owner.iter().map(holder).collect();
        let case = Case { chosen, facts: &facts, hosts: &hosts };
        let parts: Vec<Part> = found.iter().map(|one| one.part).collect();
        let rounds = match plan_sets(&facts, &parts) {
            Ok(rounds) => rounds,
            Err(reason) => return Ok(Err(reason)),
        };
        let is_lost = |rank: &usize| parts[*rank] == Part::Lost;
        for mut round in rounds {
            round.retain(|set| self.only.is_some() || set.iter().any(is_lost));
            // Each member is a thread; few sets at a time keep as many files in reading.
            let members = round.iter().map(Vec::len).max().unwrap_or(1);
            let lanes = Lanes { width: (self.lanes.width / members).max(1), ..self.lanes };
            let rebuild = |at: usize| {
                let layouts = round[at].iter().map(|rank| match of_owner[*rank].first() {
                    Some((claim, _)) => &self.nodes[claim.holder].1,
                    None => &self.spare,
                });
                self.rebuild_set(&case, &round[at], &layouts.collect::<Vec<_>>(), &found)
            };
            let rebuilt = in_lanes(lanes, round.len(), &rebuild);
            for (set, records) in round.iter().zip(rebuilt) {
                match records? {
                    Ok(records) => {
                        for (rank, record) in set.iter().zip(records) {
                            found[*rank] = Inspected { record: Some(record), part: Part::Whole };
                        }
                    }
                    Err(reason) => return Ok(Err(reason)),
                }
            }
        }
        let wanted = found.into_iter().enumerate().filter(|(rank, _)| !self.leaves_out(*rank));
        let records: Option<Vec<DatasetRecord>> = wanted.map(|(_, one)| one.record).collect();
        Ok(records.ok_or_else(|| "a rank still has no record of it after the rebuild".into()))
    }

    fn leaves_out(&self, rank: usize) -> bool {
        self.only.is_some_and(|only| !only.ranks.contains(&rank))
    }

    fn inspect(&self, copies: &[&ToldRecord], encoding: u64) -> Result<Inspected> {
        let mut best = Inspected { record: None, part: Part::Lost };
        for (claim, (owner, record)) in copies {
            let layout = &self.nodes[claim.holder].1;
            let record = protect_anew::under(layout, *owner, record.clone(), encoding)?;
            let inspected = inspect_record(layout, record, encoding, Look::Content);
            if inspected.part != Part::Lost {
                return Ok(inspected);
            }
            best.record = best.record.or(inspected.record);
        }
        Ok(best)
    }

    /// Rebuilds one set, its members as threads. The inner error says why that is not possible.
    fn rebuild_set(
        &self,
        case: &Case,
        set: &[usize],
        layouts: &[&Layout],
        found: &[Inspected],
    ) -> Result<std::result::Result<Vec<DatasetRecord>, String>> {
        let played = ThreadWorld::new(set.len()).run(|comm| {
            block_signals();
            (self.lanes.enter)();
            let at = comm.rank();
            let own = &found[set[at]];
            let set = RedundancySet {
                comm: comm.into(),
                world_ranks: set.to_vec(),
                hosts: set.iter().map(|rank| case.hosts[*rank].clone()).collect(),
                group_id: set.iter().copied().min().unwrap_or(0),
                world_size: self.ranks,
                failures: case.facts.failures,
                piece_bytes: self.protection.piece_bytes(),
            };
            let keep = |_: &DatasetRecord| Ok(());
            rebuild_member(layouts[at], self.protection, case, &set, own, Look::Content, &keep)
        });
        let mut records = Vec::new();
        for (rank, result) in set.iter().zip(played.results) {
            // One that has not run was waited for in vain by the others: theirs says less.
            let died = || Error::Process(format!("no thread could stand for rank {rank}"));
            match result.ok_or_else(died)? {
                Ok(record) => records.push(record),
                Err(Error::Unrecoverable(why)) => return Ok(Err(why)),
                Err(error) => return Ok(Err(format!("rank {rank}: {error}"))),
            }
        }
        Ok(Ok(records))
    }
}
