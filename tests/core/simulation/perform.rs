//! What the runtime does for each step of a conference, in the order that the machine's head
//! demands; every local action and every collective is a micro-step of its own.

use scr_core::machine::{DatasetKey, Knowledge, Outcome, Reason, Report, SealPlan, Step};

use super::Fault;
use super::cluster::{Copy, Files, Journal, Record};
use super::job::{Checked, Kind, Moment, Part, Sim, Task, trace};

/// Whether a step waits in a collective at this stage.
pub fn waits(step: &Step, stage: u32) -> bool {
    match step {
        Step::Encode(_) => stage == 1,
        Step::Seal(_) => matches!(stage, 1 | 4 | 6),
        Step::Confirm { .. } => matches!(stage, 1 | 3),
        Step::Flush { .. } | Step::Spill { .. } => matches!(stage, 1 | 2),
        Step::Learned { .. } => stage == 1,
        _ => false,
    }
}

impl Sim {
    pub fn perform(&mut self, rank: usize, step: Step, stage: u32) -> Checked {
        match step.clone() {
            Step::Encode(plan) => return self.encode(rank, step, &plan.key, stage),
            Step::Discard { key, .. } => _ = self.ranks[rank].encoding.remove(&key),
            Step::Seal(plan) => return self.seal(rank, step, &plan, stage),
            Step::Confirm { key, .. } => return self.confirm(rank, step, &key, stage),
            Step::Flush { key, along, .. } => {
                let machine = &self.ranks[rank].machine;
                let files = machine.seal_files(&key).into_iter();
                let files = files.filter(|file| !machine.is_left_out(&key, &file.name));
                let own = (key.clone(), files.map(|file| file.name).collect());
                let mut parts = machine.files_along(&along, &key);
                parts.push(own);
                return self.flush(rank, step, &key, &parts, stage);
            }
            Step::Spill { key, files } => {
                return self.flush(rank, step, &key, &[(key.clone(), files)], stage);
            }
            Step::Learned { series } => return self.learned(rank, step, series, stage),
            Step::Evict { key, id } => {
                if stage == 0 {
                    self.check_eviction(rank, &key, id)?;
                    self.moment(rank, Moment::Evicted);
                    let (ending, series) = (self.ranks[rank].ending, key.series);
                    let files = self.cluster.node(rank).files.remove(&(rank, key));
                    if !ending {
                        self.truth[series].evicted.extend(files.unwrap_or_default());
                    }
                    return self.stage(rank, step, 1);
                }
                self.remove_records(rank, &key);
            }
            Step::Adopt { from, into, files, begin, revoke } => {
                self.adopt(rank, &from, &into, &files, begin, revoke);
            }
            Step::Drop { key, .. } | Step::GiveUp { key } => {
                if let Some(record) = self.cluster.node(rank).records.get_mut(&(rank, key)) {
                    record.prepared = false;
                    self.cluster.written(rank);
                }
            }
            Step::PublishDeletions { files, .. } => {
                for name in files {
                    self.cluster.pfs.remove(&name);
                }
            }
            Step::Trust { key, .. } => self.trust(rank, &key),
            Step::Halt { .. } => {}
        }
        self.done(rank, &step, Outcome::Done)
    }

    fn stage(&mut self, rank: usize, step: Step, stage: u32) -> Checked {
        self.ranks[rank].task = Task::Step(Box::new(step), stage);
        Ok(())
    }

    fn done(&mut self, rank: usize, step: &Step, outcome: Outcome) -> Checked {
        self.ranks[rank].machine.done(step, outcome);
        self.ranks[rank].task = Task::Steps;
        Ok(())
    }

    pub fn report(&mut self, rank: usize, entropy: u64) -> Report {
        let able = self.style.aside && self.rng.u8(..8) > 0;
        let machine = &mut self.ranks[rank].machine;
        machine.set_aside(able);
        let mut report = machine.report(entropy, self.clock_ms);
        if self.fault == Some(Fault::TakeSpoiled) {
            report.datasets.iter_mut().for_each(|dataset| dataset.encoding.spoiled = false);
        }
        if self.fault == Some(Fault::ForgetKept) {
            report.sealed.iter_mut().for_each(|sealed| sealed.news.kept = false);
        }
        report
    }

    /// What an encoding makes of this rank's files as they are now.
    fn read_files(&mut self, rank: usize, key: &DatasetKey) -> Part {
        let files = self.cached_files(rank, key);
        Part::Encode(files, self.names(rank, key))
    }

    fn encode(&mut self, rank: usize, step: Step, key: &DatasetKey, stage: u32) -> Checked {
        if stage == 0 {
            let own = if self.rng.u8(..40) == 0 { Outcome::Failed } else { Outcome::Done };
            self.enter(rank, Kind::Vote, Part::Word(own.to_word()))?;
            return self.stage(rank, step, 1);
        }
        let outcome = Outcome::from_word(self.leave_max(rank));
        if outcome == Outcome::Done {
            self.ranks[rank].encoding.insert(key.clone(), None);
        }
        self.done(rank, &step, outcome)
    }

    /// What a rank encodes beside its program comes to its end some time.
    pub fn encode_on(&mut self, rank: usize) {
        let encoding = self.ranks[rank].encoding.iter();
        let going = encoding.filter(|(_, part)| part.is_none()).map(|(key, _)| key.clone());
        for key in going.collect::<Vec<_>>() {
            if self.rng.u8(..12) == 0 {
                let part = self.read_files(rank, &key);
                self.ranks[rank].encoding.insert(key.clone(), Some(part));
                let well = self.rng.u8(..20) > 0;
                self.ranks[rank].machine.encoded(&key, well);
            }
        }
    }

    fn seal(&mut self, rank: usize, step: Step, plan: &SealPlan, stage: u32) -> Checked {
        match stage {
            0 => {
                if self.fault == Some(Fault::EvictBeforeConfirm) {
                    self.evict_older(rank, &plan.key);
                }
                let encoded = self.ranks[rank].encoding.remove(&plan.key).flatten();
                let part = encoded.unwrap_or_else(|| self.read_files(rank, &plan.key));
                self.enter(rank, Kind::Encode, part)?;
            }
            1 => {
                let parts = self.leave(rank);
                self.keep_copy(rank, plan, &parts);
            }
            2 => {
                let broken = self.is_broken(rank);
                if self.ranks[rank].machine.seal_record(&plan.key) && !broken {
                    self.check_id(&plan.key, plan.id)?;
                    self.write_record(rank, plan);
                    if self.fault == Some(Fault::TrustEarly) {
                        self.mark_trusted(rank, &plan.key, plan.epoch);
                    }
                }
            }
            3 => {
                let own = match self.rng.u8(..60) {
                    0 => Outcome::Failed,
                    _ if self.is_broken(rank) => Outcome::Failed,
                    _ => Outcome::Done,
                };
                let vote = self.ranks[rank].machine.vote(&step, own);
                let vote = if self.fault == Some(Fault::VoteBlindly) { own } else { vote };
                self.enter(rank, Kind::Vote, Part::Word(vote.to_word()))?;
            }
            4 => {
                let outcome = Outcome::from_word(self.leave_max(rank));
                if let (Some((broken, left)), Outcome::Failed) = (&mut self.breaks, outcome)
                    && *broken == rank
                {
                    *left = left.saturating_sub(1);
                }
                if outcome != Outcome::Done {
                    trace!(self, "{} r{rank} seal is void: {outcome:?}", self.clock_ms);
                    return self.done(rank, &step, outcome);
                }
                if !plan.confirmed {
                    return self.stage(rank, step, 5);
                }
                self.mark(rank, &plan.key, plan.epoch);
            }
            5 => self.enter(rank, Kind::Marked, Part::Nothing)?,
            _ => {
                self.leave(rank);
                if plan.confirmed {
                    self.check_called(rank, &plan.key)?;
                }
                return self.done(rank, &step, Outcome::Done);
            }
        }
        self.stage(rank, step, stage + 1)
    }

    /// The rank cannot write a record now.
    fn is_broken(&self, rank: usize) -> bool {
        self.breaks.is_some_and(|(broken, left)| broken == rank && left > 0)
    }

    fn confirm(&mut self, rank: usize, step: Step, key: &DatasetKey, stage: u32) -> Checked {
        match stage {
            0 => {
                let vote = self.ranks[rank].machine.vote(&step, Outcome::Done);
                self.enter(rank, Kind::Vote, Part::Word(vote.to_word()))?;
            }
            1 => {
                let outcome = Outcome::from_word(self.leave_max(rank));
                if outcome != Outcome::Done {
                    return self.done(rank, &step, outcome);
                }
                if self.fault == Some(Fault::NoSecondAllreduce) {
                    self.check_called(rank, key)?;
                    return self.done(rank, &step, Outcome::Done);
                }
                let (_, epoch) = self.sealed(rank, key);
                self.mark(rank, key, epoch);
            }
            2 => self.enter(rank, Kind::Marked, Part::Nothing)?,
            _ => {
                self.leave(rank);
                self.check_called(rank, key)?;
                return self.done(rank, &step, Outcome::Done);
            }
        }
        self.stage(rank, step, stage + 1)
    }

    /// The dataset was left alone by all ranks when they last reported: what it is then is what it
    /// may be offered as.
    fn trust(&mut self, rank: usize, key: &DatasetKey) {
        let sealed = self.sealed(rank, key);
        let seen = || self.ranks.iter().flat_map(|rank| rank.reported.clone()).collect();
        self.truth[key.series].trusted.entry(sealed.clone()).or_insert_with(seen);
        self.moment(rank, Moment::Marked);
        self.mark_trusted(rank, key, sealed.1);
    }

    fn mark_trusted(&mut self, rank: usize, key: &DatasetKey, epoch: u64) {
        self.cluster.node(rank).trusted.insert(key.clone(), epoch);
    }

    fn flush(
        &mut self,
        rank: usize,
        step: Step,
        key: &DatasetKey,
        parts: &[(DatasetKey, Vec<String>)],
        stage: u32,
    ) -> Checked {
        let spills = matches!(step, Step::Spill { .. });
        match stage {
            0 => {
                let mut files = Files::new();
                for (part, names) in parts {
                    let mut cached = self.cached_files(rank, part);
                    cached.retain(|name, _| names.contains(name));
                    files.extend(cached);
                }
                self.enter(rank, Kind::Staged, Part::Files(files))?;
            }
            1 => {
                let gathered = self.leave(rank);
                let mut staged: Vec<Files> = gathered.into_iter().filter_map(files_of).collect();
                // The program may have written one to the PFS since.
                let machine = &self.ranks[rank].machine;
                staged[rank].retain(|name, _| match spills {
                    true => machine.is_spilled(key, name),
                    false => !machine.is_left_out(key, name),
                });
                let own = staged[rank].clone();
                self.cluster.pfs.extend(own.clone());
                let series = key.series;
                let key = (!spills).then(|| self.sealed(rank, key));
                self.truth[series].in_place |= spills;
                let outcome = if spills { self.spilled(rank, parts) } else { Outcome::Done };
                let word = Part::Word(outcome.to_word());
                self.moment(rank, Moment::Published);
                let journal = self.cluster.journal.get_or_insert(Journal { key, staged });
                journal.staged[rank] = own;
                self.enter(rank, Kind::Published, word)?;
            }
            _ => {
                let outcome = Outcome::from_word(self.leave_max(rank));
                if !spills {
                    let sealed = self.sealed(rank, key);
                    self.cluster.index.insert(sealed);
                }
                self.cluster.journal = None;
                return self.done(rank, &step, if spills { outcome } else { Outcome::Done });
            }
        }
        self.stage(rank, step, stage + 1)
    }

    /// What a spill has written lies on the PFS from then on; the outcome on this rank.
    fn spilled(&mut self, rank: usize, parts: &[(DatasetKey, Vec<String>)]) -> Outcome {
        let [(key, names)] = parts else { return Outcome::Done };
        let machine = &mut self.ranks[rank].machine;
        for name in names {
            if machine.is_spilled(key, name) {
                machine.moved_to_prefix(key, name, Reason::NoRoom);
            }
        }
        if machine.has_cached(key) { Outcome::Touched } else { Outcome::Done }
    }

    fn learned(&mut self, rank: usize, step: Step, series: usize, stage: u32) -> Checked {
        if stage == 0 {
            self.enter(rank, Kind::Gather, Part::Nothing)?;
            return self.stage(rank, step, 1);
        }
        self.leave(rank);
        if rank == 0 {
            // What is equal on all ranks is as rank 0 knows it: others may be further.
            let habit = self.ranks[0].machine.knowledge(series).habit;
            for (known, rank) in self.cluster.knowledge.iter_mut().zip(&self.ranks) {
                known[series] = Knowledge { habit, ..rank.machine.knowledge(series) };
            }
        }
        self.done(rank, &step, Outcome::Done)
    }

    /// A sealed dataset, with the epoch in this rank's record.
    pub fn sealed(&self, rank: usize, key: &DatasetKey) -> (DatasetKey, u64) {
        let epoch = self.cluster.own_record(rank, key).map_or(0, |record| record.epoch);
        (key.clone(), epoch)
    }

    fn cached_files(&mut self, rank: usize, key: &DatasetKey) -> Files {
        let planned = self.ranks[rank].machine.seal_files(key);
        let held = self.cluster.node(rank).files.get(&(rank, key.clone()));
        let Some(held) = held else { return Files::new() };
        let cached = planned.into_iter().filter(|file| !file.on_prefix);
        cached
            .filter_map(|file| held.get(&file.name).map(|content| (file.name, *content)))
            .collect()
    }

    /// Keeps what the left neighbour's node may lose.
    fn keep_copy(&mut self, rank: usize, plan: &SealPlan, parts: &[Part]) {
        let set = self.cluster.set(rank);
        let Some(at) = set.iter().position(|member| *member == rank) else { return };
        let left = set[(at + set.len() - 1) % set.len()];
        if self.cluster.right(left) != Some(rank) {
            return;
        }
        let files = |member: usize| files_of(parts[member].clone()).unwrap_or_default();
        let others = set.iter().filter(|member| **member != left);
        let others = others.map(|member| (*member, files(*member))).collect();
        let Part::Encode(_, names) = parts[left].clone() else { return };
        let copy = Copy { record: prepared(plan, names), files: files(left), others };
        self.cluster.node(rank).copies.insert((left, plan.key.clone()), copy);
    }

    fn write_record(&mut self, rank: usize, plan: &SealPlan) {
        let record = prepared(plan, self.names(rank, &plan.key));
        self.moment(rank, Moment::Recorded);
        trace!(self, "{} r{rank} records {:?} as prepared", self.clock_ms, plan.key);
        self.cluster.node(rank).records.insert((rank, plan.key.clone()), record);
        self.cluster.written(rank);
    }

    /// The names of this rank's files in a dataset, with whether they lie on the PFS.
    fn names(&self, rank: usize, key: &DatasetKey) -> Vec<(String, bool)> {
        let files = self.ranks[rank].machine.seal_files(key);
        files.into_iter().map(|file| (file.name, file.on_prefix)).collect()
    }

    fn mark(&mut self, rank: usize, key: &DatasetKey, epoch: u64) {
        self.moment(rank, Moment::Marked);
        self.cluster.node(rank).confirmed.insert(key.clone(), epoch);
    }

    fn remove_records(&mut self, rank: usize, key: &DatasetKey) {
        let set = self.cluster.set(rank);
        self.cluster.forget(rank, key);
        let node = self.cluster.node(rank);
        node.confirmed.remove(key);
        node.offered.remove(key);
        node.trusted.remove(key);
        for member in set {
            node.copies.remove(&(member, key.clone()));
        }
    }

    /// What a careless runtime would do at the start of a seal.
    fn evict_older(&mut self, rank: usize, key: &DatasetKey) {
        let old = self.ranks[rank].machine.datasets(key.series).iter();
        let old = old.filter(|dataset| dataset.key != *key && dataset.id > 0);
        for key in old.map(|dataset| dataset.key.clone()).collect::<Vec<_>>() {
            self.cluster.node(rank).files.remove(&(rank, key.clone()));
            self.remove_records(rank, &key);
        }
    }

    fn adopt(
        &mut self,
        rank: usize,
        from: &DatasetKey,
        into: &DatasetKey,
        files: &[String],
        begin: bool,
        revoke: bool,
    ) {
        let node = self.cluster.node(rank);
        let part = (rank, into.clone());
        if begin && !node.records.contains_key(&part) {
            node.records.insert(part.clone(), Record::open());
        }
        if let Some(record) = node.records.get_mut(&part).filter(|_| revoke) {
            record.prepared = false;
        }
        let moved = node.files.remove(&(rank, from.clone())).unwrap_or_default();
        let moved = moved.into_iter().filter(|(name, _)| files.contains(name));
        node.files.entry(part).or_default().extend(moved);
        node.records.remove(&(rank, from.clone()));
        self.cluster.written(rank);
        for open in self.ranks[rank].open.values_mut() {
            if let super::job::OpenFile::Placed { key, .. } = open
                && key == from
            {
                *key = into.clone();
            }
        }
    }
}

fn files_of(part: Part) -> Option<Files> {
    match part {
        Part::Files(files) | Part::Encode(files, _) => Some(files),
        _ => None,
    }
}

fn prepared(plan: &SealPlan, files: Vec<(String, bool)>) -> Record {
    Record { id: plan.id, number: plan.number, epoch: plan.epoch, prepared: true, files }
}
