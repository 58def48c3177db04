//! Renames: the end of writing a file, or, without ids, the begin of a checkpoint whose program
//! first moves the files of its last ones out of the way (`s.1` to `s.2`, `s` to `s.1`).
//!
//! Nothing says which of the two a rename is. If the first one of a rotation is taken for the last
//! one of a checkpoint, it changes that one, which is sealed, and of which the next rename then
//! takes a file away: it would never be known to be complete.
//!
//! The same with copies (`s` to `s.1`, then a new `s`): `s.1` appears when the second checkpoint
//! begins, and looks like a late part of the first. If that stayed so, each checkpoint would be
//! complete only when the next one begins.

use std::collections::BTreeSet;

use super::Machine;
use super::keys::{DatasetKey, FileRef, Placement, Renamed};
use super::knowledge::{Why, kind_hash, name_hash};
use super::local::Status;
use super::local::{LocalDataset, LocalFile};
use super::reason::Reason;
use super::shared::DatasetState;
use crate::patterns::Template;

impl Machine {
    /// Takes a rename of a file by the program; at least one end matched a pattern. The new name
    /// counts as written and closed (with `bytes` bytes; open descriptors go along to the new
    /// name). `keep`: why the file cannot be moved into the cache and stays on the PFS, if so.
    pub fn renamed(
        &mut self,
        from: Option<&FileRef>,
        to: Option<&FileRef>,
        bytes: u64,
        keep: Option<Reason>,
        now_ms: u64,
    ) -> Renamed {
        self.tick(now_ms);
        let open = from.map_or(0, |file| self.open_count(file));
        let to = to.filter(|to| !self.is_passive() && !self.is_left_alone(to));
        let into = to.map(|to| self.target_of_rename(from, to));
        if let Some((from, to)) = from.zip(to) {
            self.learn_new_name(from, to);
        }
        let deletion = from.map(|file| self.delete(file, into.as_ref()));
        let placement = match to.zip(into) {
            Some((to, into)) => {
                // What would be there anyhow, or since a cache fails, says nothing of the program.
                let fails = self.falls_back || self.shared.fallen_back;
                let stays = self.stays_on_prefix(to);
                let spoils = keep.is_some() && stays.is_none() && !fails;
                if spoils && to.masked == to.name && self.has_older(to) {
                    // Its older versions are gone: no roll-back is consistent.
                    self.mark_unsafe(to, Why::Stays);
                }
                let keep = keep.map(|keep| stays.unwrap_or(keep));
                self.note_rewrite(to, &into);
                let placed = self.put(to, into, keep);
                self.note_anew(&placed.key, to, true);
                if open == 0 {
                    self.write_closed(&placed.key, &to.name, bytes, now_ms);
                } else if let Some(dataset) = self.series[to.series].find_mut(&placed.key)
                    && let Some(file) = dataset.files.get_mut(&to.name)
                {
                    file.open += open - 1; // those of the replaced file will be closed, too
                }
                Placement::Dataset(placed)
            }
            None => Placement::Pass,
        };
        Renamed { from: deletion, to: placement }
    }

    /// Who writes the file under its new name is known, if it is cached under the old one. Without
    /// ids it must not be the one newer file on a PFS that has the others from an older checkpoint:
    /// if the cache is lost, that is all there is.
    fn learn_new_name(&mut self, from: &FileRef, to: &FileRef) {
        let cached = |key: &DatasetKey| !self.file_is_on_prefix(key, &from.name);
        let known = self.holder(from).is_some_and(|(key, _)| cached(&key));
        if known && from.series == to.series && !self.config.series[to.series].has_id {
            let series = &mut self.series[to.series];
            if series.kinds.insert(kind_hash(&to.masked)) {
                series.written.insert(name_hash(&to.masked)); // others may write it, too
            }
        }
    }

    fn has_older(&self, file: &FileRef) -> bool {
        let mut datasets = self.series[file.series].datasets.iter();
        datasets.any(|dataset| dataset.files.contains_key(&file.name))
    }

    fn open_count(&self, file: &FileRef) -> u32 {
        let Some((key, Status::Open)) = self.holder(file) else { return 0 };
        let dataset = self.series[file.series].find(&key);
        dataset.and_then(|dataset| dataset.files.get(&file.name)).map_or(0, |file| file.open)
    }

    fn target_of_rename(&self, from: Option<&FileRef>, to: &FileRef) -> DatasetKey {
        let key = self.target(to);
        match from {
            Some(from) if self.is_moved_aside(from, to, &key) || self.leads(&key, to) => {
                DatasetKey { generation: key.generation + 1, ..key }
            }
            _ => key,
        }
    }

    /// The file is one of the checkpoint `key`, which is over: the program makes room for its next
    /// one. Of the first ones of a series nothing is known but that it has been quiet, and what
    /// names look like.
    fn is_moved_aside(&self, from: &FileRef, to: &FileRef, key: &DatasetKey) -> bool {
        let holder = self.holder(from).filter(|(holder, _)| holder == key);
        let Some((_, status)) = holder.filter(|_| !self.config.series[to.series].has_id) else {
            return false;
        };
        let over = || match self.is_full(key) {
            Some(full) => full,
            None => status == Status::Provisional && !loses_decoration(from, to),
        };
        self.written_before(key, from) && over()
    }

    /// This rank's part of a dataset without id has all files that the last complete one had: those
    /// that a checkpoint lacks while it is being written get their last names then. `None`: there
    /// is nothing to compare it with.
    fn is_full(&self, key: &DatasetKey) -> Option<bool> {
        self.is_full_but(key, &BTreeSet::new())
    }

    fn is_full_but(&self, key: &DatasetKey, names: &BTreeSet<u64>) -> Option<bool> {
        let local = &self.series[key.series];
        let mut confirmed = self.shared.series[key.series].datasets.iter().rev();
        let last = confirmed.find(|dataset| dataset.state == DatasetState::Confirmed)?;
        let last = local.find(&last.key).filter(|last| !last.files.is_empty())?;
        let mut wanted = last.files.iter().filter(|(_, file)| !names.contains(&file.masked));
        local.find(key).map(|own| wanted.all(|(name, _)| own.files.contains_key(name)))
    }

    /// Tells whether this rank's dataset at `at` keeps the file, which the program deletes or moves
    /// `into` a later one: it was part of a checkpoint that is over. What has been written since
    /// the last sync point or seal is part of the next one, under a temporary name that matches,
    /// too.
    pub(super) fn is_kept_of(&self, file: &FileRef, at: usize, into: Option<&DatasetKey>) -> bool {
        let dataset = &self.series[file.series].datasets[at];
        let key = &dataset.key;
        let over = || match into {
            Some(into) => into != key && self.goes_on(file, key, into),
            None => self.is_full(key) == Some(true),
        };
        !self.config.series[file.series].has_id
            && self.written_before(key, file)
            && !dataset.is_added(&file.name)
            && over()
    }

    /// Tells whether a file of `key` that is moved into `into` goes on there, and is not given up.
    /// On the PFS there is just one of it: the older dataset does not have it any more.
    pub(super) fn goes_on(&self, file: &FileRef, key: &DatasetKey, into: &DatasetKey) -> bool {
        into == key || (into.same_group(key) && !self.file_is_on_prefix(key, &file.name))
    }
}

impl Machine {
    /// Tells whether, without ids, the program begins the checkpoint after `newest` with this file.
    pub(super) fn leads(&self, newest: &DatasetKey, file: &FileRef) -> bool {
        let local = &self.series[newest.series];
        let count = self.agreement.count;
        let is_over = |dataset: &LocalDataset| {
            !dataset.holds(&file.name) && dataset.files.values().all(|file| file.is_past(count))
        };
        local.leaders.contains(&name_hash(&file.masked))
            && local.find(newest).is_some_and(is_over)
            && self.is_full_but(newest, &local.leaders) != Some(false)
    }

    /// Notes that the checkpoint `next` begins. What the one before got long after the rest of it
    /// and shortly before this, with a sync point before but none since, is a part of this one: so
    /// it will be from the next one on. (With a sync point since it could be the last part of the
    /// one before, of a program that takes as long for a part as for the way to its next
    /// checkpoint.)
    pub(super) fn note_leaders(&mut self, next: &DatasetKey) {
        const TIMES_NEARER: u64 = 2;
        let (local, count) = (&self.series[next.series], self.agreement.count);
        if self.config.series[next.series].has_id || local.find(next).is_some() {
            return;
        }
        let Some(dataset) = next.before().and_then(|before| local.find(&before)) else { return };
        let mut files: Vec<&LocalFile> = dataset.files.values().collect();
        files.sort_by_key(|file| file.closed_ms);
        let is_late = |pair: &[&LocalFile]| {
            let (rest, late) = (pair[0], pair[1]);
            let near_ms = self.clock_ms.saturating_sub(late.closed_ms);
            let far_ms = late.closed_ms.saturating_sub(rest.closed_ms);
            rest.is_past(count)
                && (late.open == 0 && !late.is_past(count))
                && near_ms * TIMES_NEARER <= far_ms
        };
        let Some(at) = files.windows(2).position(is_late) else { return };
        let leaders = files[at + 1..].iter().map(|file| file.masked).collect();
        self.series[next.series].leaders = leaders;
    }
}

/// The old name is the new one with something around it.
fn loses_decoration(from: &FileRef, to: &FileRef) -> bool {
    Template::learn(&from.name, &to.name).is_some_and(|template| template.strips())
}
