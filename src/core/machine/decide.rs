//! From the votes of a conference to its steps, one at a time, since later ones depend on the
//! outcome of earlier ones. Everything that is decided here rests on shared state alone.

use super::Machine;
use super::conference::{Conference, Stray, Vote};
use super::keys::DatasetKey;
use super::local::{Phase, Status};
use super::shared::{DatasetState, SharedDataset, SharedSeries};
use super::steps::{SealPlan, Step};

impl Machine {
    /// Returns the conference's next step, equal on all ranks; `None` when it is over. Carry the
    /// step out and call [`Machine::done`] before asking again.
    pub fn next_step(&mut self) -> Option<Step> {
        let mut conference = self.conference.take()?;
        let step = self.decide(&mut conference);
        if step.is_some() {
            self.conference = Some(conference);
        } else if self.shared.series.iter().any(|series| series.open().next().is_some()) {
            // What could not be sealed now is looked at again; see the agreement's pace.
            self.agreement.changed(u8::from(!conference.tried.is_empty()));
        }
        step
    }

    fn decide(&mut self, conference: &mut Conference) -> Option<Step> {
        let series = 0..self.config.series.len();
        series
            .clone()
            .find_map(|index| self.take_back(index, conference))
            .or_else(|| series.clone().find_map(|index| self.adopt(index, conference)))
            .or_else(|| series.clone().find_map(|index| self.confirm(index, conference)))
            .or_else(|| series.clone().find_map(|index| self.trust(index, conference)))
            .or_else(|| {
                self.in_turn().into_iter().find_map(|index| self.seal_or_drop(index, conference))
            })
            .or_else(|| series.clone().find_map(|index| self.learned(index)))
            .or_else(|| if self.ends_again() { None } else { self.clear_up(conference) })
    }

    /// The series, that with the oldest dataset in progress first: ids follow the order in which
    /// the program began, as far as several can be sealed now.
    fn in_turn(&self) -> Vec<usize> {
        let mut series: Vec<usize> = (0..self.config.series.len()).collect();
        series.sort_by_key(|index| self.shared.series[*index].first_turn());
        series
    }

    /// What follows once all is sealed that can be.
    fn clear_up(&mut self, conference: &mut Conference) -> Option<Step> {
        let series = 0..self.config.series.len();
        series.clone().for_each(|index| self.make_kept_due(index, conference.scarce));
        series
            .clone()
            .find_map(|index| self.publish(index, false, conference))
            .or_else(|| series.clone().find_map(|index| self.flush(index, conference)))
            .or_else(|| series.clone().find_map(|index| self.evict(index, conference)))
            .or_else(|| series.clone().find_map(|index| self.spill(index, conference)))
            .or_else(|| series.clone().find_map(|index| self.publish(index, true, conference)))
            .or_else(|| self.halt(conference))
    }

    /// Tells whether the end needs one more conference, which does all but the seals: it tells
    /// whether the program sees files of a checkpoint that was sealed just now and is not the
    /// newest; only then that one is flushed, too.
    #[must_use]
    pub fn ends_again(&self) -> bool {
        let unsure = |series: &SharedSeries| {
            let sealed = series.datasets.iter().filter(|dataset| {
                !matches!(dataset.state, DatasetState::Open | DatasetState::Dropped)
            });
            sealed
                .rev()
                .skip(1)
                .any(|one| (one.fresh || (one.live && series.confirms)) && !one.due && !one.flushed)
        };
        self.end_conferences == 1 && self.shared.series.iter().any(unsure)
    }

    /// Files without id go to the newest dataset, if it can still take them.
    fn adopt(&mut self, index: usize, conference: &mut Conference) -> Option<Step> {
        let floating = conference.floating.remove(&index)?;
        let into = self.newest_taker(index)?.clone();
        if floating.after.contains(&into) {
            return None; // its successor has not begun yet
        }
        let local = &self.series[index];
        let mut open = local.datasets.iter().filter(|dataset| dataset.phase == Phase::Open);
        let from = open.find(|own| self.is_floating(&own.key) && !own.files.is_empty());
        let from = from.map_or_else(|| DatasetKey::new(index, "", 0), |own| own.key.clone());
        Some(self.move_files(from, into, &floating, conference))
    }

    /// What was written to the next generation because of a vote that came to nothing goes back,
    /// once it is closed; until then the dataset is not complete.
    fn take_back(&mut self, index: usize, conference: &mut Conference) -> Option<Step> {
        while let Some(into) = conference.returning.keys().find(|key| key.series == index).cloned()
        {
            let stray = conference.returning.remove(&into).unwrap_or_default();
            if stray.open == 0 || conference.ending {
                let from = DatasetKey { generation: into.generation + 1, ..into.clone() };
                return Some(self.move_files(from, into, &stray, conference));
            }
            conference.tried.insert(into);
        }
        None
    }

    fn move_files(
        &mut self,
        from: DatasetKey,
        into: DatasetKey,
        stray: &Stray,
        conference: &mut Conference,
    ) -> Step {
        if !conference.ending {
            conference.tried.insert(into.clone()); // complete or not: seen in the next conference
        } else if let Some(vote) = conference.votes.get_mut(&into) {
            vote.open += stray.open;
            vote.files += stray.files;
            vote.on_prefix += stray.on_prefix;
        }
        self.spoil_shared(&into);
        let local = &self.series[into.series];
        let own = local.find(&from);
        let kept = own.into_iter().flat_map(|own| &own.files);
        let files: Vec<String> = kept.map(|(name, _)| name.clone()).collect();
        let has_files = !files.is_empty();
        let target = local.find(&into);
        let begin = has_files && target.is_none_or(|target| !target.begun);
        let revoke = has_files && target.is_some_and(|target| target.prepared);
        Step::Adopt { from, into, files, begin, revoke }
    }

    fn seal_or_drop(&mut self, index: usize, conference: &mut Conference) -> Option<Step> {
        let has_id = self.config.series[index].has_id;
        for at in 0..self.shared.series[index].datasets.len() {
            let dataset = &self.shared.series[index].datasets[at];
            if dataset.state != DatasetState::Open {
                continue;
            }
            let key = dataset.key.clone();
            let vote = conference.votes.get(&key).cloned().unwrap_or_default();
            if dataset.encoding.is_some() {
                return self.after_encoding(index, at, &vote, conference); // later ones wait
            }
            if !conference.tried.contains(&key) && vote.open == 0 {
                if let Some((rank, reason)) = vote.invalid {
                    conference.tried.insert(key.clone());
                    return Some(Step::Drop { id: dataset.id, key, rank, reason });
                }
                if vote.files == 0 && vote.ready {
                    conference.tried.insert(key.clone());
                    return Some(Step::Evict { id: dataset.id, key });
                }
                // What is left of a checkpoint that the program gave up while no agreement came.
                let leftover = has_id && conference.ending && vote.abandoned;
                if leftover && self.is_followed(index, at) {
                    continue; // spilled: sealed, it might be offered instead of a newer one
                }
                let fails = dataset.is_failing() || self.is_rest(&key);
                if fails && dataset.spilled {
                    conference.tried.insert(key.clone());
                    return Some(Step::GiveUp { key });
                }
                if vote.files > 0 && !fails && self.may_seal(index, at, &vote, conference) {
                    let step = self.seal(index, at, &vote, conference);
                    return Some(self.aside_if_it_pays(step, &vote, conference));
                }
            }
            // Numbers follow the order in which the program began: a later one waits, except at
            // the end, when what is left open is written to the PFS anyway. Without ids a later one
            // may rest on files of this one, and goes to the PFS with it.
            if !conference.ending || !has_id {
                return None;
            }
        }
        None
    }

    fn may_seal(&self, index: usize, at: usize, vote: &Vote, conference: &Conference) -> bool {
        vote.ready || conference.ending || vote.followed || self.is_followed(index, at)
    }

    /// Tells whether this is what the program writes to a checkpoint after it was given up: a part,
    /// which is none.
    pub(super) fn is_rest(&self, key: &DatasetKey) -> bool {
        let mut all = self.shared.series[key.series].datasets.iter();
        self.config.series[key.series].has_id
            && all.any(|one| {
                one.state == DatasetState::Dropped && one.spilled && one.key.same_group(key)
            })
    }

    /// Tells whether a later dataset of the series has begun in this launch.
    pub(super) fn is_followed(&self, index: usize, at: usize) -> bool {
        let mut later = self.shared.series[index].datasets[at + 1..].iter();
        later.any(|later| later.state != DatasetState::Dropped && !later.restored)
    }

    /// Tells whether the seal confirms, too.
    pub(super) fn confirms(vote: &Vote, conference: &Conference, is_over: bool) -> bool {
        let is_over = is_over || conference.ending || conference.halt != 0;
        vote.complete || (!vote.abandoned && is_over)
    }

    fn seal(&mut self, index: usize, at: usize, vote: &Vote, conference: &Conference) -> SealPlan {
        self.shared.seals_tried += 1;
        let followed = vote.followed || self.is_followed(index, at);
        let number = self.number(index, at);
        let series = &mut self.shared.series[index];
        let dataset = &mut series.datasets[at];
        let resealed = dataset.seals > 0;
        (dataset.took_ms, dataset.trusted) = (vote.since_begun_ms, false);
        dataset.covers = vote.covers;
        if dataset.id == 0 {
            // It keeps the id if the seal fails: its directory may have that name by then, and some
            // rank a record. No other dataset ever has it.
            dataset.id = self.shared.next_id;
            self.shared.next_id += 1;
        }
        if !resealed {
            dataset.number = number;
        }
        // Mixed so that no two seals of any launch have the same epoch; rank 0's bits are random.
        let tried = self.shared.seals_tried.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let epoch = (conference.entropy ^ tried).max(1);
        let seals_once = self.config.series[index].seals_once;
        SealPlan {
            key: dataset.key.clone(),
            id: dataset.id,
            number: dataset.number,
            epoch,
            confirmed: Self::confirms(vote, conference, followed || seals_once),
            resealed,
            on_prefix: vote.on_prefix == vote.files,
        }
    }

    /// The number in series; all generations of one id share it, so that they are due together.
    fn number(&self, index: usize, at: usize) -> u64 {
        let series = &self.shared.series[index];
        let key = &series.datasets[at].key;
        let joins = self.config.series[index].joins_generations();
        let same = |other: &&SharedDataset| {
            joins && other.number > 0 && other.seals > 0 && other.key.same_group(key)
        };
        series.datasets.iter().find(same).map_or(series.next_number, |other| other.number)
    }

    fn confirm(&mut self, index: usize, conference: &mut Conference) -> Option<Step> {
        for at in 0..self.shared.series[index].datasets.len() {
            let dataset = &self.shared.series[index].datasets[at];
            let ours = dataset.state == DatasetState::Provisional && !dataset.is_second_rate();
            let over = conference.ending || conference.halt != 0 || self.is_followed(index, at);
            if ours && over && conference.confirm_tried.insert(dataset.key.clone()) {
                return Some(Step::Confirm { key: dataset.key.clone(), id: dataset.id });
            }
        }
        None
    }

    fn learned(&mut self, index: usize) -> Option<Step> {
        std::mem::take(&mut self.shared.series[index].learned)
            .then_some(Step::Learned { series: index })
    }

    /// Deletions become real; at the end all of them, `last` of all, when what is newer is written.
    fn publish(&mut self, index: usize, last: bool, conference: &mut Conference) -> Option<Step> {
        let newest = self.shared.newest_confirmed(index);
        let ending = conference.ending;
        if ending != last || (newest == 0 && !ending) || !conference.published.insert(index) {
            return None;
        }
        let passed = self.series[index].tombstones.iter();
        let is_past = |holder: &DatasetKey| {
            let id = self.shared.find(holder).map_or(0, |dataset| dataset.id);
            let in_progress = self.status(holder) == Status::Open;
            id < newest && !in_progress
        };
        let passed = passed.filter(|tombstone| {
            ending || (tombstone.above < newest && tombstone.holder.as_ref().is_none_or(is_past))
        });
        let files = passed.map(|tombstone| tombstone.name.clone()).collect();
        Some(Step::PublishDeletions { series: index, files })
    }

    /// Finds what is to be flushed now, the oldest first: each flush leaves on the PFS what the
    /// program saw at that time.
    pub(super) fn flush(&mut self, index: usize, conference: &mut Conference) -> Option<Step> {
        let closing = conference.ending || conference.halt != 0;
        let series = &self.shared.series[index];
        let count = series.datasets.len();
        let due = series.datasets.iter().rposition(|one| one.due && !one.flushed).unwrap_or(0);
        if !closing && (0..due).any(|at| series.is_unsure(at)) {
            self.wait_for_reports(index); // they tell what has to go before it
            return None;
        }
        let pending = (0..count).filter(|at| self.is_pending(index, *at, closing));
        let (along, mut whole): (Vec<usize>, Vec<usize>) =
            pending.partition(|at| self.goes_along(index, *at, closing));
        if along.last() > whole.last() {
            let datasets = &self.shared.series[index].datasets;
            whole.extend(datasets.iter().rposition(|one| one.state == DatasetState::Confirmed));
        }
        let datasets = &self.shared.series[index].datasets;
        let key = |at: &usize| datasets[*at].key.clone();
        let at = whole.into_iter().find(|at| conference.flush_tried.insert(key(at)))?;
        let along = along.iter().filter(|older| **older < at).map(key);
        let along = along.filter(|older| conference.flush_tried.insert(older.clone())).collect();
        Some(Step::Flush { key: key(&at), id: datasets[at].id, along })
    }

    /// It is to be on the PFS now, and is not.
    fn is_pending(&self, index: usize, at: usize, closing: bool) -> bool {
        let datasets = &self.shared.series[index].datasets;
        let dataset = &datasets[at];
        let sealed = |dataset: &SharedDataset| match dataset.state {
            DatasetState::Confirmed => true,
            DatasetState::Provisional => dataset.is_second_rate(),
            DatasetState::Open | DatasetState::Dropped => false,
        };
        // What the program still sees of an older one belongs to what a newer one needs.
        let needed = closing || datasets[at + 1..].iter().any(|newer| newer.due);
        let seen = dataset.live || dataset.fresh || self.is_part(index, at);
        let is_newest = || datasets.iter().rposition(sealed) == Some(at);
        let last = closing
            && self.config.series[index].flushes_last
            && (is_newest() || self.is_last_kept(index, at));
        let kept = closing && self.is_kept_series(index) && dataset.is_kept();
        let last = last || (needed && seen) || kept;
        let due = dataset.due || self.is_due_unconfirmed(index, at, closing);
        sealed(dataset) && !dataset.flushed && (due || last)
    }

    /// The newest one, or the newest known to be complete, of which the program has deleted
    /// nothing: what the end leaves of a newer one may be less. Without ids they share their names.
    fn is_last_kept(&self, index: usize, at: usize) -> bool {
        let kept = self.shared.series[index].datasets.iter().enumerate().rev();
        let mut kept = kept.filter(|(_, one)| !one.deleted_from);
        let complete = |one: &SharedDataset| one.state == DatasetState::Confirmed;
        let newest = kept.clone().find(|(_, one)| complete(one) || one.is_second_rate());
        let newest_complete = kept.find(|(_, one)| complete(one));
        let is_it = |found: Option<(usize, _)>| found.is_some_and(|(found, _)| found == at);
        self.config.series[index].has_id && (is_it(newest) || is_it(newest_complete))
    }

    /// Without ids, what is not known to be complete takes names of a checkpoint that is on the
    /// PFS. It must not come there before the complete one that rests on it, nor after it: either
    /// would leave a mixture, and that may be all there is after the loss of the cache. So would,
    /// at the end, a complete one whose other names were those of one that has left the cache since
    /// a newer one has them.
    fn goes_along(&self, index: usize, at: usize, closing: bool) -> bool {
        let datasets = &self.shared.series[index].datasets;
        let mut newer = datasets[at + 1..].iter();
        let newest = newer.rfind(|newer| newer.state == DatasetState::Confirmed);
        !self.config.series[index].has_id
            && (closing || datasets[at].is_second_rate())
            && newest.is_some_and(|newest| !newest.flushed)
    }

    /// What will never be confirmed is due like any other when it is about to go: the program has
    /// not deleted what is left of it. Without ids what follows has the same names.
    fn is_due_unconfirmed(&self, index: usize, at: usize, closing: bool) -> bool {
        let (rule, series) = (&self.config.series[index], &self.shared.series[index]);
        let dataset = &series.datasets[at];
        dataset.is_second_rate()
            && rule.has_id
            && rule.is_due(dataset.number)
            && (closing || series.newer_confirmed(at))
    }

    /// An older generation of the newest id that still holds files of it.
    fn is_part(&self, index: usize, at: usize) -> bool {
        let datasets = &self.shared.series[index].datasets;
        let joins = self.config.series[index].joins_generations();
        let newest = datasets.iter().rfind(|dataset| dataset.state == DatasetState::Confirmed);
        joins
            && datasets[at].held
            && newest.is_some_and(|newest| newest.key.same_group(&datasets[at].key))
    }

    pub(super) fn wait_for_reports(&mut self, index: usize) {
        self.shared.series[index].waits = true;
        self.agreement.changed(1);
    }

    fn spill(&mut self, index: usize, conference: &mut Conference) -> Option<Step> {
        let datasets = self.shared.series[index].datasets.iter();
        let mut open = datasets.filter(|dataset| dataset.state == DatasetState::Open);
        let closed = |key: &DatasetKey| {
            conference.votes.get(key).is_some_and(|vote| vote.open == 0 && vote.invalid.is_none())
        };
        let fallen_back = self.shared.fallen_back;
        let stuck = open.find(|dataset| {
            let rest = fallen_back || self.is_rest(&dataset.key);
            let fails = dataset.is_failing() || (rest && closed(&dataset.key));
            let due = conference.ending || (fails && !dataset.spilled);
            due && !conference.spill_tried.contains(&dataset.key)
        });
        let (tried, key) = match stuck {
            Some(dataset) => (dataset.key.clone(), dataset.key.clone()),
            None if conference.ending && self.config.series[index].has_id => {
                // Floating datasets differ by rank: every rank spills its own, in one step.
                let mut own = self.series[index].datasets.iter();
                let own = own.find(|own| self.is_floating(&own.key) && own.phase == Phase::Open);
                let none = DatasetKey::new(index, "", u64::MAX);
                (none.clone(), own.map_or(none, |own| own.key.clone()))
            }
            None => return None,
        };
        if !conference.spill_tried.insert(tried) {
            return None;
        }
        let own = self.series[index].find(&key);
        let files = own.into_iter().flat_map(|own| &own.files);
        let files =
            files.filter(|(_, file)| file.open == 0 && file.on_prefix.is_none() && !file.deleted);
        let names = files.map(|(name, _)| name);
        let names = names.filter(|name| {
            !self.has_newer_on_prefix(&key, name) && !self.is_older_pointer(&key, name)
        });
        let files = names.cloned().collect();
        Some(Step::Spill { key, files })
    }

    fn halt(&mut self, conference: &mut Conference) -> Option<Step> {
        let open = self.shared.series.iter().any(|series| series.open().next().is_some());
        if conference.halt == 0 || open || std::mem::replace(&mut conference.halted, true) {
            return None;
        }
        Some(Step::Halt { reason: conference.halt })
    }

    /// Drops this rank's part of a dataset: it is not counted in any more.
    pub(super) fn drop_local(&mut self, key: &DatasetKey) {
        self.local_mut(key).phase = Phase::Dropped;
    }
}
