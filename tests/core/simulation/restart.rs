//! A restart: what is found, what is offered, and the promises checked against it.

use std::collections::{BTreeMap, VecDeque};

use scr_core::cache::{Decision, Verdict, decide};
use scr_core::machine::{
    DatasetKey, Machine, MachineConfig, Offer, Rejected, RestartDecision, RestoredFiles, Resumed,
};

use super::Fault;
use super::cluster::{Content, Copy, Files, Part, Record};
use super::job::{Checked, Rank, Sim, Task, trace};
use super::series::{NAMES, owner};
use super::style::Op;

/// An offered dataset with the files that its ranks get.
pub struct Restored {
    pub offer: Offer,
    /// By rank; those on the PFS too.
    pub parts: Vec<Files>,
}

impl Restored {
    pub fn files(&self) -> Files {
        self.parts.iter().flatten().map(|(name, content)| (name.clone(), *content)).collect()
    }
}

impl Sim {
    pub fn first_launch(&mut self) {
        self.start(&RestartDecision::default(), &[], &Files::new(), 0);
    }

    pub fn restart(&mut self) -> Checked {
        if let Some(journal) = self.cluster.journal.take() {
            journal.staged.into_iter().for_each(|files| self.cluster.pfs.extend(files));
            self.cluster.index.extend(journal.key);
        }
        let (restored, decision) = self.rebuild();
        trace!(self, "== restart: {decision:?}, lost nodes {:?}", self.cluster.lost);
        let mut visible = self.cluster.pfs.clone();
        visible.retain(|name, _| !name.ends_with(".tmp"));
        for dataset in &restored {
            visible.extend(dataset.files());
        }
        self.check_restart(&restored, &visible)?;
        let all = |file: &(&String, &Content)| {
            self.truth.iter().any(|truth| truth.discarded.get(file.0) == Some(file.1))
        };
        if let Some((name, _)) = visible.iter().find(all) {
            return Err(format!("promise 1: {name}, which was thrown away, is there again"));
        }
        let step = self.step_to_go_on_from(&visible);
        trace!(self, "== the program goes on from {step}");
        self.place(&restored);
        self.launch += 1;
        self.start(&decision, &restored, &visible, step);
        Ok(())
    }

    /// Judges all records as the rebuild does, and rebuilds what counts.
    fn rebuild(&mut self) -> (Vec<Restored>, RestartDecision) {
        let mut claims = self.cluster.claims();
        self.cluster.read_stale();
        if self.fault == Some(Fault::MixEpochs) {
            claims.iter_mut().filter(|claim| claim.prepared).for_each(|claim| claim.epoch = 1);
        }
        let mut decision = RestartDecision {
            last_id: claims.iter().map(|claim| claim.id).max().unwrap_or(0),
            ..RestartDecision::default()
        };
        let mut restored = Vec::new();
        for judged in decide(&claims, self.ranks.len()) {
            let series = NAMES.iter().position(|name| *name == judged.key.series).unwrap_or(0);
            let key = DatasetKey::new(series, judged.key.id.clone(), judged.key.generation);
            let careless = self.fault == Some(Fault::CountProvisional);
            let part = match judged.verdict {
                Verdict::Restore => self.restore_dataset(&key, &judged),
                Verdict::Withhold(_) if careless => self.restore_dataset(&key, &judged),
                Verdict::Withhold(_) | Verdict::Strange => None,
                Verdict::Delete(_) | Verdict::Forget => {
                    self.cluster.remove_seal(&key, judged.id, judged.epoch);
                    continue;
                }
            };
            match part {
                Some(part) => restored.push(part),
                None => decision.rejected.push(Rejected { key, id: judged.id }),
            }
        }
        self.find_flushed(&mut restored);
        decision.offered = restored.iter().map(|dataset| dataset.offer.clone()).collect();
        (restored, decision)
    }

    /// The index is believed only where the files are as it says, or were replaced by those of a
    /// newer dataset of the same names of which it is true.
    fn find_flushed(&self, restored: &mut [Restored]) {
        let mut newer: Vec<(DatasetKey, Files)> = Vec::new();
        for dataset in restored.iter_mut().rev() {
            let (key, files) = (dataset.offer.key.clone(), dataset.files());
            let same_group = |(other, _): &&(DatasetKey, Files)| other.same_group(&key);
            let replaced = |name: &String| {
                newer.iter().filter(same_group).any(|(_, files)| files.contains_key(name))
            };
            let listed = self.cluster.index.contains(&(key.clone(), dataset.offer.epoch));
            dataset.offer.flushed = listed
                && files.iter().all(|(name, content)| {
                    replaced(name) || self.cluster.pfs.get(name) == Some(content)
                });
            if dataset.offer.flushed {
                newer.push((key, files));
            }
        }
    }

    /// The files of a dataset that counts; `None` if they cannot be rebuilt, or if those on the PFS
    /// are not there any more.
    fn restore_dataset(&self, key: &DatasetKey, judged: &Decision) -> Option<Restored> {
        let ranks = 0..self.ranks.len();
        let own = ranks.clone().filter_map(|rank| self.cluster.own_record(rank, key));
        let record = own.clone().find(|record| record.id == judged.id && record.prepared)?;
        let epoch = if judged.epoch == 1 { record.epoch } else { judged.epoch };
        let records = ranks.clone().filter_map(|rank| self.cluster.record(rank, key, epoch));
        let names = || records.clone().flat_map(|record| &record.files);
        let on_prefix = names().all(|(_, on_prefix)| *on_prefix) && names().next().is_some();
        // Also of one that is all on the PFS: what is there of it only the ranks' records tell, and
        // the scheme brings back a lost one or nothing.
        let mut parts = self.cluster.rebuild(key, epoch)?;
        if !judged.confirmed && self.is_outdated(key, judged.id, &parts) {
            return None;
        }
        for (rank, part) in parts.iter_mut().enumerate() {
            let Some(record) = self.cluster.record(rank, key, epoch) else { continue };
            for (name, _) in record.files.iter().filter(|(_, on_prefix)| *on_prefix) {
                part.insert(name.clone(), *self.cluster.pfs.get(name)?);
            }
        }
        let offer = Offer {
            key: key.clone(),
            id: judged.id,
            number: record.number,
            epoch,
            confirmed: judged.confirmed,
            output: false,
            on_prefix,
            flushed: false,
        };
        Some(Restored { offer, parts })
    }

    /// As `cache/restart/on_prefix.rs` has it: what is offered would hide newer contents on the
    /// PFS, and no newer generation rests on it.
    fn is_outdated(&self, key: &DatasetKey, id: u64, parts: &[Files]) -> bool {
        let mut records = self.cluster.nodes.iter().flat_map(|node| &node.records);
        let series = &self.style.series[key.series];
        let has_newer = |(name, content): (&String, &Content)| {
            let there = self.cluster.pfs.get(name);
            !series.id(name).is_empty() && there.is_some_and(|there| there > content)
        };
        let rests = |((_, other), record): (&Part, &Record)| {
            other.same_group(key) && record.id > id && record.prepared
        };
        series.rule.has_id && !records.any(rests) && parts.iter().flatten().any(has_newer)
    }

    /// Gives every rank a node and its parts, with fresh redundancy. What is not offered stays
    /// where it is.
    fn place(&mut self, restored: &[Restored]) {
        let old = self.cluster.clone();
        let mut nodes: Vec<usize> = (0..old.nodes.len()).collect();
        if self.rng.bool() {
            self.rng.shuffle(&mut nodes);
        }
        self.cluster.node_of = old.node_of.iter().map(|node| nodes[*node]).collect();
        self.cluster.lost.clear();
        for dataset in restored {
            self.cluster.remove(&dataset.offer.key);
            self.place_dataset(dataset, &old);
        }
    }

    fn place_dataset(&mut self, dataset: &Restored, old: &super::cluster::Cluster) {
        let offer = &dataset.offer;
        for rank in 0..self.ranks.len() {
            let part = (rank, offer.key.clone());
            let before =
                old.record(rank, &offer.key, offer.epoch).map(|record| record.files.clone());
            let record = Record {
                id: offer.id,
                number: offer.number,
                epoch: offer.epoch,
                prepared: true,
                files: before.unwrap_or_default(),
            };
            let is_cached = |name: &String| {
                record.files.iter().any(|(file, on_prefix)| file == name && !on_prefix)
            };
            let cached = dataset.parts[rank].iter().filter(|(name, _)| is_cached(name));
            let cached: Files = cached.map(|(name, content)| (name.clone(), *content)).collect();
            let node = self.cluster.node(rank);
            node.files.insert(part.clone(), cached);
            node.records.insert(part, record);
            let markers = if offer.confirmed { &mut node.confirmed } else { &mut node.offered };
            markers.insert(offer.key.clone(), offer.epoch);
        }
        for rank in 0..self.ranks.len() {
            let Some(right) = self.cluster.right(rank) else { continue };
            let part = (rank, offer.key.clone());
            let files = |sim: &mut Sim, rank: usize| {
                let part = (rank, offer.key.clone());
                sim.cluster.node(rank).files.get(&part).cloned().unwrap_or_default()
            };
            let others = self.cluster.set(rank).into_iter().filter(|other| *other != rank);
            let others = others.map(|other| (other, files(self, other))).collect();
            let record = self.cluster.node(rank).records[&part].clone();
            let copy = Copy { record, files: files(self, rank), others };
            self.cluster.node(right).copies.insert(part, copy);
        }
    }

    fn start(
        &mut self,
        decision: &RestartDecision,
        restored: &[Restored],
        visible: &Files,
        step: u32,
    ) {
        let count = self.cluster.node_of.len();
        for series in &self.style.series {
            let mut base = visible.clone();
            base.retain(|name, _| series.belongs(name, ""));
            self.truth[series.index].start(base);
        }
        self.collectives.clear();
        self.released = 0;
        self.moves.clear();
        self.wrong_rank = self.rng.usize(..count);
        self.breaks = None;
        if self.fails {
            let fails = *self.rng.choice(&[1, 2, 3, 4, 7, u32::MAX]).unwrap_or(&1);
            let breaks = self.rng.u8(..8) == 0;
            self.breaks = breaks.then(|| (self.rng.usize(..count), fails));
        }
        self.ranks = (0..count)
            .map(|rank| {
                let mut config =
                    MachineConfig::new(rank, self.cluster.node_of.clone(), self.style.rules());
                config.unsealed_ms = self.style.unsealed_ms;
                config.aside_bytes = self.style.aside.then_some(0);
                let knowledge = self.cluster.knowledge.get(rank).cloned().unwrap_or_default();
                let mut machine = Machine::new(config, &knowledge, self.clock_ms);
                machine.resume(&self.resumed(rank, decision, restored));
                let own = visible.iter().filter(|(name, _)| owner(name) == rank);
                let own: Files = own.map(|(name, content)| (name.clone(), *content)).collect();
                let mut ops = VecDeque::new();
                for series in self.style.due(step).filter(|series| series.consume) {
                    let files = (0..series.files).map(|file| series.file(rank, step, file));
                    ops.extend(files.map(Op::Delete));
                }
                Rank {
                    machine,
                    ops,
                    background: VecDeque::new(),
                    next_step: step + 1,
                    task: Task::Program,
                    passed: 0,
                    dead: false,
                    open: BTreeMap::new(),
                    sees: own,
                    reported: Files::new(),
                    ending: false,
                    told: 0,
                    looked_ms: self.clock_ms,
                    moves: 0,
                    encoding: BTreeMap::new(),
                }
            })
            .collect();
    }

    fn resumed(&self, rank: usize, decision: &RestartDecision, restored: &[Restored]) -> Resumed {
        let own = decision.offered.iter().map(|offer| {
            let dataset = restored.iter().find(|dataset| dataset.offer.id == offer.id);
            let record = self.cluster.record(rank, &offer.key, offer.epoch);
            let Some((dataset, record)) = dataset.zip(record) else {
                return RestoredFiles::default();
            };
            let files = dataset.parts[rank].keys().map(|name| {
                let masked = self.style.series[offer.key.series].masked(name);
                let files = &mut record.files.iter();
                let on_prefix = files.any(|(file, on_prefix)| file == name && *on_prefix);
                (name.clone(), masked, 1, on_prefix)
            });
            RestoredFiles { files: files.collect(), ..RestoredFiles::default() }
        });
        let flushed = restored.iter().filter(|dataset| dataset.offer.flushed);
        let listed = flushed.map(|dataset| {
            let offer = &dataset.offer;
            (offer.key.series, offer.key.id.clone(), offer.id)
        });
        Resumed {
            decision: decision.clone(),
            own: own.collect(),
            listed: listed.collect(),
            ..Resumed::default()
        }
    }
}
