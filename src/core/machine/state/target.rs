//! Which dataset a write belongs to.

use super::dataset::{Phase, Status};
use super::facts::RunFacts;
use super::file::{Begun, Deleted, LocalFile};
use super::shared::Routing;
use crate::machine::terms::{DatasetKey, FileRef, Intent};

impl RunFacts {
    pub fn target(&self, file: &FileRef) -> DatasetKey {
        let series = file.series;
        let has_id = self.config.series[series].has_id;
        let id = match &file.id {
            Some(id) => id.as_str(),
            None if has_id => return self.companion_target(file),
            None => "",
        };
        let Some(newest) = self.newest(series, id) else {
            return DatasetKey::new(series, id, self.series[series].left.after_evicted(id));
        };
        let next = DatasetKey::new(series, id, newest.generation + 1);
        let again = !has_id && self.written_before(&newest, file);
        if self.shared.find(&newest).is_some_and(|dataset| dataset.restored) {
            return next; // what the restart found stays as it was, and older than what follows
        }
        match self.status(&newest) {
            Status::Open | Status::Provisional if again => next,
            Status::Open | Status::Provisional => newest,
            Status::Confirmed | Status::Dropped => next,
        }
    }

    /// A file without id beside files with one belongs to the dataset in progress here, else the
    /// one known to be in progress, else the newest provisional one; but not to one that has the
    /// file from before. Else it floats until a conference.
    fn companion_target(&self, file: &FileRef) -> DatasetKey {
        let series = file.series;
        let local = &self.series[series];
        let in_progress = |begun: bool| {
            let mut newest = local.datasets.iter().rev().filter(move |dataset| {
                let floating = dataset.key.id.is_empty();
                !floating && dataset.begun >= begun && self.status(&dataset.key) == Status::Open
            });
            newest.next().map(|dataset| dataset.key.clone())
        };
        let free = |key: &DatasetKey| !self.written_before(key, file) || self.goes_on_now(key);
        let provisional = || {
            let newest = self.shared.series[series].datasets.last()?;
            let ours = !newest.restored && self.status(&newest.key) == Status::Provisional;
            ours.then(|| newest.key.clone())
        };
        let floating = || {
            let mut open = local.datasets.iter().filter(|dataset| dataset.key.id.is_empty());
            let key = open.find(|dataset| dataset.phase == Phase::Open);
            key.map(|dataset| dataset.key.clone())
        };
        // What floats already is older than this write of the same file, and gives way to it.
        let afloat =
            floating().filter(|key| local.find(key).is_some_and(|own| own.holds(&file.name)));
        afloat
            .or_else(|| {
                in_progress(true).or_else(|| in_progress(false)).or_else(provisional).filter(free)
            })
            .or_else(floating)
            .unwrap_or_else(|| DatasetKey::new(series, "", local.floating))
    }

    /// This rank has written to a file with an id of this dataset since the last sync point: the
    /// program makes that checkpoint anew, with what lies beside it.
    fn goes_on_now(&self, key: &DatasetKey) -> bool {
        let own = self.own(key);
        let written = |held: &LocalFile| !held.named.bare && !held.is_past(self.agreement.count);
        own.is_some_and(|own| own.files.values().any(written))
    }

    /// Tells whether what the program does to such a file now is part of a checkpoint that this
    /// rank has begun.
    pub fn goes_with_next(&self, file: &FileRef) -> bool {
        let next = self.target(file);
        let begun = self.series[file.series].find(&next).is_some_and(|dataset| dataset.begun);
        begun && !self.is_floating(&next) && self.status(&next) == Status::Open
    }

    /// Tells whether, without ids, the program changes a file of its last checkpoint in place, and
    /// so begins the next one. While learning that is not sure of a file that was made anew, or is
    /// only appended to: it may be the rest of the checkpoint, which the next open tells. See
    /// `expect_append`.
    pub fn is_changed_again(&mut self, key: &DatasetKey, file: &FileRef, intent: Intent) -> bool {
        let again = !self.config.series[key.series].has_id && self.written_before(key, file);
        let learns = self.shared.series[key.series].routing == Routing::Learning;
        if again && learns && !intent.together {
            let held = self.file_mut(key, &file.name);
            if let Some(anew) = held.filter(|held| held.begun == Begun::Anew) {
                anew.begun = Begun::GoesOn;
                return false;
            }
            return !intent.appends;
        }
        again
    }

    /// Notes that what this rank has written of the file is no more, or no longer all of it. What
    /// it has renamed counts if others write it, too: they know that they have written it.
    pub fn note_gone(&mut self, file: &FileRef, together: bool) {
        for dataset in &mut self.series[file.series].datasets {
            let left = dataset.left.get_mut(&file.name);
            let left = left.filter(|left| together || left.deleted != Deleted::Renamed);
            let held = dataset.files.get_mut(&file.name).into_iter().chain(left);
            held.for_each(|file| file.outlived = true);
        }
    }

    pub fn note_anew(&mut self, key: &DatasetKey, file: &FileRef, intent: Intent) {
        if let Some(held) = self.file_mut(key, &file.name) {
            held.begun = if intent.truncates { Begun::Anew } else { Begun::Made };
        }
    }
}
