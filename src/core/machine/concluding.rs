//! What becomes of a step: the votes on a seal or a confirmation, and the changes that follow.

use std::collections::BTreeSet;

use super::conference::adopt::adopted;
use super::parts::Machine;
use super::state::{DatasetState, Deleted, FAILURES_MAX, LocalFile, Phase, Routing};
use super::terms::{CLEAN_SEALS, DatasetKey, Outcome, SealPlan, Step, set_hash};

impl Machine {
    /// Tells whether the record of a seal may be written now. Ask and write in one locked section:
    /// a later write of the program finds the record and revokes it.
    pub fn seal_record(&mut self, key: &DatasetKey) -> bool {
        let dataset = self.facts.local_mut(key);
        let quiet = dataset.phase == Phase::Open
            && !dataset.touched
            && dataset.why_invalid().is_none()
            && dataset.open_files() == 0;
        if quiet {
            dataset.prepared = true;
            dataset.begun = true;
        }
        quiet
    }

    /// Gives this rank's vote on a seal or a confirmation, `own` being how its part of the work
    /// went; all-reduce it before [`Machine::done`]. From a `Done` on, the program's writes to a
    /// dataset that is about to be confirmed go to its next generation.
    pub fn vote(&mut self, step: &Step, own: Outcome) -> Outcome {
        if own != Outcome::Done {
            return own;
        }
        match step {
            Step::Seal(plan) => {
                let confirms = plan.confirmed;
                let dataset = self.facts.local_mut(&plan.key);
                if dataset.phase != Phase::Open || dataset.touched || !dataset.prepared {
                    return Outcome::Touched;
                }
                dataset.phase = Phase::Voted { confirms };
            }
            Step::Confirm { key, .. } => {
                let dataset = self.facts.local_mut(key);
                if dataset.phase != Phase::Sealed {
                    return Outcome::Touched;
                }
                dataset.phase = Phase::Locked;
            }
            _ => {}
        }
        Outcome::Done
    }

    /// Notes that a step is over; `outcome` is the same on all ranks, and means nothing for local
    /// steps.
    pub fn done(&mut self, step: &Step, outcome: Outcome) {
        match step {
            Step::Encode(plan) => self.encodings.encode_done(&self.facts, &plan.key, outcome),
            Step::Discard { key, failed } => {
                let aside = self.encodings.end_encoding(key);
                self.encodings.note_encoding(aside && *failed, Outcome::Failed);
            }
            Step::Seal(plan) => self.seal_done(plan, outcome),
            Step::Confirm { key, .. } => self.confirm_done(key, outcome),
            Step::Adopt { from, into, .. } => {
                self.telling.note_name();
                adopted(&mut self.facts, from, into);
            }
            Step::Drop { key, .. } | Step::GiveUp { key } => {
                if let Some(dataset) = self.facts.shared.find_mut(key) {
                    dataset.state = DatasetState::Dropped;
                }
                self.facts.local_mut(key).phase = Phase::Dropped;
            }
            Step::Evict { key, id } => {
                let flushed = self.facts.shared.find(key).is_some_and(|dataset| dataset.flushed);
                if flushed && self.facts.config.series[key.series].has_id {
                    self.facts.series[key.series].left.note_left(&key.id, *id);
                }
                self.forget(key);
                self.facts.series[key.series].left.note_evicted(key);
            }
            Step::Flush { key, along, .. } => {
                for key in along.iter().chain([key]) {
                    if let Some(dataset) = self.facts.shared.find_mut(key) {
                        dataset.flushed = outcome == Outcome::Done;
                        // Kept in cache, and tried again, until it has reached the PFS.
                        dataset.due = true;
                    }
                }
            }
            Step::PublishDeletions { series, files } => {
                self.deletions.published(*series, files);
                let datasets = self.facts.series[*series].datasets.iter_mut();
                let held = datasets.flat_map(|dataset| &mut dataset.files);
                let gone = held.filter(|(name, _)| files.contains(name)).map(|(_, file)| file);
                gone.filter(|file| file.deleted == Deleted::Early).for_each(|file| {
                    file.deleted = Deleted::Yes;
                });
            }
            Step::Spill { key, .. } => self.spilled(key, outcome),
            Step::Trust { .. } | Step::Learned { .. } | Step::Halt { .. } => {}
        }
    }

    fn forget(&mut self, key: &DatasetKey) {
        self.facts.shared.series[key.series].datasets.retain(|dataset| dataset.key != *key);
        self.facts.series[key.series].datasets.retain(|dataset| dataset.key != *key);
        self.encodings.end_encoding(key);
        self.lacking.forget(key);
        self.trust.forget(key);
    }

    fn seal_done(&mut self, plan: &SealPlan, outcome: Outcome) {
        let key = &plan.key;
        let count = self.facts.agreement.count;
        let aside = self.encodings.end_encoding(key);
        self.encodings.note_encoding(aside, outcome);
        let dataset = self.facts.local_mut(key);
        if let Phase::Voted { .. } = dataset.phase {
            dataset.phase = match outcome {
                Outcome::Done => Phase::Sealed,
                Outcome::Touched | Outcome::Failed => Phase::Open,
            };
        }
        if outcome == Outcome::Done {
            dataset.sealed_at = Some(count);
        }
        if plan.confirmed && outcome != Outcome::Done {
            self.vote_came_to_nothing(key);
        }
        let Some(shared) = self.facts.shared.find_mut(key) else { return };
        match outcome {
            Outcome::Done => {}
            Outcome::Touched => return,
            Outcome::Failed => {
                shared.failing.tries += 1;
                shared.failing.spilled |= plan.on_prefix;
                // At once: what was a passing error costs nothing then.
                if let Some(conference) = &mut self.conference {
                    conference.tried.remove(key);
                }
                return;
            }
        }
        shared.seals.count += 1;
        shared.seals.fresh = true;
        shared.failing.tries = 0;
        shared.flushed = false;
        shared.restored = false;
        shared.on_prefix = plan.on_prefix;
        shared.state = DatasetState::Provisional;
        let amended = shared.seals.count > 1;
        if !shared.failing.spilled {
            self.facts.shared.spills = 0;
        }
        let series = &mut self.facts.shared.series[key.series];
        series.next_number = series.next_number.max(plan.number + 1);
        if amended {
            let most_ms = series.settle_most_ms(&self.facts.config);
            series.settle_ms = (series.settle_ms * 2).min(most_ms);
            series.clean_seals = 0;
        }
        // Who writes files of these kinds has been seen. Where ranks of several nodes do, that
        // holds for names with other numbers only when it has been judged: until then they are new.
        let seen = |file: &LocalFile| {
            !self.watch.awaits_kind(key.series, file.named.masked, file.named.kind)
        };
        let files = self.facts.files_of(key).map(|(_, file)| file).filter(|file| seen(file));
        let kinds: Vec<u64> = files.map(|file| file.named.kind).collect();
        self.watch.learn_kinds(&self.facts, key.series, kinds);
        if plan.confirmed {
            self.confirmed(key);
        } else if self.facts.shared.series[key.series].routing == Routing::Learning
            && !self.watch.is_undecided(&self.facts, key.series)
        {
            self.try_cache(key);
        }
    }

    fn confirm_done(&mut self, key: &DatasetKey, outcome: Outcome) {
        let dataset = self.facts.local_mut(key);
        if dataset.phase == Phase::Locked {
            dataset.phase = Phase::Sealed;
        }
        match outcome {
            Outcome::Done => self.confirmed(key),
            Outcome::Touched | Outcome::Failed => self.vote_came_to_nothing(key),
        }
    }

    /// Notes on all ranks that a node has no marker of the sealed dataset, and would doubt it if
    /// another node is lost: it goes to the PFS as well.
    pub fn lacks_marker(&mut self, key: &DatasetKey) {
        if let Some(shared) = self.facts.shared.find_mut(key) {
            shared.due = true;
        }
    }

    /// What the program wrote since this rank's vote is part of the dataset after all. Without ids
    /// it is not: there a sync point since the last write begins a generation.
    fn vote_came_to_nothing(&mut self, key: &DatasetKey) {
        let next = DatasetKey { generation: key.generation + 1, ..key.clone() };
        if self.facts.config.series[key.series].has_id
            && let Some(next) = self.facts.series[key.series].find_mut(&next)
        {
            next.returns = true;
            self.facts.agreement.changed(2);
        }
    }

    fn confirmed(&mut self, key: &DatasetKey) {
        let rule = &self.facts.config.series[key.series];
        let (has_id, joins) = (rule.has_id, rule.joins_generations());
        let series = &mut self.facts.shared.series[key.series];
        let Some(dataset) = series.datasets.iter_mut().find(|dataset| dataset.key == *key) else {
            return;
        };
        dataset.state = DatasetState::Confirmed;
        self.doubts[key.series].confirms = true;
        dataset.flushed |= dataset.on_prefix;
        let wanted = dataset.word.output || dataset.seals.split;
        dataset.due |= wanted || rule.is_due(dataset.number);
        if dataset.seals.count == 1 {
            series.clean_seals += 1;
        }
        self.lacking.make_whole_one_due(&mut self.facts, key);
        let rule = &self.facts.config.series[key.series];
        let series = &mut self.facts.shared.series[key.series];
        // Without ids this one has the names of what the launch began with. That by itself, without
        // what it rests on and this one has written anew, would be no checkpoint on the PFS.
        let older = series.datasets.iter_mut().take_while(|older| older.key != *key);
        for older in older.filter(|older| older.restored && !has_id) {
            older.due &= rule.is_due(older.number);
        }
        if series.clean_seals >= CLEAN_SEALS {
            series.clean_seals = 0;
            series.settle_ms = (series.settle_ms / 2).max(self.facts.config.settle_ms);
        }
        if series.routing == Routing::Learning {
            // A checkpoint that is partly on the PFS goes there as a whole, as it would without us.
            let open = series.datasets.iter_mut();
            for dataset in open.filter(|dataset| dataset.state == DatasetState::Open) {
                dataset.failing.prefix_only = true;
            }
        }
        series.learned |= self.watch.has_written(key.series);
        self.watch.confirmed(&mut self.facts, key.series);
        self.verdicts.confirmed(&self.facts, key);
        let rank = self.facts.config.rank;
        let local = &mut self.facts.series[key.series];
        let parts = local.datasets.iter().filter(|dataset| match joins {
            true => dataset.key.same_group(key),
            false => dataset.key == *key,
        });
        let files = parts.flat_map(|dataset| dataset.files.values());
        // In the cache a lower rank of the node will answer for what this one wrote with it.
        let left = |file: &LocalFile| {
            file.on_prefix.is_some()
                && self.watch.lower_answers(rank, key.series, file.named.masked)
        };
        let names = files.filter(|file| !left(file)).map(|file| file.named.masked);
        local.known = Some(set_hash(&names.collect::<BTreeSet<u64>>()));
    }

    /// The first dataset of a series is sealed, but may not be complete yet: what is written to it
    /// goes where the rest of it lies, the next dataset goes to the cache.
    fn try_cache(&mut self, key: &DatasetKey) {
        self.watch.route(&mut self.facts, key.series, Routing::Trial);
        for dataset in &mut self.facts.shared.series[key.series].datasets {
            dataset.failing.prefix_only |= !dataset.restored;
        }
    }

    fn spilled(&mut self, key: &DatasetKey, outcome: Outcome) {
        let Some(dataset) = self.facts.shared.find_mut(key) else { return };
        dataset.failing.prefix_only = true;
        let fails = dataset.is_failing();
        if fails && outcome == Outcome::Failed && dataset.failing.tries < 2 * FAILURES_MAX {
            dataset.failing.tries += 1; // the PFS does not take it either: once more, next time
            return;
        }
        dataset.failing.tries = 0;
        dataset.failing.spilled = true;
        if fails {
            self.facts.shared.note_spill();
        }
        let Some(conference) = &mut self.conference else { return };
        match (outcome, conference.votes.get_mut(key)) {
            (Outcome::Done, Some(vote)) => {
                // It can be sealed there at once; that may be the last chance.
                vote.on_prefix = vote.files;
                conference.tried.remove(key);
            }
            _ => drop(conference.tried.insert(key.clone())),
        }
    }
}
