//! What becomes of a step: the votes of a seal or a confirmation, and the changes that follow.

use std::collections::BTreeSet;

use super::Machine;
use super::config::{CLEAN_SEALS, SETTLE_MS_MAX};
use super::keys::DatasetKey;
use super::knowledge::set_hash;
use super::local::Status;
use super::local::{LocalFile, Phase, Published};
use super::shared::{DatasetState, FAILURES_MAX, Routing, SharedDataset};
use super::steps::{SealPlan, Step};

/// Outcome of a step, the worst of all ranks' where ranks agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All went well.
    Done,
    /// The program touched the dataset meanwhile: nothing is wrong, it is tried again later.
    Touched,
    /// An error of ours.
    Failed,
}

impl Outcome {
    /// Returns the word for an all-reduce by maximum.
    #[must_use]
    pub fn to_word(self) -> i64 {
        match self {
            Outcome::Done => 0,
            Outcome::Touched => 1,
            Outcome::Failed => 2,
        }
    }

    /// Reads what [`Outcome::to_word`] has made; anything unknown is a failure.
    #[must_use]
    pub fn from_word(word: i64) -> Self {
        match word {
            0 => Outcome::Done,
            1 => Outcome::Touched,
            _ => Outcome::Failed,
        }
    }
}

/// A file of a seal on this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealFile {
    /// Name relative to the prefix.
    pub name: String,
    /// Its size at the last close, bytes.
    pub bytes: u64,
    /// It lies on the PFS: recorded, not protected.
    pub on_prefix: bool,
}

impl Machine {
    /// Returns this rank's files of a dataset, by name; also those that the program has deleted
    /// since they were complete.
    #[must_use]
    pub fn seal_files(&self, key: &DatasetKey) -> Vec<SealFile> {
        let own = self.series[key.series].find(key).into_iter();
        own.flat_map(|own| &own.files)
            .map(|(name, file)| SealFile {
                name: name.clone(),
                bytes: file.bytes,
                on_prefix: file.on_prefix.is_some(),
            })
            .collect()
    }

    /// Tells whether a flush of the dataset must not write this file of ours: the program's
    /// deletion of it has become real (a newer dataset is confirmed, or the run ends), the PFS has
    /// it under another name, or holds a newer content of it from this rank, or it is never quiet.
    #[must_use]
    pub fn is_left_out(&self, key: &DatasetKey, name: &str) -> bool {
        self.is_withdrawn(key, name) || self.is_replaced(key, name)
    }

    /// Does what [`Machine::is_left_out`] does, for a thread that has its turn to give the file its
    /// name. Newer flushes that have begun since come after it, and must not keep it back: the
    /// other ranks' threads may have given theirs, and the PFS would have a part of this one.
    #[must_use]
    pub fn is_left_out_now(&self, key: &DatasetKey, name: &str) -> bool {
        self.is_gone(key, name)
            || self.has_newer(key, name, Published::There)
            || self.is_replaced(key, name)
    }

    /// Finds this rank's files of `along`, with the newest dataset of them that has it, that a
    /// flush of `head` publishes along with its own: those of which neither it nor another complete
    /// dataset before it has a newer content.
    #[must_use]
    pub fn files_along(
        &self,
        along: &[DatasetKey],
        head: &DatasetKey,
    ) -> Vec<(DatasetKey, Vec<String>)> {
        let datasets = &self.series[head.series].datasets;
        let end = datasets.iter().position(|dataset| dataset.key == *head);
        let until = &datasets[..end.map_or(datasets.len(), |end| end + 1)];
        let counts =
            |key: &DatasetKey| along.contains(key) || self.status(key) == Status::Confirmed;
        let names = |key: &DatasetKey| {
            let from = until.iter().skip_while(|dataset| dataset.key != *key);
            let newer = from.clone().skip(1).filter(|newer| counts(&newer.key));
            let own = from.take(1).flat_map(|own| &own.files).filter(|(name, file)| {
                let replaced = newer.clone().any(|newer| newer.files.contains_key(*name));
                file.on_prefix.is_none() && !replaced && !self.is_withdrawn(key, name)
            });
            own.map(|(name, _)| name.clone()).collect()
        };
        along.iter().map(|key| (key.clone(), names(key))).collect()
    }

    /// Returns the dataset's number; 0 if it has none.
    #[must_use]
    pub fn id_of(&self, key: &DatasetKey) -> u64 {
        self.shared.find(key).map_or(0, |dataset| dataset.id)
    }

    fn is_withdrawn(&self, key: &DatasetKey, name: &str) -> bool {
        self.is_gone(key, name) || self.has_newer_on_prefix(key, name)
    }

    fn is_gone(&self, key: &DatasetKey, name: &str) -> bool {
        let id = self.id_of(key);
        let own = self.series[key.series].find(key);
        let file = own.and_then(|own| own.files.get(name));
        let deleted = file.is_some_and(|file| file.deleted);
        let moved = file.is_some_and(|file| file.moved || file.amended);
        let silenced = file.is_some_and(|file| self.is_silenced(key.series, file.masked));
        let outdated =
            || id < self.shared.newest_confirmed(key.series) && !self.is_remade(key, name);
        let real = deleted && (self.ending || outdated());
        moved || silenced || real
    }

    /// Without ids: the program has moved the file away, or deleted it, and made the name again for
    /// a later checkpoint. On the PFS this one is to have it, or none: the rest of its files are
    /// none that the program ever saw together with what may be there.
    fn is_remade(&self, key: &DatasetKey, name: &str) -> bool {
        let datasets = self.series[key.series].datasets.iter();
        let mut newer = datasets.skip_while(|dataset| dataset.key != *key).skip(1);
        !self.config.series[key.series].has_id && newer.any(|newer| newer.holds(name))
    }

    /// The dataset is flushed only for what nothing newer has, since it is not complete (any more),
    /// and a newer confirmed one has this, or at the end any newer one a pointer file: that comes
    /// to the PFS in any case, and what the older one names is not whole.
    fn is_replaced(&self, key: &DatasetKey, name: &str) -> bool {
        let datasets = &self.series[key.series].datasets;
        let newer = datasets.iter().skip_while(|dataset| dataset.key != *key).skip(1);
        let mut newer = newer.filter(|newer| self.status(&newer.key) == Status::Confirmed);
        let has_id = self.config.series[key.series].has_id;
        let partial =
            |shared: &SharedDataset| shared.is_second_rate() || (has_id && shared.deleted_from);
        let replaced = newer.any(|newer| newer.files.contains_key(name));
        self.shared.find(key).is_some_and(partial)
            && (replaced || (self.ending && self.is_older_pointer(key, name)))
    }

    /// Tells whether the PFS holds a newer content of the file from this rank, or a thread brings
    /// it: what `key` holds must not replace it.
    pub(super) fn has_newer_on_prefix(&self, key: &DatasetKey, name: &str) -> bool {
        self.has_newer(key, name, Published::Coming)
    }

    fn has_newer(&self, key: &DatasetKey, name: &str, least: Published) -> bool {
        let datasets = &self.series[key.series].datasets;
        let newer = datasets.iter().skip_while(|dataset| dataset.key != *key).skip(1);
        let mut newer = newer.filter_map(|newer| Some((newer, newer.files.get(name)?)));
        newer.any(|(newer, file)| {
            let flushed = self.shared.find(&newer.key).is_some_and(|shared| shared.flushed);
            flushed || file.on_prefix.is_some() || file.published >= least
        })
    }

    /// Tells whether the record of a seal may be written now. Call it, and write the record if it
    /// says yes, in one locked section: a write that comes later finds the record and revokes it.
    pub fn seal_record(&mut self, key: &DatasetKey) -> bool {
        let dataset = self.local_mut(key);
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

    /// Tells whether the program has touched the dataset on this rank since the last report, or
    /// could not.
    #[must_use]
    pub fn is_touched(&self, key: &DatasetKey) -> bool {
        let own = self.series[key.series].find(key);
        own.is_some_and(|dataset| dataset.touched || dataset.why_invalid().is_some())
    }

    /// Tells when this rank began to write the dataset, ms, if it did.
    #[must_use]
    pub fn begun_ms(&self, key: &DatasetKey) -> Option<u64> {
        let dataset = self.series[key.series].find(key).filter(|dataset| dataset.begun);
        dataset.map(|dataset| dataset.begun_ms)
    }

    /// Gives this rank's vote on a seal or a confirmation, `own` being how its part of the work
    /// went. From a `Done` on, the program's writes to a dataset that is about to be confirmed go
    /// to its next generation. All-reduce it before [`Machine::done`].
    pub fn vote(&mut self, step: &Step, own: Outcome) -> Outcome {
        if own != Outcome::Done {
            return own;
        }
        match step {
            Step::Seal(plan) => {
                let confirms = plan.confirmed;
                let dataset = self.local_mut(&plan.key);
                if dataset.phase != Phase::Open || dataset.touched || !dataset.prepared {
                    return Outcome::Touched;
                }
                dataset.phase = Phase::Voted { confirms };
            }
            Step::Confirm { key, .. } => {
                let dataset = self.local_mut(key);
                if dataset.phase != Phase::Sealed {
                    return Outcome::Touched;
                }
                dataset.phase = Phase::Locked;
            }
            _ => {}
        }
        Outcome::Done
    }

    /// Notes that a step is over; `outcome` is the same on all ranks (for local steps it does not
    /// matter).
    pub fn done(&mut self, step: &Step, outcome: Outcome) {
        match step {
            Step::Encode(plan) => self.encode_done(plan, outcome),
            Step::Discard { key, failed } => {
                let aside = self.end_encoding(key);
                self.note_encoding(aside && *failed, Outcome::Failed);
            }
            Step::Seal(plan) => self.seal_done(plan, outcome),
            Step::Confirm { key, .. } => self.confirm_done(key, outcome),
            Step::Adopt { from, into, .. } => {
                self.note_name();
                self.adopted(from, into);
            }
            Step::Drop { key, .. } | Step::GiveUp { key } => {
                if let Some(dataset) = self.shared.find_mut(key) {
                    dataset.state = DatasetState::Dropped;
                }
                self.drop_local(key);
            }
            Step::Evict { key, id } => {
                let flushed = self.shared.find(key).is_some_and(|dataset| dataset.flushed);
                if flushed && self.config.series[key.series].has_id {
                    self.series[key.series].note_left(&key.id, *id);
                }
                self.shared.series[key.series].datasets.retain(|dataset| dataset.key != *key);
                self.series[key.series].datasets.retain(|dataset| dataset.key != *key);
                self.series[key.series].note_evicted(key);
            }
            Step::Flush { key, along, .. } => {
                for key in along.iter().chain([key]) {
                    if let Some(dataset) = self.shared.find_mut(key) {
                        dataset.flushed = outcome == Outcome::Done;
                        // Kept in cache, and tried again, until it has reached the PFS.
                        dataset.due = true;
                    }
                }
            }
            Step::PublishDeletions { series, files } => {
                let tombstones = &mut self.series[*series].tombstones;
                tombstones.retain(|tombstone| !files.contains(&tombstone.name));
                let datasets = self.series[*series].datasets.iter_mut();
                let held = datasets.flat_map(|dataset| &mut dataset.files);
                let gone = held.filter(|(name, _)| files.contains(name));
                gone.for_each(|(_, file)| file.deleted_early = false);
            }
            Step::Spill { key, .. } => self.spilled(key, outcome),
            Step::Trust { .. } | Step::Learned { .. } | Step::Halt { .. } => {}
        }
    }

    fn seal_done(&mut self, plan: &SealPlan, outcome: Outcome) {
        let key = &plan.key;
        let count = self.agreement.count;
        let aside = self.end_encoding(key);
        self.note_encoding(aside, outcome);
        let dataset = self.local_mut(key);
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
        let Some(shared) = self.shared.find_mut(key) else { return };
        match outcome {
            Outcome::Done => {}
            Outcome::Touched => return,
            Outcome::Failed => {
                shared.failures += 1;
                shared.spilled |= plan.on_prefix;
                // At once: what was a passing error costs nothing then.
                if let Some(conference) = &mut self.conference {
                    conference.tried.remove(key);
                }
                return;
            }
        }
        shared.seals += 1;
        shared.failures = 0;
        if !shared.spilled {
            self.shared.spills = 0;
        }
        let Some(shared) = self.shared.find_mut(key) else { return };
        shared.fresh = true;
        shared.flushed = false;
        shared.restored = false;
        shared.on_prefix = plan.on_prefix;
        shared.state = DatasetState::Provisional;
        let amended = shared.seals > 1;
        let series = &mut self.shared.series[key.series];
        series.next_number = series.next_number.max(plan.number + 1);
        if amended {
            let most = if series.interval_ms > 0 { series.interval_ms / 4 } else { SETTLE_MS_MAX };
            series.settle_ms = (series.settle_ms * 2).min(most.max(self.config.settle_ms));
            series.clean_seals = 0;
        }
        self.learn_kinds(key);
        if plan.confirmed {
            self.confirmed(key);
        } else if self.shared.series[key.series].routing == Routing::Learning {
            self.try_cache(key);
        }
    }

    fn confirm_done(&mut self, key: &DatasetKey, outcome: Outcome) {
        let dataset = self.local_mut(key);
        if dataset.phase == Phase::Locked {
            dataset.phase = Phase::Sealed;
        }
        match outcome {
            Outcome::Done => self.confirmed(key),
            Outcome::Touched | Outcome::Failed => self.vote_came_to_nothing(key),
        }
    }

    /// Notes that a node has no marker that says that the sealed dataset is complete, and is in
    /// doubt about it if another one is lost: it goes to the PFS as well. To be called on all
    /// ranks.
    pub fn lacks_marker(&mut self, key: &DatasetKey) {
        if let Some(shared) = self.shared.find_mut(key) {
            shared.due = true;
        }
    }

    /// What a thread of the program wrote since this rank's vote is part of the dataset after all.
    /// Without ids it is not: there only a sync point since the last write begins a generation.
    fn vote_came_to_nothing(&mut self, key: &DatasetKey) {
        let next = DatasetKey { generation: key.generation + 1, ..key.clone() };
        if self.config.series[key.series].has_id
            && let Some(next) = self.series[key.series].find_mut(&next)
        {
            next.returns = true;
            self.agreement.changed(2);
        }
    }

    /// A dataset is complete: what follows for its series.
    fn confirmed(&mut self, key: &DatasetKey) {
        let rule = &self.config.series[key.series];
        let (has_id, joins) = (rule.has_id, rule.joins_generations());
        let series = &mut self.shared.series[key.series];
        let Some(dataset) = series.datasets.iter_mut().find(|dataset| dataset.key == *key) else {
            return;
        };
        dataset.state = DatasetState::Confirmed;
        series.confirms = true;
        dataset.flushed |= dataset.on_prefix;
        dataset.due |= dataset.output || rule.is_due(dataset.number);
        if dataset.seals == 1 {
            series.clean_seals += 1;
        }
        series.make_whole_one_due(key);
        // Without ids this one has the names of what the launch began with. That by itself, without
        // what it rests on and this one has written anew, would be no checkpoint on the PFS.
        let older = series.datasets.iter_mut().take_while(|older| older.key != *key);
        for older in older.filter(|older| older.restored && !has_id) {
            older.due &= rule.is_due(older.number);
        }
        if series.clean_seals >= CLEAN_SEALS {
            series.clean_seals = 0;
            series.settle_ms = (series.settle_ms / 2).max(self.config.settle_ms);
        }
        if series.routing == Routing::Learning {
            // A checkpoint that is partly on the PFS goes there as a whole, as it would without us.
            let open = series.datasets.iter_mut();
            for dataset in open.filter(|dataset| dataset.state == DatasetState::Open) {
                dataset.prefix_only = true;
            }
        }
        if series.routing.watches() {
            series.routing = Routing::Cache;
            series.learned = true;
        }
        series.learned |= !series.written.is_empty();
        series.written.clear();
        series.read.clear();
        let local = &mut self.series[key.series];
        local.written.clear();
        let parts = local.datasets.iter().filter(|dataset| match joins {
            true => dataset.key.same_group(key),
            false => dataset.key == *key,
        });
        let files: Vec<&LocalFile> = parts.flat_map(|dataset| dataset.files.values()).collect();
        let names: BTreeSet<u64> = files.iter().map(|file| file.masked).collect();
        local.known = Some(set_hash(&names));
    }

    /// The first dataset of a series is sealed, but may not be complete yet: what is written to it
    /// goes where the rest of it lies, the next dataset to the cache.
    fn try_cache(&mut self, key: &DatasetKey) {
        let series = &mut self.shared.series[key.series];
        series.routing = Routing::Trial;
        for dataset in &mut series.datasets {
            dataset.prefix_only |= !dataset.restored;
        }
    }

    /// Who writes files of these kinds has been seen.
    fn learn_kinds(&mut self, key: &DatasetKey) {
        let local = &mut self.series[key.series];
        let own = local.datasets.iter().find(|dataset| dataset.key == *key).into_iter();
        local.kinds.extend(own.flat_map(|own| own.files.values()).map(|file| file.kind));
    }

    /// The files of `from` belong to `into` from now on.
    fn adopted(&mut self, from: &DatasetKey, into: &DatasetKey) {
        let local = &mut self.series[from.series];
        let Some(at) = local.datasets.iter().position(|dataset| dataset.key == *from) else {
            return;
        };
        let floating = local.datasets.remove(at);
        if from.id.is_empty() {
            local.floating += 1;
        }
        if floating.files.is_empty() && floating.refused.is_empty() {
            return;
        }
        let clock_ms = self.clock_ms;
        let target = self.local_mut(into);
        target.begun = true;
        target.prepared = false;
        target.phase = Phase::Open;
        target.touched_ms = clock_ms;
        target.changed_ms = target.changed_ms.max(floating.changed_ms);
        target.files.extend(floating.files);
        target.abandoned.extend(floating.abandoned);
        target.invalid = target.invalid.take().or(floating.invalid);
        target.refused.extend(floating.refused);
        self.agreement.changed(1);
    }

    fn spilled(&mut self, key: &DatasetKey, outcome: Outcome) {
        let Some(dataset) = self.shared.find_mut(key) else { return };
        dataset.prefix_only = true;
        let fails = dataset.is_failing();
        if fails && outcome == Outcome::Failed && dataset.failures < 2 * FAILURES_MAX {
            dataset.failures += 1; // the PFS does not take it either: once more, next time
            return;
        }
        dataset.failures = 0;
        dataset.spilled = true;
        if fails {
            self.shared.note_spill();
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
