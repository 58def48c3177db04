//! Names that the program takes away (DESIGN section 4, "Deletion").
//!
//! In a dataset that is not sealed that is done at once: what the program has thrown away is no
//! part of it. Of a sealed one it becomes real when a newer one is confirmed, since a restart may
//! need what was taken away; the newer one is that without it. A file without id beside others (a
//! flag, a pointer) is no checkpoint: its unlink amends the newest sealed dataset that has it. One
//! that is not confirmed is sealed again without it; of a confirmed one, which is never taken back,
//! all ranks are told at the next conference that this file is gone.

use std::collections::BTreeSet;

use super::Machine;
use super::keys::{DatasetKey, Deletion, FileRef};
use super::local::{LocalDataset, LocalFile, Phase, Status, Tombstone};
use super::shared::{DatasetState, SharedDataset, SharedSeries};

/// What the program does to a name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Removal<'a> {
    Unlink,
    /// It is renamed to a name that is none of ours.
    Away,
    /// Its content goes on in this dataset under another one.
    Into(&'a DatasetKey),
}

impl<'a> Removal<'a> {
    pub fn into(self) -> Option<&'a DatasetKey> {
        match self {
            Removal::Into(key) => Some(key),
            Removal::Unlink | Removal::Away => None,
        }
    }
}

/// What has come of one, the newest dataset first.
#[derive(Default)]
struct Course {
    answer: Option<Deletion>,
    /// The newest dataset that keeps the file.
    holder: Option<DatasetKey>,
    early_ms: Option<u64>,
    /// It amends the next sealed dataset that has the file.
    amends: bool,
    /// It has amended one that stays as it is.
    amended: bool,
}

impl Machine {
    /// Takes an unlink of a file by the program. Whatever the answer, the name is absent for it
    /// from now on.
    pub fn deleted(&mut self, file: &FileRef, now_ms: u64) -> Deletion {
        self.tick(now_ms);
        self.delete(file, Removal::Unlink)
    }

    /// Takes a rename of a file by the program to a name that is none of ours. The old one is
    /// absent from now on.
    pub fn renamed_out(&mut self, file: &FileRef, now_ms: u64) -> Deletion {
        self.tick(now_ms);
        self.delete(file, Removal::Away)
    }

    /// Notes that the program has moved the directory of a file: the PFS has it under its new name,
    /// and the old one is absent. Like [`Machine::deleted`], but no flush brings the old name back.
    pub fn moved_away(&mut self, file: &FileRef, now_ms: u64) -> Deletion {
        self.tick(now_ms);
        let deletion = self.delete(file, Removal::Away);
        let series = &mut self.series[file.series];
        series.note_moved(&file.name);
        if series.news.deleted.last().is_some_and(|(name, _)| *name == file.name) {
            series.news.moved.push(file.name.clone());
        }
        deletion
    }

    /// Makes the name absent from now on.
    pub(super) fn delete(&mut self, file: &FileRef, removal: Removal<'_>) -> Deletion {
        self.note_name();
        self.note_given_up(file, removal.into());
        let caches = self.keeps_any(file.series) && !self.is_passive();
        let unlinks = matches!(removal, Removal::Unlink) && caches;
        let amends = unlinks && self.is_marker(file) && !self.goes_with_next(file);
        let mut course = Course { amends, ..Course::default() };
        for at in (0..self.series[file.series].datasets.len()).rev() {
            if self.series[file.series].datasets[at].holds(&file.name) {
                self.delete_from(file, at, removal, &mut course);
            }
        }
        let Course { mut answer, holder, early_ms, mut amended, .. } = course;
        // A file of unknown origin on the PFS may be all that the program has to restart from.
        if answer.is_none() && caches {
            answer = Some(Deletion::Deferred);
            self.tell_deleted(file);
            if amends {
                self.series[file.series].news.unlinked.push(file.name.clone());
                amended = true;
            }
        }
        if holder.is_some() || answer == Some(Deletion::Deferred) || amends {
            // A dataset that has the file says when it may go; else any that is confirmed next.
            let waits = holder.is_none() && !amended;
            let above = if waits { self.shared.newest_confirmed(file.series) } else { 0 };
            let name = file.name.clone();
            self.series[file.series].tombstones.push(Tombstone { name, above, holder, early_ms });
        }
        answer.unwrap_or(Deletion::Now)
    }

    fn delete_from(&mut self, file: &FileRef, at: usize, how: Removal<'_>, course: &mut Course) {
        let dataset = &self.series[file.series].datasets[at];
        let (key, status) = (dataset.key.clone(), self.status(&dataset.key));
        let (open, complete) = (status == Status::Open, self.is_complete(dataset));
        let kept = open && self.is_kept_of(file, at, how.into());
        let goes_on = how.into().is_some_and(|into| self.goes_on(file, &key, into));
        // If no agreement comes, the PFS is to see it before it goes.
        let early =
            kept || (open && !goes_on && self.deletes_too_early(file.series, at, &file.name));
        let amends = !open && std::mem::take(&mut course.amends);
        let id = self.shared.find(&key).map_or(0, |dataset| dataset.id);
        if open && !early {
            let revoke = self.remove_from(file, at, goes_on);
            let answer = if revoke { Deletion::NowAfterRevoke } else { Deletion::Now };
            course.answer.get_or_insert(answer);
            return;
        }
        let newest_confirmed = self.shared.newest_confirmed(file.series);
        let series = &mut self.series[file.series];
        let dataset = &mut series.datasets[at];
        if let Some(held) = dataset.files.get_mut(&file.name) {
            (held.deleted, held.deleted_early, held.amended) = (true, early, amends);
        }
        if open && !complete && !kept {
            dataset.abandoned.insert(file.name.clone());
        }
        if early {
            course.early_ms = Some(self.clock_ms);
        }
        course.answer.get_or_insert(Deletion::Deferred);
        if amends {
            series.news.amended.push((file.name.clone(), id));
            course.amended = true;
            self.agreement.changed(2);
            return;
        }
        course.holder.get_or_insert(key);
        if (complete || !open) && id < newest_confirmed {
            self.agreement.changed(1);
        }
    }

    /// Returns the names of files of older datasets that the program has deleted, as far as this
    /// rank knows: a run that begins with `key` is not to have them.
    #[must_use]
    pub fn gone_before(&self, key: &DatasetKey) -> BTreeSet<String> {
        let (local, shared) = (&self.series[key.series], &self.shared.series[key.series].datasets);
        let place = |key: &DatasetKey| shared.iter().position(|one| one.key == *key);
        let Some(at) = place(key) else { return BTreeSet::new() };
        let is_older =
            |key: &DatasetKey| place(key).is_some_and(|older| older < at && shared[older].id > 0);
        let older = local.datasets.iter().filter(|one| is_older(&one.key));
        let deleted = older.flat_map(|one| &one.files).filter(|(_, held)| held.deleted);
        let waits = local.tombstones.iter().filter(|one| one.holder.as_ref().is_none_or(is_older));
        deleted.map(|(name, _)| name).chain(waits.map(|one| &one.name)).cloned().collect()
    }

    /// Returns the newest sealed dataset of each series.
    #[must_use]
    pub fn newest_sealed(&self) -> Vec<DatasetKey> {
        let sealed = |one: &&SharedDataset| {
            matches!(one.state, DatasetState::Provisional | DatasetState::Confirmed)
        };
        let newest = |series: &SharedSeries| series.datasets.iter().rev().find(sealed).cloned();
        self.shared.series.iter().filter_map(newest).map(|dataset| dataset.key).collect()
    }

    /// Takes the file out of a dataset that is to be sealed without it; tells whether its record
    /// has to be revoked.
    fn remove_from(&mut self, file: &FileRef, at: usize, goes_on: bool) -> bool {
        let (count, marker) = (self.agreement.count, self.is_marker(file));
        let datasets = &mut self.series[file.series].datasets;
        let followed = datasets[at + 1..].iter().any(LocalDataset::is_successor);
        let dataset = &mut datasets[at];
        let gives_up = |held: LocalFile| held.is_past(count) || followed;
        if dataset.files.remove(&file.name).is_some_and(gives_up) && !goes_on && !marker {
            dataset.abandoned.insert(file.name.clone());
        }
        let revoke = std::mem::take(&mut dataset.prepared);
        dataset.phase = Phase::Open;
        dataset.touch(self.clock_ms);
        self.agreement.changed(if revoke { 2 } else { 1 });
        revoke
    }

    /// Files of the series are in the cache, perhaps of other ranks.
    fn keeps_any(&self, series: usize) -> bool {
        let series = &self.shared.series[series];
        let sealed = |one: &SharedDataset| one.id > 0 && !one.on_prefix;
        series.routing.caches() || series.datasets.iter().any(sealed)
    }

    /// It names no checkpoint, but lies beside those that are named.
    fn is_marker(&self, file: &FileRef) -> bool {
        file.id.is_none() && self.config.series[file.series].has_id
    }

    /// What the program does to such a file now is part of a checkpoint that this rank has begun.
    fn goes_with_next(&self, file: &FileRef) -> bool {
        let next = self.target(file);
        let begun = self.series[file.series].find(&next).is_some_and(|dataset| dataset.begun);
        begun && !self.is_floating(&next) && self.status(&next) == Status::Open
    }

    /// Takes it back that the program has unlinked a file, which it makes again before others have
    /// heard of that.
    pub(super) fn take_back_amendment(&mut self, file: &FileRef) {
        let series = &mut self.series[file.series];
        series.news.unlinked.retain(|name| *name != file.name);
        if !series.news.amended.iter().any(|(name, _)| *name == file.name) {
            return;
        }
        series.news.amended.retain(|(name, _)| *name != file.name);
        let held = series.datasets.iter_mut().filter_map(|one| one.files.get_mut(&file.name));
        held.for_each(|held| held.amended = false);
    }
}
