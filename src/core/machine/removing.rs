//! The program takes names away.

use super::matters::deletions::{Tombstone, deletes_too_early};
use super::parts::Machine;
use super::state::dataset::{LocalDataset, Phase, Standing};
use super::state::file::{Deleted, LocalFile};
use super::terms::answers::{Deletion, Gone};
use super::terms::keys::{DatasetKey, FileRef};

/// What the program does to a name.
#[derive(Debug, Clone, Copy)]
pub enum Removal<'a> {
    Unlink,
    /// It is renamed to a name that is none of ours.
    Away,
    /// Its content goes on in this dataset under another one.
    Into(&'a DatasetKey),
}

impl<'a> Removal<'a> {
    pub fn into_key(self) -> Option<&'a DatasetKey> {
        match self {
            Removal::Into(key) => Some(key),
            Removal::Unlink | Removal::Away => None,
        }
    }
}

/// What has come of one, the newest dataset first.
#[derive(Default)]
struct Removed {
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
        self.ledger.tick(now_ms);
        self.delete(file, Removal::Unlink)
    }

    /// Takes a rename of a file by the program to a name that is none of ours. The old one is
    /// absent from now on.
    pub fn renamed_out(&mut self, file: &FileRef, now_ms: u64) -> Deletion {
        self.ledger.tick(now_ms);
        self.delete(file, Removal::Away)
    }

    /// Notes that the program has moved the directory of a file: the PFS has it under its new name,
    /// and the old one is absent. Like [`Machine::deleted`], but no flush brings the old name back.
    pub fn moved_away(&mut self, file: &FileRef, now_ms: u64) -> Deletion {
        self.ledger.tick(now_ms);
        let deletion = self.delete(file, Removal::Away);
        self.ledger.series[file.series].note_moved(&file.name);
        self.others.tell_moved(file);
        deletion
    }

    /// Makes the name absent from now on.
    pub(super) fn delete(&mut self, file: &FileRef, removal: Removal<'_>) -> Deletion {
        self.telling.note_name();
        self.keeping.note_given_up(&self.ledger, file, removal.into_key());
        let caches = self.ledger.keeps_any(file.series) && !self.ledger.is_passive();
        let unlinks = matches!(removal, Removal::Unlink) && caches;
        let amends = unlinks && self.ledger.is_marker(file) && !self.ledger.goes_with_next(file);
        let mut course = Removed { amends, ..Removed::default() };
        for at in (0..self.ledger.series[file.series].datasets.len()).rev() {
            if self.ledger.series[file.series].datasets[at].holds(&file.name) {
                self.delete_from(file, at, removal, &mut course);
            }
        }
        let Removed { mut answer, holder, early_ms, mut amended, .. } = course;
        // A file of unknown origin on the PFS may be all that the program has to restart from.
        if answer.is_none() && caches {
            answer = Some(Deletion::Deferred);
            self.others.tell_deleted(&mut self.ledger, file);
            if amends {
                self.deletions.note_unlinked(file);
                amended = true;
            }
        }
        if holder.is_some() || answer == Some(Deletion::Deferred) || amends {
            // A dataset that has the file says when it may go; else any that is confirmed next.
            let waits = holder.is_none() && !amended;
            let above = if waits { self.ledger.shared.newest_confirmed(file.series) } else { 0 };
            let name = file.name.clone();
            self.deletions.bury(file.series, Tombstone { name, above, holder, early_ms });
        }
        answer.unwrap_or(Deletion::Now)
    }

    fn delete_from(&mut self, file: &FileRef, at: usize, how: Removal<'_>, course: &mut Removed) {
        let dataset = &self.ledger.series[file.series].datasets[at];
        let (key, status) = (dataset.key.clone(), self.ledger.status(&dataset.key));
        let (open, complete) = (status == Standing::Open, self.ledger.is_complete(dataset));
        let kept = open && self.ledger.is_kept_of(file, at, how.into_key());
        let goes_on = how.into_key().is_some_and(|into| self.ledger.goes_on(file, &key, into));
        // If no agreement comes, the PFS is to see it before it goes.
        let early = kept
            || (open && !goes_on && deletes_too_early(&self.ledger, file.series, at, &file.name));
        let amends = !open && std::mem::take(&mut course.amends);
        let id = self.ledger.id_of(&key);
        if open && !early {
            let revoke = self.remove_from(file, at, goes_on);
            let answer = if revoke { Deletion::NowAfterRevoke } else { Deletion::Now };
            course.answer.get_or_insert(answer);
            return;
        }
        let newest_confirmed = self.ledger.shared.newest_confirmed(file.series);
        let dataset = &mut self.ledger.series[file.series].datasets[at];
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
            course.early_ms = Some(self.ledger.clock_ms);
        }
        course.answer.get_or_insert(Deletion::Deferred);
        if amends {
            self.deletions.note_amended(file, id);
            course.amended = true;
            self.ledger.agreement.changed(2);
            return;
        }
        course.holder.get_or_insert(key);
        if (complete || !open) && id < newest_confirmed {
            self.ledger.agreement.changed(1);
        }
    }

    /// Takes the file out of a dataset that is to be sealed without it; tells whether its record
    /// has to be revoked.
    fn remove_from(&mut self, file: &FileRef, at: usize, goes_on: bool) -> bool {
        let (count, marker) = (self.ledger.agreement.count, self.ledger.is_marker(file));
        let datasets = &mut self.ledger.series[file.series].datasets;
        let followed = datasets[at + 1..].iter().any(LocalDataset::is_successor);
        let dataset = &mut datasets[at];
        let gives_up = |held: LocalFile| held.is_past(count) || followed;
        if dataset.files.remove(&file.name).is_some_and(gives_up) && !goes_on && !marker {
            dataset.abandoned.insert(file.name.clone());
        }
        let revoke = std::mem::take(&mut dataset.prepared);
        dataset.phase = Phase::Open;
        dataset.touch(self.ledger.clock_ms);
        self.ledger.agreement.changed(if revoke { 2 } else { 1 });
        revoke
    }
    /// Deletions whose time has come: the helper thread carries them out. A pointer file goes with
    /// the last file of its checkpoint, if there is a newer one.
    pub fn overdue_deletions(&mut self, now_ms: u64) -> Vec<Gone> {
        self.deletions.overdue_deletions(&mut self.ledger, now_ms)
    }
    /// Notes that the program has deleted a name on this rank, or made it again. `false`: nobody is
    /// to hear.
    pub fn note_deletions(&mut self) -> bool {
        self.telling.note_deletions(&self.ledger)
    }
}
