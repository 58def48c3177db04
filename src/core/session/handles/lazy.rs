//! Openers of a sealed file that could write and mostly only read (DESIGN section 4, "Intent"):
//! they get the sealed copy itself, and a private one before the first change. The shim sees all
//! changes but those of code that calls the kernel by itself; those are found at the close.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::log;
use crate::session::machine::{self, DatasetKey, Placement};
use crate::session::names::opening::{Manner, SHADOWS};
use crate::session::namespace::answer::Answer;
use crate::session::namespace::{self as ns, Intent, Place};
use crate::session::rank::books::{Stamp, Tracked, Way};
use crate::session::rank::runtime::{Session, State};
use crate::session::stores::space::{descriptor_info, open_alike};
use crate::system::monotonic_ms;

impl Session {
    /// The sealed file at `origin`, to be read for the time being.
    pub(in crate::session) fn open_lazily(
        &self,
        state: &mut State,
        name: &str,
        from: &DatasetKey,
        origin: &Path,
    ) -> Answer {
        let way = Way::Lazy { stamp: stamp(origin), kept: None };
        let token = state.tokens.issue_lazy(Tracked::new(from, name, way));
        Answer::Redirect { path: origin.to_path_buf(), token }
    }

    /// The names for which `which` holds are about to mean something else: their readers get
    /// their private copies before, and what children have written is taken back. Not with the
    /// state locked.
    pub(in crate::session) fn wake(&self, which: impl Fn(&Tracked) -> bool) {
        let lazy = self.end_loans().tokens.lazy(which);
        lazy.into_iter().for_each(|token| self.site.host.wake(token));
    }

    /// The same for a path.
    pub(in crate::session) fn wake_path(&self, path: &Path) {
        if let Some(name) = self.name_of(path) {
            self.wake(|one| one.name == name);
        }
    }

    /// The first change through `fd` is about to be made: the file is opened as if just now, with
    /// the promise to change it. `None` if `token` is not a reader of a sealed copy.
    pub(in crate::session) fn wake_lazy(&self, token: u64, fd: i32) -> Result<Option<File>> {
        let name = {
            let mut state = self.state();
            match state.tokens.get(token).cloned() {
                Some(mut tracked @ Tracked { way: Way::Lazy { .. }, .. }) => {
                    if state.view.place(&tracked.name) == Place::Deleted {
                        state.tokens.orphan_readers(&tracked.name);
                        tracked = state.tokens.get(token).cloned().unwrap_or(tracked);
                    }
                    if tracked.is_orphan() || self.is_evicted(&state, &tracked) {
                        return self.wake_alone(&mut state, token, fd, tracked).map(Some);
                    }
                    tracked.name
                }
                _ => return Ok(None),
            }
        };
        let gone = || Error::Missing(format!("{name} cannot be copied to be changed"));
        let (flags, _) = descriptor_info(fd)?;
        let matched = self.match_name(&name).ok_or_else(gone)?;
        let intent = Intent::of(flags & (libc::O_ACCMODE | libc::O_APPEND));
        loop {
            let answer = self.open_for_writing(&name, &matched, intent, Manner::Changing);
            let (path, own) = match answer {
                Answer::Redirect { path, token } => (path, token),
                Answer::Pass { token } => (self.site.on_prefix(&name), token),
                _ => return Err(gone()),
            };
            match open_alike(fd, &path) {
                Ok(file) => {
                    let replaced = self.state().tokens.replace(token, own);
                    if !replaced {
                        self.closed(own); // as the reader was, by another thread
                    }
                    return Ok(Some(file));
                }
                Err(error) if self.opened(own, -1, error.errno()) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// The same for a file that only its descriptors lead to. If its dataset has left the cache,
    /// the change goes to the PFS, at once if that has the file; if it was deleted, nowhere.
    fn wake_alone(&self, state: &mut State, token: u64, fd: i32, tracked: Tracked) -> Result<File> {
        let orphan = tracked.is_orphan();
        let Tracked { key, name, way: Way::Lazy { kept, .. }, .. } = tracked else {
            return Err(Error::Missing(format!("{} is not open on a sealed copy", tracked.name)));
        };
        let here = PathBuf::from(format!("/proc/self/fd/{fd}"));
        let there = self.site.on_prefix(&name);
        if !orphan
            && stamp(&there).is_some_and(|flushed| stamp(&here) == Some(flushed))
            && let Ok(file) = open_alike(fd, &there)
        {
            state.tokens.take(token);
            self.let_go(state, kept.as_deref());
            return Ok(file);
        }
        let shared = state.tokens.shadow_of(&name).cloned();
        if shared.is_none() {
            state.rivals.remove(&name);
        }
        let copy = shared.map_or_else(|| self.private_copy(state, &key, &name, &here), Ok)?;
        let file = open_alike(fd, &copy)?;
        if let Some(one) = state.tokens.get_mut(token) {
            one.way = Way::Shadow { copy, origin: kept.unwrap_or_default(), base: None };
        }
        Ok(file)
    }

    /// Removes the name that an eviction has left, unless another reader needs it.
    pub(in crate::session) fn let_go(&self, state: &State, kept: Option<&Path>) {
        let is_ours = |path: &&Path| path.parent().is_some_and(|folder| folder.ends_with(SHADOWS));
        let kept = kept.filter(is_ours);
        let needs = |way: &Way| match way {
            Way::Lazy { kept: other, .. } => other.as_deref() == kept,
            Way::Shadow { origin, .. } => Some(origin.as_path()) == kept,
            _ => false,
        };
        if let Some(kept) = kept.filter(|_| !state.tokens.all().any(|(_, one)| needs(&one.way))) {
            let _ = ns::remove(kept);
        }
    }

    /// The last descriptor of a reader was closed. A change behind our back becomes a version of
    /// its own, as it would have been; the sealed one fails its checksum from now on.
    pub(in crate::session) fn closed_lazy(
        &self,
        state: &mut State,
        tracked: &Tracked,
        (before, kept): (Option<Stamp>, Option<&Path>),
    ) {
        if let Some(kept) = kept {
            if !tracked.is_orphan() && stamp(kept) != before && self.is_evicted(state, tracked) {
                self.tell_unkept(self.publish_evicted(state, &tracked.name, kept));
            }
            return self.let_go(state, Some(kept));
        }
        let Some(before) = before else { return };
        let Place::Cached(key, here) = state.view.place(&tracked.name) else { return };
        let Some(file) = self.file_ref(&tracked.name) else { return };
        if key != tracked.key || stamp(&here).is_none_or(|now| now == before) {
            return;
        }
        if let Some(of) = state.of_another(&tracked.name) {
            let kept = self.keep_change_of_another(state, (&file, &of), &here);
            return self.tell_unkept(kept);
        }
        let wish = machine::Intent::UPDATE;
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
                let base = self.begin_copy(state, &tracked.name, &here);
                let kept = self.private_copy(state, &key, &tracked.name, &here).and_then(|copy| {
                    let kept = self.adopt_copy(state, tracked, (&copy, base.as_ref()), true);
                    let _ = ns::remove(&copy);
                    kept
                });
                self.tell_unkept(kept);
            }
            Placement::Pass => {}
        }
    }

    fn tell_unkept(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            log::warn_once("lazy", format_args!("rank {}: {error}", self.site.rank));
        }
    }
}

/// As the file at `path` is now.
pub(in crate::session) fn stamp(path: &Path) -> Option<Stamp> {
    path.metadata().ok().map(|found| (found.len(), found.mtime(), found.mtime_nsec()))
}
