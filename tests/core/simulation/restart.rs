//! A restart: what is found, what is offered, and the promises checked against it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use scr_core::session::machine::{
    DatasetKey, FoundRecord, Machine, MachineConfig, Offer, RankRecords, RecordState, Rejection,
    RestartDecision, RestoredFiles, Resumed, choose_restart,
};

use super::Fault;
use super::cluster::{Content, Copy, Files, Record};
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
        let mut decision = choose_restart(&self.found());
        let mut restored = Vec::new();
        for offer in decision.offered.clone() {
            match self.restore_parts(&offer) {
                Some(parts) => restored.push(Restored { offer, parts }),
                None => {
                    decision.reject(offer.id, Rejection::Unrecoverable);
                    let again = decision.offered.iter().find(|other| other.key == offer.key);
                    if let Some(parts) = again.and_then(|again| self.restore_parts(again)) {
                        let offer = Offer { on_prefix: true, ..offer };
                        restored.push(Restored { offer, parts });
                    }
                }
            }
        }
        trace!(self, "== restart: {decision:?}, lost nodes {:?}", self.cluster.lost);
        let mut visible = self.cluster.pfs.clone();
        visible.retain(|name, _| !name.ends_with(".tmp"));
        for dataset in &restored {
            visible.extend(dataset.files());
        }
        self.check_offers(&restored)?;
        self.check_called_offered(&restored)?;
        self.check_pointer(&restored, &visible)?;
        self.call_offered(&restored);
        let step = self.step_to_go_on_from(&visible);
        trace!(self, "== the program goes on from {step}");
        self.place(&restored, &decision);
        self.launch += 1;
        self.start(&decision, &restored, &visible, step);
        Ok(())
    }

    /// All ranks' records.
    fn found(&self) -> Vec<RankRecords> {
        let nodes = &self.cluster.nodes;
        let records = nodes.iter().flat_map(|node| node.records.keys());
        let copies = nodes.iter().flat_map(|node| node.copies.keys());
        let keys: BTreeSet<&DatasetKey> = records.chain(copies).map(|(_, key)| key).collect();
        let ranks = 0..self.ranks.len();
        ranks
            .map(|rank| RankRecords {
                lost: self.cluster.is_lost(rank) && self.fault != Some(Fault::CountProvisional),
                records: keys.iter().filter_map(|key| self.found_record(rank, key)).collect(),
            })
            .collect()
    }

    fn found_record(&self, rank: usize, key: &DatasetKey) -> Option<FoundRecord> {
        let record = self.cluster.record(rank, key)?;
        let mixed = self.fault == Some(Fault::MixEpochs) && record.state == RecordState::Prepared;
        Some(FoundRecord {
            key: key.clone(),
            id: record.id,
            number: record.number,
            epoch: if mixed { 1 } else { record.epoch },
            state: record.state,
            confirmed: record.confirmed || self.cluster.has_marker(key, record.epoch),
            survived: record.survived,
            on_prefix: record.on_prefix,
            flushed: self.cluster.index.contains(&(key.clone(), record.epoch)),
        })
    }

    /// The files of an offered dataset by rank; `None` if they cannot be rebuilt, or if those on
    /// the PFS are not there any more.
    fn restore_parts(&self, offer: &Offer) -> Option<Vec<Files>> {
        let mut parts = match offer.on_prefix {
            true => vec![Files::new(); self.ranks.len()],
            false => self.cluster.rebuild(&offer.key, offer.epoch)?,
        };
        for (rank, part) in parts.iter_mut().enumerate() {
            let Some(record) = self.cluster.record(rank, &offer.key) else { continue };
            let names = record.files.iter();
            for (name, _) in names.filter(|(_, on_prefix)| *on_prefix || offer.on_prefix) {
                part.insert(name.clone(), *self.cluster.pfs.get(name)?);
            }
        }
        Some(parts)
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
            if datasets.iter().any(|dataset| self.is_on_prefix(dataset)) {
                continue;
            }
            let mut files = self.base(id);
            datasets.iter().for_each(|dataset| files.extend(dataset.files()));
            files.retain(|name, _| self.belongs(name, id));
            if self.truth.find(&files).is_none() {
                return Err(format!(
                    "promise 1: {:?} is offered as complete, but no complete checkpoint is {files:?}",
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
        let records = (0..self.ranks.len()).filter_map(|rank| self.cluster.record(rank, key));
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
            let replaced =
                content.whole && newer && (same_names || seen.launch > content.launch);
            if *seen != content && !replaced {
                return Err(format!(
                    "promise 1: {:?} is offered with {name} as {content:?}, the program left {seen:?}",
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
                let record = self.cluster.record(rank, &called.key);
                record.is_some_and(|record| record.files.iter().any(|(_, prefix)| !prefix))
            });
            let found = found && cached;
            let rebuilt = self.cluster.rebuild(&called.key, called.epoch).filter(|_| found);
            let flushed = self.cluster.index.contains(&sealed) && !self.was_deleted(checkpoint);
            let in_place = !self.style.series.has_id && self.in_place;
            if rebuilt.is_some() || (flushed && !in_place) {
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
        if pointer.whole && self.truth.find(&files).is_some() {
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

    /// Gives every rank a node and its parts, with fresh redundancy.
    fn place(&mut self, restored: &[Restored], decision: &RestartDecision) {
        let old = self.cluster.clone();
        let mut nodes: Vec<usize> = (0..old.nodes.len()).collect();
        if self.rng.bool() {
            self.rng.shuffle(&mut nodes);
        }
        self.cluster.node_of = old.node_of.iter().map(|node| nodes[*node]).collect();
        self.cluster.nodes.iter_mut().for_each(|node| *node = Default::default());
        self.cluster.lost.clear();
        for dataset in restored {
            self.place_dataset(dataset, &old);
        }
        for rejected in &decision.rejected {
            let offered = decision.offered.iter().any(|offer| offer.key == rejected.key);
            for rank in (0..self.ranks.len()).filter(|_| !offered) {
                if let Some(record) = old.record(rank, &rejected.key) {
                    let record = Record { state: RecordState::Invalid, ..record.clone() };
                    let part = (rank, rejected.key.clone());
                    self.cluster.node(rank).records.insert(part, record);
                }
            }
        }
    }

    fn place_dataset(&mut self, dataset: &Restored, old: &super::cluster::Cluster) {
        let offer = &dataset.offer;
        for rank in 0..self.ranks.len() {
            let part = (rank, offer.key.clone());
            let before = old.record(rank, &offer.key).map(|record| record.files.clone());
            let mut before = before.unwrap_or_default();
            before.iter_mut().for_each(|(_, on_prefix)| *on_prefix |= offer.on_prefix);
            let record = Record {
                id: offer.id,
                number: offer.number,
                epoch: offer.epoch,
                state: RecordState::Prepared,
                confirmed: offer.confirmed,
                survived: true,
                on_prefix: offer.on_prefix,
                files: before,
            };
            if !offer.on_prefix {
                let cached: Files = dataset.parts[rank]
                    .iter()
                    .filter(|(name, _)| {
                        record.files.iter().any(|(file, prefix)| file == *name && !prefix)
                    })
                    .map(|(name, content)| (name.clone(), *content))
                    .collect();
                self.cluster.node(rank).files.insert(part.clone(), cached);
            }
            self.cluster.node(rank).records.insert(part, record);
            if offer.confirmed {
                self.cluster.node(rank).markers.insert(offer.key.clone(), offer.epoch);
            }
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
        self.wrong_rank = self.rng.usize(..count);
        self.ranks = (0..count)
            .map(|rank| {
                let series = vec![self.style.series.clone()];
                let mut config = MachineConfig::new(rank, self.cluster.node_of.clone(), series);
                config.unsealed_ms = 1_000;
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
                }
            })
            .collect();
    }

    fn resumed(&self, rank: usize, decision: &RestartDecision, restored: &[Restored]) -> Resumed {
        let own = decision.offered.iter().map(|offer| {
            let dataset = restored.iter().find(|dataset| dataset.offer.id == offer.id);
            let record = self.cluster.record(rank, &offer.key);
            let Some((dataset, record)) = dataset.zip(record) else {
                return RestoredFiles::default();
            };
            let files = dataset.parts[rank].keys().map(|name| {
                let masked = match name.split_once('/') {
                    Some((_, last)) if self.style.series.has_id => format!("{{id}}/{last}"),
                    _ => name.clone(),
                };
                let on_prefix = offer.on_prefix
                    || record.files.iter().any(|(file, on_prefix)| file == name && *on_prefix);
                (name.clone(), masked, 1, on_prefix)
            });
            RestoredFiles { files: files.collect() }
        });
        Resumed {
            decision: decision.clone(),
            own: own.collect(),
            last_id: 0,
            last_numbers: Vec::new(),
        }
    }
}
