//! Files on the PFS that join a cached dataset when they are renamed: what a program wrote under a
//! temporary name that was not known as one, and checkpoints of earlier runs that it rotates.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::account::tally::Count;
use crate::cache::Setback;
use crate::error::{Error, Result};
use crate::machine::{FileRef, Reason};
use crate::session::{contents::Contents, node::State};
use crate::system::has_writers;

impl Contents {
    /// Tells whether a file that the program wrote on the PFS under a temporary name, before that
    /// name was known as one, can join the cached files of its dataset. Left on the PFS it would
    /// outlive a dataset that is lost with a node: a pointer file would name a lost checkpoint.
    pub(crate) fn can_take_in(
        &self,
        state: &State,
        name: Option<&str>,
        from: &Path,
        new: &FileRef,
    ) -> Result<bool> {
        let Some(name) = name else { return Ok(false) };
        let unknown = |error| Error::io("cannot look at", from, error);
        let found = from.symlink_metadata().map_err(unknown)?;
        let single_file = found.is_file() && found.nlink() == 1;
        // One that another rank has written: that one would not see it any more.
        let own = || state.own.holdings.values().any(|holding| holding.files.contains(name));
        // A checkpoint of an earlier run that the program moves. If that kept its files on the
        // PFS, it would all newer ones of its names. Flushes keep the times of files.
        let is_old = || found.modified().is_ok_and(|modified| modified < self.site.begun);
        let earlier = || new.id.is_none() && !state.view.is_in_a_layer(name) && is_old();
        Ok(state.own.tokens.count(name) == 0
            && (self.rank.match_name(name).is_none() || own() || earlier())
            && single_file
            && has_writers(from).map_err(unknown)? == Some(false))
    }

    /// Counts with the `reason` why the PFS has the file, if it has.
    pub(crate) fn count_named(&self, reason: Option<Reason>, to: &str, bytes: u64) {
        self.rank.tally.one(if reason.is_some() { Count::OnPrefix } else { Count::Cached });
        if let Some(reason) = reason {
            self.rank.tally.passed(reason, to, bytes);
        }
    }

    /// Tells whether the store takes `new` now; `joins` comes from [`Self::can_take_in`].
    pub(crate) fn takes_now(&self, state: &State, joins: Result<bool>, new: &FileRef) -> bool {
        if let Err(error) = joins {
            self.stores.setbacks.met(Setback::Failed(error.to_string()));
            return false;
        }
        self.stores.has_room(state, new).is_some()
    }
}
