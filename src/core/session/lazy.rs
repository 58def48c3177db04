//! Openers of a sealed file that could write and mostly only read (DESIGN section 4, "Intent"):
//! they get the sealed copy itself, and a private one before the first change. The shim sees all
//! changes but those of code that calls the kernel by itself; those are found at the close.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::answer::Answer;
use super::books::{Stamp, Tracked, Way};
use super::machine::{self, DatasetKey, Placement};
use super::namespace::{self as ns, Intent, Place};
use super::opening::Manner;
use super::runtime::{Session, State};
use super::space::{descriptor_info, open_alike};
use crate::error::{Error, Result};
use crate::log;
use crate::system::monotonic_ms;

impl Session {
    /// The sealed file at `origin`, to be read for the time being.
    pub(super) fn open_lazily(
        &self,
        state: &mut State,
        name: &str,
        from: &DatasetKey,
        origin: &Path,
    ) -> Answer {
        let way = Way::Lazy { stamp: stamp(origin) };
        let tracked = Tracked { key: from.clone(), name: name.to_string(), way, made: false };
        let token = state.tokens.issue_lazy(tracked);
        Answer::Redirect { path: origin.to_path_buf(), token }
    }

    /// The names for which `which` holds are about to mean something else: their readers get
    /// their private copies before. Not with the state locked.
    pub(super) fn wake(&self, which: impl Fn(&Tracked) -> bool) {
        let lazy = self.state().tokens.lazy(which);
        lazy.into_iter().for_each(|token| (self.site.host.wake)(token));
    }

    /// The same for a path.
    pub(super) fn wake_path(&self, path: &Path) {
        if let Some(name) = self.name_of(path) {
            self.wake(|one| one.name == name);
        }
    }

    /// The first change through `fd` is about to be made: the file is opened as if just now, with
    /// the promise to change it. `None` if `token` is not a reader of a sealed copy.
    pub(super) fn wake_lazy(&self, token: u64, fd: i32) -> Result<Option<File>> {
        let tracked = self.state().tokens.get(token).cloned();
        let Some(Tracked { way: Way::Lazy { .. }, name, .. }) = tracked else { return Ok(None) };
        let gone = || Error::Other(format!("{name} cannot be copied to be changed"));
        let (flags, _) = descriptor_info(fd)?;
        let matched = self.match_name(&name).ok_or_else(gone)?;
        let intent = Intent::of(flags & libc::O_ACCMODE);
        let answer = self.open_for_writing(&name, &matched, intent, Manner::Changing);
        let (path, own) = match answer {
            Answer::Redirect { path, token } => (path, token),
            Answer::Pass { token } => (self.site.on_prefix(&name), token),
            _ => return Err(gone()),
        };
        match open_alike(fd, &path) {
            Ok(file) => {
                self.state().tokens.replace(token, own);
                Ok(Some(file))
            }
            Err(error) => {
                self.opened(own, -1, libc::EIO);
                Err(error)
            }
        }
    }

    /// The last descriptor of a reader was closed. A change behind our back becomes a version of
    /// its own, as it would have been; the sealed one fails its checksum from now on.
    pub(super) fn closed_lazy(&self, state: &mut State, tracked: &Tracked, before: Stamp) {
        let Place::Cached(key, here) = state.view.place(&tracked.name) else { return };
        let Some(file) = self.file_ref(&tracked.name) else { return };
        if key != tracked.key || stamp(&here).is_none_or(|now| now == before) {
            return;
        }
        let wish = machine::Intent { truncates: false, creates: false };
        let now = monotonic_ms();
        match state.machine.write_open(&file, wish, now) {
            // In progress again: others may change it in place.
            Placement::Dataset(placed) => {
                let size = here.metadata().map_or(0, |found| found.len());
                if self.record_begin(state, &placed.key, placed.begin, placed.revoke).is_err() {
                    state.machine.failed(&placed.key, "its record cannot be changed", now);
                }
                state.machine.write_closed(&placed.key, &tracked.name, size, now);
            }
            Placement::CopyUp { .. } => {
                let kept = self.private_copy(state, &key, &here).and_then(|copy| {
                    let kept = self.adopt_copy(state, tracked, &copy, true);
                    let _ = ns::remove(&copy);
                    kept
                });
                if let Err(error) = kept {
                    log::warn_once("lazy", format_args!("rank {}: {error}", self.site.rank));
                }
            }
            Placement::Pass => {}
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    path.metadata().ok().map(|found| (found.len(), found.mtime(), found.mtime_nsec()))
}
