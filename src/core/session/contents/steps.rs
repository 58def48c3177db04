//! What calls that change names are made of: a name is deleted, forgotten, moved.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::log::messages;
use crate::machine::{self, DatasetKey, Deletion, FileRef};
use crate::namespace::{self as ns, Layer, OnPrefix, Place};
use crate::restart::thrown::last_change;
use crate::session::{contents::Contents, node::State, rank::lock};
use crate::system::monotonic_ms;
use crate::transfer::{mark_removed, unmark_removed};

/// Checkpoints in the cache alone whose removal by the program is noted; a start asks for the
/// newest of them.
const MARKS_MAX: usize = 64;

impl Contents {
    /// Tells whether `name` can have anything to do with us.
    pub(crate) fn concerns(&self, state: &State, name: &str) -> bool {
        self.rank.match_name(name).is_some() || state.view.changes(name)
    }

    /// Tells whether a cached dataset of the program's calls has `name`, and no pattern matches it.
    pub(crate) fn is_called(&self, state: &State, name: &str) -> bool {
        let series = self.rank.series.series();
        let called = |layer: &&Layer| !layer.hidden && series[layer.key.series].is_explicit();
        state.view.layers().iter().filter(called).any(|layer| layer.knows(name))
            && !state.view.is_left_alone(name)
            && self.rank.match_name(name).is_none()
    }

    /// Takes `name` out of what the program sees, and out of the world if `deletion` says so.
    pub(crate) fn delete(
        &self,
        state: &mut State,
        name: &str,
        place: &Place,
        deletion: Deletion,
    ) -> Result<()> {
        self.mark_removal(name, deletion);
        if deletion == Deletion::Deferred {
            let cached = match place {
                Place::Cached(_, here) => Some(here.as_path()),
                _ => None,
            };
            let doomed = ns::Doomed::of(&self.site.on_prefix(name), cached);
            lock(&self.removals).doomed.insert(name.to_string(), doomed);
            state.view.note_old(name, ns::look_at(&self.site.on_prefix(name)));
            state.view.delete(name);
            return Ok(());
        }
        state.own.tokens.orphan(name);
        match place {
            Place::Cached(key, here) => {
                let revoked = match deletion {
                    Deletion::NowAfterRevoke => {
                        self.site.filemap.revoke(&self.rank.record_key(key))
                    }
                    _ => Ok(()),
                };
                // In a store that cannot remove it, it is hidden; a start finds it as if the run
                // had been killed right before.
                let landed = self.rank.has_the_same(name, here);
                let removed = revoked.and_then(|()| ns::remove(here));
                if landed {
                    // A thread had brought it there, since no agreement came for long.
                    ns::remove(&self.site.on_prefix(name))?;
                }
                state.leave_file(key, name);
                match removed {
                    Ok(()) => self.hide_older(state, name),
                    Err(_) => state.view.delete(name),
                }
                Ok(())
            }
            _ => {
                ns::remove(&self.site.on_prefix(name))?;
                state.leave_all(name);
                self.hide_older(state, name);
                Ok(())
            }
        }
    }

    /// Hides what an older dataset, or the PFS, may hold of a name that is gone.
    fn hide_older(&self, state: &mut State, name: &str) {
        if state.view.place(name) != Place::Prefix
            || ns::on_prefix(&self.site.on_prefix(name)) != OnPrefix::Absent
        {
            state.view.delete(name);
        }
    }

    /// Notes that the program itself is about to remove a file of a checkpoint: else the next start
    /// takes it for somebody's word.
    pub(crate) fn mark_removal(&self, name: &str, deletion: Deletion) {
        let Some(file) = self.rank.file_ref(name) else { return };
        let mark = (file.series, file.id.unwrap_or_default());
        let mut removals = lock(&self.removals);
        if removals.marked.contains(&mark) {
            return;
        }
        let is_cached = ns::on_prefix(&self.site.on_prefix(name)) == OnPrefix::Absent;
        if is_cached && deletion != Deletion::Deferred {
            return;
        }
        let series = |at: usize| &self.rank.series.series()[at].name;
        // Where the PFS refuses it, it will hardly let the file be removed.
        let _ = mark_removed(&self.site.prefix, series(mark.0), &mark.1);
        removals.marked.insert(mark.clone());
        removals.cached.extend(is_cached.then_some(mark));
        if removals.cached.len() > MARKS_MAX
            && let Some(old) = removals.cached.pop_front()
        {
            unmark_removed(&self.site.prefix, series(old.0), &old.1);
            removals.marked.remove(&old);
        }
    }

    /// Returns what the program has deleted of datasets older than `key`, with the last change of
    /// the prefix's files of these names: for its record.
    pub(crate) fn gone_before(&self, key: &DatasetKey) -> BTreeMap<String, u64> {
        let names = self.node.state().machine.gone_before(key);
        if names.is_empty() {
            return BTreeMap::new();
        }
        let record = self.site.filemap.get(&self.rank.record_key(key));
        let mut gone = record.map(|record| record.gone).unwrap_or_default();
        for name in names {
            let (now, place) =
                (last_change(&self.site.on_prefix(&name)), self.node.state().view.place(&name));
            // It may have come to be again, in the cache or on the prefix.
            if let Some(time) = self.node.state().view.brought(&name) {
                gone.insert(name, time);
            } else if place == Place::Deleted || (place == Place::Prefix && now == 0) {
                gone.entry(name).or_insert(now);
            }
        }
        gone
    }

    /// Notes what a death before the ranks confer would bring back.
    pub(crate) fn note_thrown_away(&self) {
        if self.node.state().view.take_thrown_away() {
            self.note_gone_of_older();
        }
    }

    pub(crate) fn note_gone_of_older(&self) {
        let newest = self.node.state().machine.newest_sealed();
        for key in newest {
            let gone = self.gone_before(&key);
            self.rank.complain_if_failed(
                messages::RECORD_NOT_WRITTEN,
                self.site.filemap.note_gone(&self.rank.record_key(&key), gone),
            );
        }
    }

    /// Returns what the patterns say of a file that gets another name.
    pub(crate) fn leaving(&self, name: &str) -> Option<FileRef> {
        self.mark_removal(name, Deletion::Deferred);
        self.rank.file_ref(name)
    }

    /// Removes what the PFS has of `name`, whose deletion is real now. `false`: another rank's file
    /// has come to that name since, and stays.
    pub(crate) fn remove_deleted(&self, state: &mut State, name: &str) -> Result<bool> {
        let path = self.site.on_prefix(name);
        let doomed = lock(&self.removals).doomed.remove(name);
        if doomed.is_some_and(|doomed| !doomed.is_at(&path)) {
            state.view.moved_to_prefix(name);
            state.view.settle(name);
            return Ok(false);
        }
        match ns::on_prefix(&path) {
            OnPrefix::Absent => Ok(true),
            _ => ns::remove(&path).map(|()| true),
        }
    }

    /// Forgets a file on the PFS that moves away under a name that is not ours.
    pub(crate) fn forget(&self, state: &mut State, name: &str) {
        self.mark_removal(name, Deletion::Now);
        if let Some(file) = self.rank.file_ref(name)
            && state.machine.renamed_out(&file, monotonic_ms()) != Deletion::Deferred
        {
            state.own.tokens.orphan(name);
        }
        state.leave_all(name);
        state.view.lay(name); // a dataset may have held an older file of that name
        self.hide_older(state, name);
    }

    pub(crate) fn after_move(
        &self,
        state: &mut State,
        key: &machine::DatasetKey,
        name: &str,
        deletion: Option<Deletion>,
    ) {
        match deletion {
            Some(Deletion::Deferred) => state.view.delete(name),
            _ => {
                state.leave_file(key, name);
                self.hide_older(state, name);
            }
        }
    }

    /// Removes directories that the program has removed and that have lost their last file.
    pub(crate) fn remove_empty_dirs(&self) {
        let mut state = self.node.state();
        let names: Vec<String> = state.view.removed_dirs().rev().map(str::to_string).collect();
        for name in names {
            if std::fs::remove_dir(self.site.on_prefix(&name)).is_ok() {
                state.view.settle_dir(&name);
            }
        }
    }
}
