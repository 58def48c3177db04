//! One file of this rank to the prefix by itself: ahead of its dataset, or as part of none.
//!
//! Whatever a rank brings there file by file has a reason, which is counted and logged. The caller
//! tells the machine and the view (`State::now_on_prefix` if the file stays in its dataset).

use std::path::Path;

use crate::cache::disk::describe;
use crate::error::Result;
use crate::events::Event;
use crate::files::size_at;
use crate::machine::Reason;
use crate::session::rank::Rank;
use crate::transfer::{is_published, publish_file, publish_file_if, publish_unsealed};

/// Renames the copy, at the first argument, by calling the second; says whether it has.
pub(crate) type InTurn<'a> =
    &'a mut dyn FnMut(&Path, &mut dyn FnMut() -> Result<()>) -> Result<bool>;

impl Rank {
    /// Brings a file to the prefix: staged beside its place, synced, renamed. After an error what
    /// was at the target is untouched. Local.
    pub(crate) fn publish(&self, source: &Path, target: &Path, reason: Reason) -> Result<()> {
        let bytes = size_at(source);
        publish_file(&self.site.prefix, source, target)?;
        self.note_published(target, reason, bytes);
        Ok(())
    }

    /// Lets those who wait for the file see it grow (`transfer::Awaited`).
    pub(crate) fn publish_awaited(&self, source: &Path, target: &Path) -> Result<()> {
        let bytes = size_at(source);
        publish_unsealed(&self.site.prefix, source, target)?;
        self.note_published(target, Reason::Wanted, bytes);
        Ok(())
    }

    /// Gives the file its name when others of the node let it, if they do. Returns whether it has
    /// it.
    pub(crate) fn publish_in_turn(
        &self,
        source: &Path,
        target: &Path,
        reason: Reason,
        in_turn: InTurn<'_>,
    ) -> Result<bool> {
        let bytes = size_at(source);
        let published = publish_file_if(&self.site.prefix, source, target, in_turn)?;
        if published {
            self.note_published(target, reason, bytes);
        }
        Ok(published)
    }

    fn note_published(&self, target: &Path, reason: Reason, bytes: u64) {
        let name = self.name_of(target).unwrap_or_default();
        self.tally.passed(reason, name, bytes);
        self.event(|| {
            let note = format!("{name}: {}", reason.text());
            Event::new("PUBLISHED").size(1, bytes).note(note)
        });
    }

    /// Brings the file that the program calls `name` to its place. `false`: it is not there; that
    /// was told.
    pub(crate) fn publish_or_tell(&self, name: &str, source: &Path, reason: Reason) -> bool {
        let target = self.on_prefix_now(name);
        let done = self.publish(source, &target, reason);
        if let Err(error) = &done {
            self.tell_unpublished(name, source, error);
        }
        done.is_ok()
    }

    pub(crate) fn has_the_same(&self, name: &str, here: &Path) -> bool {
        let target = self.site.on_prefix(name);
        describe(here, name).is_ok_and(|meta| is_published(&target, &meta))
    }
}
