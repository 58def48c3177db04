//! The program takes names away.

use super::matters::deletions::{Tombstone, deletes_too_early};
use super::parts::Machine;
use super::state::{Deleted, LocalDataset, LocalFile, Phase, Status};
use super::terms::{DatasetKey, Deletion, FileRef, Gone};

#[derive(Debug, Clone, Copy)]
pub enum Removal<'a> {
    Unlink,
    /// The new name is none of ours.
    Away,
    /// The content goes on in this dataset under another name.
    Into(&'a DatasetKey),
}

/// What has come of a removal, the newest dataset first.
#[derive(Default)]
struct Removed {
    unlinks: bool,
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
    /// Takes an unlink of a file by the program; the name is absent for it from now on.
    pub fn deleted(&mut self, file: &FileRef, now_ms: u64) -> Deletion {
        self.facts.tick(now_ms);
        self.delete(file, Removal::Unlink)
    }

    pub(crate) fn renamed_out(&mut self, file: &FileRef, now_ms: u64) -> Deletion {
        self.facts.tick(now_ms);
        self.delete(file, Removal::Away)
    }

    /// Notes that the program has moved the directory of a file, which the PFS has under its new
    /// name. No flush brings the old name back.
    pub fn moved_away(&mut self, file: &FileRef, now_ms: u64) -> Deletion {
        self.facts.tick(now_ms);
        let deletion = self.delete(file, Removal::Away);
        self.facts.series[file.series].note_moved(&file.name);
        self.others.tell_moved(file);
        deletion
    }

    /// Tells whether a file of a dataset in progress is all that there may be: ranks of one node
    /// write it together, under one name for all checkpoints, and it is complete. When it is
    /// deleted for the next one, that is in the ranks' caches until it is sealed, and would be lost
    /// with them.
    fn is_all_there_is(&self, file: &FileRef, at: usize) -> bool {
        let (facts, series) = (&self.facts, file.series);
        let held = facts.series[series].datasets[at].files.get(&file.name);
        !facts.config.series[series].has_id
            && !facts.is_passive()
            && held.is_some_and(|held| held.is_past(facts.agreement.count))
            && self.watch.has_co_writers(facts, file)
    }

    pub(super) fn delete(&mut self, file: &FileRef, removal: Removal<'_>) -> Deletion {
        self.telling.note_name();
        let into = match removal {
            Removal::Into(key) => Some(key),
            Removal::Unlink | Removal::Away => None,
        };
        self.keeping.note_given_up(&self.facts, file, into);
        let caches = self.facts.keeps_any(file.series) && !self.facts.is_passive();
        let unlinks = matches!(removal, Removal::Unlink);
        let amends =
            unlinks && caches && self.facts.is_marker(file) && !self.facts.goes_with_next(file);
        let mut course = Removed { unlinks, amends, ..Removed::default() };
        for at in (0..self.facts.series[file.series].datasets.len()).rev() {
            if self.facts.series[file.series].datasets[at].holds(&file.name) {
                self.delete_from(file, at, into, &mut course);
            }
        }
        let Removed { mut answer, holder, early_ms, mut amended, .. } = course;
        // A file of unknown origin on the PFS may be all that the program has to restart from.
        if answer.is_none() && caches {
            answer = Some(Deletion::Deferred);
            self.others.tell_deleted(&mut self.facts, file);
            if amends {
                self.deletions.note_unlinked(file);
                amended = true;
            }
        }
        if holder.is_some() || answer == Some(Deletion::Deferred) || amends {
            // A dataset that has the file says when it may go; else any that is confirmed next.
            let waits = holder.is_none() && !amended;
            let above = if waits { self.facts.shared.newest_confirmed(file.series) } else { 0 };
            let name = file.name.clone();
            self.deletions.bury(file.series, Tombstone { name, above, holder, early_ms });
        }
        answer.unwrap_or(Deletion::Now)
    }

    fn delete_from(
        &mut self,
        file: &FileRef,
        at: usize,
        into: Option<&DatasetKey>,
        course: &mut Removed,
    ) {
        let dataset = &self.facts.series[file.series].datasets[at];
        let (key, status) = (dataset.key.clone(), self.facts.status(&dataset.key));
        let (open, complete) = (status == Status::Open, self.facts.is_complete(dataset));
        let kept = open && self.facts.is_kept_of(file, at, into);
        let goes_on = into.is_some_and(|into| self.facts.goes_on(file, &key, into));
        // If no agreement comes, the PFS is to see it before it goes.
        let too_early = || {
            deletes_too_early(&self.facts, file.series, at, &file.name)
                || (course.unlinks && self.is_all_there_is(file, at))
        };
        let early = kept || (open && !goes_on && too_early());
        let amends = !open && std::mem::take(&mut course.amends);
        let id = self.facts.id_of(&key);
        if open && !early {
            let revoke = self.remove_from(file, at, goes_on, course.unlinks);
            let answer = if revoke { Deletion::NowAfterRevoke } else { Deletion::Now };
            course.answer.get_or_insert(answer);
            return;
        }
        let newest_confirmed = self.facts.shared.newest_confirmed(file.series);
        let dataset = &mut self.facts.series[file.series].datasets[at];
        if let Some(held) = dataset.files.get_mut(&file.name) {
            held.deleted = match (early, amends) {
                (true, _) => Deleted::Early,
                (false, true) => Deleted::Amended,
                (false, false) => Deleted::Yes,
            };
        }
        if open && !complete && !kept {
            dataset.abandoned.insert(file.name.clone());
        }
        if early {
            course.early_ms = Some(self.facts.clock_ms);
        }
        course.answer.get_or_insert(Deletion::Deferred);
        if amends {
            self.deletions.note_amended(file, id);
            course.amended = true;
            self.facts.agreement.changed(2);
            return;
        }
        course.holder.get_or_insert(key);
        if (complete || !open) && id < newest_confirmed {
            self.facts.agreement.changed(1);
        }
    }

    /// Takes the file out of a dataset that is to be sealed without it; tells whether its record
    /// has to be revoked.
    fn remove_from(&mut self, file: &FileRef, at: usize, goes_on: bool, unlinks: bool) -> bool {
        let (count, marker) = (self.facts.agreement.count, self.facts.is_marker(file));
        let has_id = self.facts.config.series[file.series].has_id;
        let datasets = &mut self.facts.series[file.series].datasets;
        let followed = datasets[at + 1..].iter().any(LocalDataset::is_successor);
        let dataset = &mut datasets[at];
        let removed = dataset.files.remove(&file.name);
        let gives_up = |held: &LocalFile| held.is_past(count) || followed;
        if removed.as_ref().is_some_and(gives_up) && !goes_on && !marker {
            dataset.abandoned.insert(file.name.clone());
        }
        if let Some(mut held) = removed.filter(|_| !has_id) {
            held.deleted = if unlinks { Deleted::Yes } else { Deleted::Renamed };
            dataset.left.insert(file.name.clone(), held);
        }
        let revoke = std::mem::take(&mut dataset.prepared);
        dataset.phase = Phase::Open;
        dataset.touch(self.facts.clock_ms);
        self.facts.agreement.changed(if revoke { 2 } else { 1 });
        revoke
    }

    /// Returns the deletions that the helper thread is to carry out now. A pointer file goes with
    /// the last file of its checkpoint, if there is a newer one.
    pub fn overdue_deletions(&mut self, now_ms: u64) -> Vec<Gone> {
        self.deletions.overdue_deletions(&mut self.facts, now_ms)
    }

    /// Returns `false` if nobody is to hear of the deletion, or of the name's return.
    pub(crate) fn note_deletions(&mut self) -> bool {
        self.telling.note_deletions(&self.facts)
    }
}
