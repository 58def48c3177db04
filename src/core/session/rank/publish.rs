//! One file of this rank to the prefix by itself: ahead of its dataset, or as part of none.
//!
//! Whatever a rank brings there file by file goes through here, so that it has a reason, which is
//! counted and logged. What the machine and the view are to know of it, the caller tells them: that
//! depends on where the file comes from ([`State::now_on_prefix`] if it stays in its dataset).

use std::path::Path;

use super::runtime::{Session, State};
use crate::cache::disk::describe;
use crate::error::Result;
use crate::events::Event;
use crate::log::messages;
use crate::machine::{DatasetKey, Reason};
use crate::transfer::{is_published, publish_file, publish_file_if, publish_unsealed};

/// Renames the copy, at the first argument, by calling the second; says whether it has.
pub(in crate::session) type InTurn<'a> =
    &'a mut dyn FnMut(&Path, &mut dyn FnMut() -> Result<()>) -> Result<bool>;

/// When the copy of a file gets its name on the prefix.
pub(in crate::session) enum Gate<'a> {
    /// As soon as it is there.
    Open,
    /// The same; those who wait for it see it grow (`transfer::Awaited`).
    Awaited,
    /// When others of the node let it, if they do.
    InTurn(InTurn<'a>),
}

/// A file that goes to the prefix.
#[derive(Clone, Copy)]
pub(in crate::session) struct Single<'a> {
    /// Where it is.
    pub source: &'a Path,
    /// Its place below the prefix directory.
    pub target: &'a Path,
    /// Why it goes there.
    pub reason: Reason,
}

impl Session {
    /// Brings a file to the prefix: staged beside its place, synced, renamed as `gate` says. Local.
    /// Returns whether it has its name.
    ///
    /// # Errors
    /// A file operation failed; what was at the target is untouched then.
    pub(in crate::session) fn publish(&self, one: Single<'_>, gate: Gate<'_>) -> Result<bool> {
        let (prefix, Single { source, target, reason }) = (&self.site.prefix, one);
        let bytes = source.metadata().map_or(0, |found| found.len());
        let published = match gate {
            Gate::Open => publish_file(prefix, source, target).map(|_| true)?,
            Gate::Awaited => publish_unsealed(prefix, source, target).map(|_| true)?,
            Gate::InTurn(publish_if) => publish_file_if(prefix, source, target, publish_if)?,
        };
        if published {
            let name = self.name_of(target).unwrap_or_default();
            self.tally.passed(reason, name, bytes);
            self.event(|| {
                let note = format!("{name}: {}", reason.text());
                Event::new("PUBLISHED").size(1, bytes).note(note)
            });
        }
        Ok(published)
    }

    /// Brings the file that the program calls `name` from `source` to its place there and then.
    /// Returns whether it is there; if not, that was told.
    pub(in crate::session) fn publish_or_tell(
        &self,
        name: &str,
        source: &Path,
        reason: Reason,
    ) -> bool {
        let target = self.on_prefix_now(name);
        let done = self.publish(Single { source, target: &target, reason }, Gate::Open);
        if let Err(error) = &done {
            self.tell_unpublished(name, source, error);
        }
        done.is_ok()
    }

    /// Tells whether the prefix has under `name` what is at `here`.
    pub(in crate::session) fn has_the_same(&self, name: &str, here: &Path) -> bool {
        let target = self.site.on_prefix(name);
        describe(here, name).is_ok_and(|meta| is_published(&target, &meta))
    }

    /// Notes in the record of each dataset of calls that has `name` from this rank that the prefix
    /// has the last word on it. If it cannot, a crash undoes what the program has done.
    pub(in crate::session) fn note_left(&self, state: &State, name: &str) {
        let series = self.series.series();
        for key in state.holdings.keys().filter(|key| series[key.series].explicit) {
            if let Err(error) = self.site.filemap.leave(&self.record_key(key), name) {
                self.complain(messages::RECORD_NOT_WRITTEN, &error);
            }
        }
    }

    /// Notes that the program has deleted `name` of the complete dataset `key`: in the record of
    /// the rank that has the file, and on each node, so that no loss of one brings it back.
    pub(in crate::session) fn note_gone(&self, state: &State, key: &DatasetKey, name: &str) {
        let leads =
            || self.links().is_some_and(|it| it.node_ranks.first() == Some(&self.site.rank));
        let own = state.holdings.get(key).is_some_and(|holding| holding.files.contains(name));
        if (own || leads())
            && let Err(error) = self.site.filemap.note_left(&self.record_key(key), name)
        {
            self.complain(messages::RECORD_NOT_WRITTEN, &error);
        }
    }
}

impl State {
    /// Notes that the prefix has this rank's file of `key`, which stays in that dataset.
    pub fn now_on_prefix(&mut self, key: &DatasetKey, name: &str, reason: Reason) {
        self.machine.moved_to_prefix(key, name, reason);
        self.enter_file(key, name, true);
    }
}
