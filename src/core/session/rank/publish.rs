//! One file of this rank to the prefix by itself: ahead of its dataset, or as part of none.
//!
//! Whatever a rank brings there file by file has a reason, which is counted and logged. The caller
//! tells the machine and the view (`State::now_on_prefix` if the file stays in its dataset).

use std::path::Path;

use crate::cache::disk::describe;
use crate::error::Result;
use crate::events::Event;
use crate::machine::Reason;
use crate::session::rank::Rank;
use crate::transfer::{is_published, publish_file, publish_file_if, publish_unsealed};

/// Renames the copy, at the first argument, by calling the second; says whether it has.
pub(crate) type InTurn<'a> =
    &'a mut dyn FnMut(&Path, &mut dyn FnMut() -> Result<()>) -> Result<bool>;

/// When the copy of a file gets its name on the prefix.
pub(crate) enum PublishGate<'a> {
    /// As soon as it is there.
    Open,
    /// The same; those who wait for it see it grow (`transfer::Awaited`).
    Awaited,
    /// When others of the node let it, if they do.
    InTurn(InTurn<'a>),
}

/// A file that goes to the prefix.
#[derive(Clone, Copy)]
pub(crate) struct SingleFile<'a> {
    /// Where it is.
    pub source: &'a Path,
    /// Its place below the prefix directory.
    pub target: &'a Path,
    /// Why it goes there.
    pub reason: Reason,
}

impl Rank {
    /// Brings a file to the prefix: staged beside its place, synced, renamed as `gate` says. Local.
    /// Returns whether it has its name.
    ///
    /// # Errors
    /// A file operation failed; what was at the target is untouched then.
    pub(crate) fn publish(&self, one: SingleFile<'_>, gate: PublishGate<'_>) -> Result<bool> {
        let (prefix, SingleFile { source, target, reason }) = (&self.site.prefix, one);
        let bytes = source.metadata().map_or(0, |found| found.len());
        let published = match gate {
            PublishGate::Open => publish_file(prefix, source, target).map(|_| true)?,
            PublishGate::Awaited => publish_unsealed(prefix, source, target).map(|_| true)?,
            PublishGate::InTurn(publish_if) => publish_file_if(prefix, source, target, publish_if)?,
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

    /// Brings the file that the program calls `name` to its place. `false`: it is not there; that
    /// was told.
    pub(crate) fn publish_or_tell(&self, name: &str, source: &Path, reason: Reason) -> bool {
        let target = self.on_prefix_now(name);
        let done = self.publish(SingleFile { source, target: &target, reason }, PublishGate::Open);
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
