//! Files on the PFS that join a cached dataset when they are renamed: what a program wrote under a
//! temporary name that was not known as one, and checkpoints of earlier runs that it rotates.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::answer::Answer;
use super::machine::{self, FileRef};
use super::namespace as ns;
use super::runtime::{Session, State};
use crate::error::Result;
use crate::files::{CopyOptions, copy_file};
use crate::log;
use crate::system::{has_writers, monotonic_ms};

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

    /// Moves a file from the PFS into the cached dataset; one that cannot be moved stays on the
    /// PFS, and the dataset is not complete without it. What is given as the `last` name is for
    /// the program's eyes only gone: its deletion is not due.
    pub(super) fn take_in(
        &self,
        state: &mut State,
        (last, from): (Option<&str>, &Path),
        to: &str,
        key: &machine::DatasetKey,
    ) -> Result<Answer> {
        let Some(layer) = state.view.layer(key) else { return Ok(Answer::PASS) };
        let target = layer.dir.join(to);
        let options = CopyOptions { crc32: false, sync: false, ..CopyOptions::default() };
        let moved = ns::make_parents(&layer.dir, to)
            .and_then(|()| ns::remove(&target))
            .and_then(|()| copy_file(from, &target, options).map(|_| ()));
        if let Err(error) = moved {
            ns::remove(&target)?;
            let reason = format!("{to} could not be moved into the cache");
            state.machine.failed(key, &reason, monotonic_ms());
            log::warn_once("take in", format_args!("{error}; the file stays on the PFS"));
            return Ok(Answer::PASS);
        }
        match last.filter(|name| !state.view.is_in_a_layer(name)) {
            Some(name) => state.view.delete(name),
            None => ns::remove(from)?,
        }
        self.replace_private(state, &self.site.on_prefix(to));
        state.enter_file(key, to, false);
        Ok(Answer::Done)
    }
}
