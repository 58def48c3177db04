//! A restart: what is found, what is offered, and the promises checked against it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use scr_core::cache::{Decision, Verdict, decide};
use scr_core::session::machine::{
    DatasetKey, Machine, MachineConfig, Offer, Rejected, RestartDecision, RestoredFiles, Resumed,
};

use super::Fault;
use super::cluster::{Content, Copy, Files, Record, Stage};
use super::job::{Checked, Rank, Sim, Task, trace};
use super::style::{Op, Style};
use super::truth::{Called, Checkpoint};

/// An offered dataset with the files that its ranks get.
struct Restored {
    offer: Offer,
    /// By rank; those on the PFS too.
    parts: Vec<Files>,
}

impl Restored {
    fn files(&self) -> Files {
        self.parts.iter().flatten().map(|(name, content)| (name.clone(), *content)).collect()
    }
}

impl Sim {
    /// Starts the first launch.
    pub fn first_launch(&mut self) {
        self.start(&RestartDecision::default(), &[], &Files::new(), 0);
    }

    /// Everything from the crash to the start of the next launch.
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
        self.check_offers(&restored)?;
        self.check_called_offered(&restored)?;
        self.check_pointer(&restored, &visible)?;
        self.check_told(&visible)?;
        self.call_offered(&restored);
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
            let key = DatasetKey::new(0, judged.key.id.clone(), judged.key.generation);
            let careless = self.fault == Some(Fault::CountProvisional);
            let part = match judged.verdict {
                Verdict::Restore => self.restore_dataset(&key, &judged),
                Verdict::Withhold(_) if careless => self.restore_dataset(&key, &judged),
                Verdict::Withhold(_) => None,
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
        let mut parts = match on_prefix {
            true => vec![Files::new(); self.ranks.len()],
            false => self.cluster.rebuild(key, epoch)?,
        };
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
            on_prefix,
            flushed: false,
        };
        Some(Restored { offer, parts })
    }

    /// Promise 1: what is offered is what the program wrote in one complete checkpoint. For
    /// provisional datasets: what the program would find there if it had written them to a disk.
    fn check_offers(&self, restored: &[Restored]) -> Checked {
        let mut groups: BTreeMap<&str, Vec<&Restored>> = BTreeMap::new();
        for dataset in restored {
            groups.entry(&dataset.offer.key.id).or_default().push(dataset);
        }
        for (id, datasets) in groups {
            let Some(top) = datasets.last() else { continue };
            if !top.offer.confirmed {
                self.check_provisional(top)?;
                continue;
            }
            // What the program changes in place on the PFS has one version only, as without us.
            let in_place = !self.style.series.has_id && self.in_place;
            if in_place || datasets.iter().any(|dataset| self.is_on_prefix(dataset)) {
                continue;
            }
            let mut files = self.base(id);
            datasets.iter().for_each(|dataset| files.extend(dataset.files()));
            files.retain(|name, _| self.belongs(name, id));
            if self.truth.find(&files).is_none() {
                return Err(format!(
                    "promise 1: {:?} is offered as complete, but no complete one is {files:?}",
                    top.offer
                ));
            }
        }
        Ok(())
    }

    /// The names that no dataset holds: what is on the PFS, for series without ids.
    fn base(&self, id: &str) -> Files {
        let mut files = Files::new();
        if !self.style.series.has_id {
            files = self.cluster.pfs.clone();
            files.retain(|name, _| self.belongs(name, id));
        }
        files
    }

    /// Some of its files are on the PFS only: versions are the program's own business there.
    fn is_on_prefix(&self, dataset: &Restored) -> bool {
        let key = &dataset.offer.key;
        let epoch = dataset.offer.epoch;
        let ranks = 0..self.ranks.len();
        let records = ranks.filter_map(|rank| self.cluster.record(rank, key, epoch));
        let mut files = records.flat_map(|record| &record.files);
        dataset.offer.on_prefix || files.any(|(_, on_prefix)| *on_prefix)
    }

    fn check_provisional(&self, dataset: &Restored) -> Checked {
        if self.is_on_prefix(dataset) {
            return Ok(());
        }
        for (name, content) in dataset.files() {
            let Some(seen) = self.ranks[Style::owner(&name)].sees.get(&name) else { continue };
            // The next checkpoint may have the same names, as one that is written again in a later
            // launch has: what it overwrote is offered.
            let newer = (seen.launch, seen.step) > (content.launch, content.step);
            let same_names = !self.style.series.has_id || name == "latest";
            let replaced = content.stage != Stage::Torn
                && newer
                && (same_names || seen.launch > content.launch);
            if *seen != content && !replaced {
                return Err(format!(
                    "promise 1: {:?} is offered with {name} as {content:?}, not {seen:?}",
                    dataset.offer,
                ));
            }
        }
        Ok(())
    }

    /// Every complete checkpoint that the program could go back to, newest last.
    fn reachable(&self, restored: &[Restored]) -> BTreeSet<Checkpoint> {
        let mut reachable = BTreeSet::new();
        let mut layers: BTreeMap<&str, Files> = BTreeMap::new();
        for name in self.cluster.pfs.keys() {
            let id = name.split_once('/').map_or("", |(id, _)| id);
            let id = if self.style.series.has_id { id } else { "" };
            layers.entry(id).or_default();
        }
        for (id, files) in &mut layers {
            *files = self.cluster.pfs.clone();
            files.retain(|name, _| self.belongs(name, id));
            reachable.extend(self.truth.find(files));
        }
        for dataset in restored {
            let id = dataset.offer.key.id.as_str();
            let files = layers.entry(id).or_insert_with(|| self.base(id));
            files.extend(dataset.files());
            files.retain(|name, _| self.belongs(name, id));
            reachable.extend(self.truth.find(files));
        }
        reachable
    }

    /// Promise 2: the newest dataset that we called complete and that the scheme covers (or that is
    /// on the PFS) is offered, or a newer one.
    fn check_called_offered(&mut self, restored: &[Restored]) -> Checked {
        let reachable = self.reachable(restored);
        while let Some(called) = self.truth.called.last() {
            let Some(checkpoint) = called.checkpoint else {
                self.truth.called.pop();
                continue;
            };
            if reachable.last().is_some_and(|newest| *newest >= checkpoint) {
                return Ok(());
            }
            let sealed = (called.key.clone(), called.epoch);
            let found = (0..self.ranks.len()).any(|rank| self.sealed(rank, &called.key) == sealed);
            let cached = (0..self.ranks.len()).any(|rank| {
                let record = self.cluster.record(rank, &called.key, called.epoch);
                record.is_some_and(|record| record.files.iter().any(|(_, prefix)| !prefix))
            });
            let found = found && cached;
            let rebuilt = self.cluster.rebuild(&called.key, called.epoch).filter(|_| found);
            let flushed = self.cluster.index.contains(&sealed) && !self.was_deleted(checkpoint);
            let in_place = !self.style.series.has_id && self.in_place;
            if (rebuilt.is_some() || flushed) && !in_place {
                return Err(format!(
                    "promise 2: {called:?} was called complete and is covered, but all that the \
                     program can go back to is {reachable:?}"
                ));
            }
            self.truth.called.pop();
        }
        Ok(())
    }

    /// What is offered as complete counts as called complete from now on, even if the crash came
    /// before any rank heard the outcome of the seal.
    fn call_offered(&mut self, restored: &[Restored]) {
        let last = self.truth.called.last().map(|called| called.key.clone());
        let last = restored.iter().find(|dataset| Some(&dataset.offer.key) == last.as_ref());
        let last = last.map_or(0, |dataset| dataset.offer.id);
        let newer = restored.iter().filter(|dataset| dataset.offer.id > last);
        for dataset in newer.filter(|dataset| dataset.offer.confirmed) {
            let (key, epoch) = (dataset.offer.key.clone(), dataset.offer.epoch);
            let sealed = |called: &Called| (&called.key, called.epoch) == (&key, epoch);
            if !self.truth.called.iter().any(sealed) {
                self.truth.called.push(Called { key, epoch, checkpoint: None });
            }
        }
    }

    fn was_deleted(&self, checkpoint: Checkpoint) -> bool {
        let files = self.truth.files(checkpoint);
        files.keys().any(|name| self.truth.deleted.contains(name))
    }

    /// A pointer file never points past a roll-back.
    fn check_pointer(&self, restored: &[Restored], visible: &Files) -> Checked {
        let holds = |dataset: &&Restored| dataset.files().contains_key("latest");
        let Some(holder) = restored.iter().rfind(holds) else { return Ok(()) };
        if !holder.offer.confirmed || self.is_on_prefix(holder) {
            return Ok(());
        }
        let pointer = visible.get("latest").copied().unwrap_or(Content::GARBAGE);
        let id = pointer.step.to_string();
        let mut files = visible.clone();
        files.retain(|name, _| self.belongs(name, &id));
        if pointer.stage == Stage::Final && self.truth.find(&files).is_some() {
            return Ok(());
        }
        Err(format!("promise 1: `latest` is {pointer:?}, but that checkpoint is {files:?}"))
    }

    /// Without collectives the PFS looks as it did without us, some time ago: its pointer file
    /// names a checkpoint that is there.
    fn check_told(&self, visible: &Files) -> Checked {
        let Some(pointer) = visible.get("latest").filter(|_| self.style.mute.is_some()) else {
            return Ok(());
        };
        let mut files = visible.clone();
        files.retain(|name, _| self.belongs(name, &pointer.step.to_string()));
        if pointer.stage != Stage::Final || self.truth.find(&files).is_some() {
            return Ok(());
        }
        Err(format!("promise 1: `latest` is {pointer:?}, but that checkpoint is {files:?}"))
    }

    /// The newest step whose files the program finds complete.
    fn step_to_go_on_from(&self, visible: &Files) -> u32 {
        if !self.style.series.has_id {
            return visible.values().map(|content| content.step).max().unwrap_or(0);
        }
        let steps: BTreeSet<u32> =
            visible.keys().filter_map(|name| name.split_once('/')?.0.parse().ok()).collect();
        let complete = |step: &&u32| {
            let id = step.to_string();
            let mut files = visible.clone();
            files.retain(|name, _| self.belongs(name, &id));
            self.truth.find(&files).is_some()
        };
        steps.iter().rev().find(complete).copied().unwrap_or(0)
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
        if offer.on_prefix {
            return;
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

    /// Starts the ranks of a launch.
    fn start(
        &mut self,
        decision: &RestartDecision,
        restored: &[Restored],
        visible: &Files,
        step: u32,
    ) {
        let count = self.cluster.node_of.len();
        let mut base = visible.clone();
        base.retain(|name, _| self.belongs(name, ""));
        self.truth.start(base);
        self.collectives.clear();
        self.released = 0;
        self.moves.clear();
        self.wrong_rank = self.rng.usize(..count);
        self.ranks = (0..count)
            .map(|rank| {
                let series = vec![self.style.series.clone()];
                let mut config = MachineConfig::new(rank, self.cluster.node_of.clone(), series);
                config.unsealed_ms = self.style.unsealed_ms;
                let knowledge = self.cluster.knowledge.get(rank).cloned().unwrap_or_default();
                let mut machine = Machine::new(config, &knowledge, self.clock_ms);
                machine.resume(&self.resumed(rank, decision, restored));
                let own = visible.iter().filter(|(name, _)| Style::owner(name) == rank);
                let own: Files = own.map(|(name, content)| (name.clone(), *content)).collect();
                let mut ops = VecDeque::new();
                if self.style.consume && step > 0 {
                    let files = (0..self.style.files).map(|file| self.style.file(rank, step, file));
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
                    ending: false,
                    told: 0,
                    looked_ms: self.clock_ms,
                    moves: 0,
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
                let masked = match name.split_once('/') {
                    Some((_, last)) if self.style.series.has_id => format!("{{id}}/{last}"),
                    _ => name.clone(),
                };
                let files = &mut record.files.iter();
                let on_prefix = files.any(|(file, on_prefix)| file == name && *on_prefix);
                (name.clone(), masked, 1, on_prefix)
            });
            RestoredFiles { files: files.collect() }
        });
        let flushed = restored.iter().filter(|dataset| dataset.offer.flushed);
        let listed = flushed.map(|dataset| (0, dataset.offer.key.id.clone(), dataset.offer.id));
        Resumed {
            decision: decision.clone(),
            own: own.collect(),
            listed: listed.collect(),
            ..Resumed::default()
        }
    }
}
