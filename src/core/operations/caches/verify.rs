//! Whether what the caches of a run hold is what was sealed, on all its nodes, and its repair.

use std::collections::BTreeSet;

use super::ask::{ask_nodes, parsed};
use super::exchange::Exchange;
use super::question::Question;
use crate::cache::{
    Depth, Health, Judged, Mended, NodeState, NotMended, PartsWanted, Prospect, Put, judge,
};
use crate::error::{Error, Result};
use crate::launch::JobPlaces;
use crate::operations::prefix::{alone_on_prefix, state_dir};
use crate::operations::read_index;
use crate::operations::rescue::salvage::ADVICE;
use crate::operations::run::reach::Reach;
use crate::params::keys;
use crate::records::{FlushState, Record as _};
use crate::transfer::{Options, rebuild_parts};

/// What is to be looked at.
pub struct VerifyCaches<'a> {
    /// The nodes.
    pub reach: Reach<'a>,
    /// How closely.
    pub depth: Depth,
    /// Repair what can be repaired.
    pub repair: bool,
    /// Datasets by id or name; empty: all.
    pub wanted: &'a [String],
}

/// What was done about damage on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// A file is right now: dataset, node, file.
    Put(u64, String, Put),
    /// It is not right, for this reason.
    Left(u64, String, NotMended),
    /// A dataset could not be rebuilt, or a node could not take part; why.
    Failed(u64, String),
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Caches {
    /// Nodes of which some file is there.
    pub nodes: Vec<String>,
    /// Nodes that could not be asked, with the reason.
    pub silent: Vec<(String, String)>,
    /// Some node could be asked.
    pub answered: bool,
    /// The records of the run say that caches have what is nowhere else.
    pub expected: bool,
    /// Datasets, as they are after the repair.
    pub judged: Judged,
    /// Records and lists of ours that are damaged: node and sentence.
    pub damaged: Vec<(String, String)>,
    /// What was made for another prefix: node and sentence.
    pub left_out: Vec<(String, String)>,
    /// What was repaired, and what was not.
    pub repairs: Vec<Repair>,
    /// Datasets that the index of the prefix has, too.
    pub on_prefix: BTreeSet<u64>,
}

impl VerifyCaches<'_> {
    /// Looks, and repairs what is to be repaired.
    pub fn run(&self) -> Result<Caches> {
        let places = JobPlaces::new(self.reach.settings, self.reach.environment)?;
        let mut found = self.look(&places)?;
        let can = |one: &Health| one.troubles.iter().any(|trouble| trouble.repairable);
        if !self.repair || !found.judged.datasets.iter().any(can) {
            return Ok(found);
        }
        let of_it = |(at, _): &(usize, &String)| !found.judged.strange.contains(at);
        let nodes: Vec<String> =
            found.nodes.iter().enumerate().filter(of_it).map(|(_, node)| node.clone()).collect();
        let damaged: Vec<&Health> = found.judged.datasets.iter().filter(|one| can(one)).collect();
        let mend = || {
            let mut repairs = Vec::new();
            for one in &damaged {
                self.mend(&places, one, &nodes, &mut repairs)?;
            }
            Ok(repairs)
        };
        let repairs = match alone_on_prefix(&places.prefix, mend) {
            Err(Error::Busy(why)) => {
                let refused = damaged.iter().map(|one| Repair::Failed(one.id, why.clone()));
                found.repairs = refused.collect();
                return Ok(found);
            }
            done => done?,
        };
        found = self.look(&places)?;
        found.repairs = repairs;
        Ok(found)
    }

    fn look(&self, places: &JobPlaces) -> Result<Caches> {
        let mut found = self.look_once(places, self.depth)?;
        let named = |one: &Health| {
            let is_it = |word: &String| *word == one.id.to_string() || *word == one.key.name();
            self.wanted.is_empty() || self.wanted.iter().any(is_it)
        };
        found.judged.datasets.retain(named);
        if found.judged.datasets.iter().any(|one| one.prospect != Prospect::Right) {
            let now = self.look_once(places, Depth::Records)?.judged.datasets;
            let seal = |one: &Health| (one.id, one.epoch);
            let stays = |one: &Health| now.iter().any(|other| seal(other) == seal(one));
            found.judged.datasets.retain(|one| one.prospect == Prospect::Right || stays(one));
        }
        // What a damaged index has is not known.
        let index = read_index(&places.prefix).unwrap_or_default();
        let there = index.newest_first().filter(|entry| entry.is_restorable());
        found.on_prefix = there.map(|entry| entry.id).collect();
        Ok(found)
    }

    fn look_once(&self, places: &JobPlaces, depth: Depth) -> Result<Caches> {
        let names = self.reach.names(places);
        let question = Question::Look { depth, id: None, unsealed: false };
        let what = "looking at the nodes";
        let mut found = Caches { expected: expected(places), ..Caches::default() };
        let mut states = Vec::new();
        for (node, answer) in ask_nodes(&self.reach, places, &names, what, &question) {
            match parsed(answer, NodeState::from_tree) {
                Ok(state) => {
                    found.answered = true;
                    let damaged = state.damaged.iter().map(|what| (node.clone(), what.clone()));
                    found.damaged.extend(damaged);
                    let strange = state.strange.iter().map(|why| format!("{why}; {ADVICE}"));
                    found.left_out.extend(strange.map(|why| (node.clone(), why)));
                    if state.identity.is_empty() && state.parts.is_empty() {
                        continue;
                    }
                    found.nodes.push(node.clone());
                    states.push((node, state));
                }
                Err(error) => found.silent.push((node, error.to_string())),
            }
        }
        found.judged = judge(&states)?;
        for at in &found.judged.strange {
            let why = "it has the cache of another run".to_owned();
            found.silent.push((found.nodes[*at].clone(), why));
        }
        Ok(found)
    }

    fn mend(
        &self,
        places: &JobPlaces,
        one: &Health,
        nodes: &[String],
        repairs: &mut Vec<Repair>,
    ) -> Result<()> {
        let id = one.id;
        let struck = one.troubles.iter().filter(|trouble| trouble.repairable);
        let ranks: BTreeSet<usize> = struck.flat_map(|trouble| trouble.set.clone()).collect();
        let exchange = Exchange::new(&places.prefix)?;
        let folder = exchange.name().to_owned();
        let parts = Question::Parts { folder: folder.clone(), id, ranks: ranks.clone() };
        let what = "copying from the nodes";
        for (node, answer) in ask_nodes(&self.reach, places, nodes, what, &parts) {
            if let Err(error) = answer {
                repairs.push(Repair::Failed(id, format!("{node}: {error}")));
                return Ok(());
            }
        }
        let piece = usize::try_from(self.reach.settings.get(keys::MPI_BUF_SIZE));
        let lanes = Options::new(self.reach.settings).flush_width;
        let wanted = PartsWanted { id, ranks: &ranks };
        let rebuilt = rebuild_parts(exchange.path(), wanted, piece.unwrap_or(usize::MAX), lanes)?;
        if let Err(why) = rebuilt {
            repairs.push(Repair::Failed(id, why));
            return Ok(());
        }
        let struck: BTreeSet<&String> = one.troubles.iter().map(|trouble| &trouble.node).collect();
        let struck: Vec<String> = struck.into_iter().cloned().collect();
        let (what, question) = ("repairing on the nodes", Question::Mend { folder, id });
        for (node, answer) in ask_nodes(&self.reach, places, &struck, what, &question) {
            match parsed(answer, Mended::from_tree) {
                Ok(Mended { put, left }) => {
                    repairs.extend(put.into_iter().map(|one| Repair::Put(id, node.clone(), one)));
                    repairs.extend(left.into_iter().map(|one| Repair::Left(id, node.clone(), one)));
                }
                Err(error) => repairs.push(Repair::Failed(id, format!("{node}: {error}"))),
            }
        }
        Ok(())
    }
}

fn expected(places: &JobPlaces) -> bool {
    let path = state_dir(&places.prefix).join("flush.scr");
    match FlushState::read(&path) {
        Ok(state) => state.is_some_and(|state| state.unflushed().next().is_some()),
        Err(_) => true,
    }
}

impl Caches {
    /// Tells whether some dataset can be had neither from caches nor from the prefix. What silent
    /// nodes have is not lost.
    pub fn has_lost(&self) -> bool {
        let is_lost = |one: &Health| {
            let beyond = one.troubles.iter().any(|trouble| !trouble.repairable);
            matches!(one.prospect, Prospect::Lost(_))
                && (self.silent.is_empty() || beyond)
                && !self.on_prefix.contains(&one.id)
        };
        self.judged.datasets.iter().any(is_lost)
    }

    /// Tells whether the caches have dataset `id`, or can bring it back.
    pub fn can_give(&self, id: u64) -> bool {
        let can = |one: &Health| one.id == id && !matches!(one.prospect, Prospect::Lost(_));
        self.judged.datasets.iter().any(can)
    }

    /// Tells whether something is damaged.
    pub fn has_damage(&self) -> bool {
        let is_wrong = |one: &Health| {
            !one.troubles.is_empty() || (self.silent.is_empty() && one.prospect != Prospect::Right)
        };
        self.judged.datasets.iter().any(is_wrong) || !self.damaged.is_empty()
    }

    /// Tells whether nodes that may have something could not be asked.
    pub fn is_incomplete(&self) -> bool {
        !self.silent.is_empty() && (self.expected || !self.nodes.is_empty() || !self.answered)
    }
}
