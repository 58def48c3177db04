//! Files on the PFS that join a cached dataset when they are renamed: what a program wrote under a
//! temporary name that was not known as one, and checkpoints of earlier runs that it rotates.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::machine::FileRef;
use super::namespace as ns;
use super::runtime::{Session, State};
use crate::error::Result;
use crate::files::{CopyOptions, copy_file};
use crate::system::has_writers;

impl Session {
    /// Whether a file that the program wrote on the PFS under a temporary name, before that name
    /// was known as one, can join the cached files of its dataset. Left on the PFS it would outlive
    /// a dataset that is lost with a node: a pointer file would name a checkpoint that is gone.
    pub(super) fn can_take_in(
        &self,
        state: &State,
        name: Option<&str>,
        from: &Path,
        new: &FileRef,
    ) -> bool {
        let Some(name) = name else { return false };
        let single_file = |found: std::fs::Metadata| found.is_file() && found.nlink() == 1;
        // One that another rank has written: that one would not see it any more.
        let own = || state.books.values().any(|book| book.files.contains_key(name));
        // A checkpoint of an earlier run that the program moves. If that kept its files on the
        // PFS, it would all newer ones of its names. Flushes keep the times of files.
        let is_old = |found: std::time::SystemTime| found < self.site.begun;
        let modified = || from.symlink_metadata().and_then(|found| found.modified());
        let earlier =
            || new.id.is_none() && !state.view.is_in_a_layer(name) && modified().is_ok_and(is_old);
        state.tokens.count(name) == 0
            && (self.match_name(name).is_none() || own() || earlier())
            && from.symlink_metadata().is_ok_and(single_file)
            && has_writers(from).is_ok_and(|found| found == Some(false))
            && self.has_room(state, new).is_some()
    }
}

/// Copies a file of the PFS to its place in the cache.
///
/// # Errors
/// It is not there, not even in part.
pub(super) fn take_in(from: &Path, target: &Path) -> Result<()> {
    ns::remove(target)?;
    let options = CopyOptions { crc32: false, sync: false, ..CopyOptions::default() };
    copy_file(from, target, options).map(drop).inspect_err(|_| drop(ns::remove(target)))
}
