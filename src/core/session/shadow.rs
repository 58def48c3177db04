//! Private copies: a sealed file that is opened for update is copied, and the copy becomes the file
//! only if it differs in the end.

use std::path::{Path, PathBuf};

use super::answer::Answer;
use super::books::{Room, Tracked, Way};
use super::machine::{DatasetKey, Intent, Placed, Placement};
use super::namespace::{self as ns, Place};
use super::opening::SHADOWS;
use super::runtime::{Session, State};
use crate::error::Result;
use crate::log;
use crate::system::monotonic_ms;
use crate::transfer::publish_file;

impl Session {
    /// The sealed copy stays; the program gets its own until it is known whether it changes it.
    pub(super) fn copy_up(
        &self,
        state: &mut State,
        name: &str,
        from: &DatasetKey,
        origin: PathBuf,
    ) -> Answer {
        match self.private_copy(state, from, &origin) {
            Ok(copy) => {
                let way = Way::Shadow { copy: copy.clone(), origin };
                let token = state.tokens.issue(Tracked::new(from, name, way));
                Answer::Redirect { path: copy, token }
            }
            Err(error) => {
                log::warn_once("copy-up", format_args!("rank {}: {error}", self.site.rank));
                Answer::Fail(libc::ENOSPC)
            }
        }
    }

    /// A copy of `origin` that only this rank sees; on the PFS if the store has no room for it.
    pub(super) fn private_copy(
        &self,
        state: &mut State,
        key: &DatasetKey,
        origin: &Path,
    ) -> Result<PathBuf> {
        state.shadows += 1;
        let number = format!("{}.{}", self.site.rank, state.shadows);
        let folder = self.site.layout.cache_dir(&self.store_for(state, key)).join(SHADOWS);
        match copy_into(&folder, &number, origin) {
            Err(error) if error.is_no_room() => {
                self.shortage.met(&folder);
                copy_into(&self.refuge(), &number, origin)
            }
            made => made,
        }
    }

    /// Where private copies lie that the store has no room for.
    pub(super) fn refuge(&self) -> PathBuf {
        self.site.state_dir().join(ns::REFUGE)
    }

    /// The close of the last descriptor on a private copy: unchanged it is thrown away.
    pub(super) fn settle_shadow(
        &self,
        state: &mut State,
        tracked: &Tracked,
        copy: &Path,
        origin: &Path,
    ) {
        let changed = !same_content(copy, origin);
        let outcome = match tracked.is_orphan() || self.is_evicted(state, tracked) {
            true if changed && !tracked.is_orphan() => {
                self.publish_evicted(state, &tracked.name, copy)
            }
            true => Ok(()),
            false => self.adopt_copy(state, tracked, copy, changed),
        };
        self.let_go(state, Some(origin));
        if let Err(error) = outcome {
            let text = format!("the change of {} could not be kept: {error}", tracked.name);
            log::warn_once("change", format_args!("rank {}: {text}", self.site.rank));
            state.machine.failed(&tracked.key, &text, monotonic_ms());
        }
        let _ = ns::remove(copy);
    }

    /// A changed private copy becomes the file, in the dataset that the machine names.
    pub(super) fn adopt_copy(
        &self,
        state: &mut State,
        tracked: &Tracked,
        copy: &Path,
        changed: bool,
    ) -> Result<()> {
        let Some(file) = self.file_ref(&tracked.name) else { return Ok(()) };
        let now = monotonic_ms();
        let name = &tracked.name;
        let size = copy.metadata().map_or(0, |found| found.len());
        match state.machine.copy_up_closed(&file, changed, now) {
            Placement::Dataset(placed) => match self.keep_copy(state, name, &placed, copy) {
                Ok(_) => state.machine.write_closed(&placed.key, name, size, now),
                Err(error) => {
                    state.machine.open_failed(&placed.key, name, now);
                    return Err(error);
                }
            },
            _ if !changed => {}
            _ => drop(publish_file(&self.site.prefix, copy, &self.site.on_prefix(name))?),
        }
        Ok(())
    }

    /// Returns whether it is on the PFS.
    fn keep_copy(
        &self,
        state: &mut State,
        name: &str,
        placed: &Placed,
        copy: &Path,
    ) -> Result<bool> {
        self.record_begin(state, &placed.key, placed.begin, placed.revoke)?;
        let mut on_prefix = placed.on_prefix;
        let layer = state.view.layer(&placed.key).filter(|_| !on_prefix);
        if let Some(layer) = layer {
            let kept = ns::make_parents(&layer.dir, name)
                .and_then(|()| self.move_file(copy, &layer.dir.join(name), false));
            match kept {
                Err(error) if error.is_no_room() => {
                    let store = self.store_for(state, &placed.key);
                    self.shortage.met(self.site.layout.cache_dir(&store));
                    on_prefix = true;
                    state.machine.moved_to_prefix(&placed.key, name);
                }
                other => other?,
            }
        }
        if on_prefix
            && let Err(error) = publish_file(&self.site.prefix, copy, &self.site.on_prefix(name))
        {
            // The program was told that it has written it: a flush can try again.
            log::message(1, format_args!("rank {}: {error}; cached", self.site.rank));
            let Some(layer) = state.view.layer(&placed.key) else { return Err(error) };
            ns::make_parents(&layer.dir, name)?;
            self.move_file(copy, &layer.dir.join(name), false)?;
            state.machine.kept_in_cache(&placed.key, name);
            on_prefix = false;
        }
        state.enter_file(&placed.key, name, on_prefix);
        Ok(on_prefix)
    }

    /// `name` is about to move: its private copy becomes the file, with the descriptors that are
    /// open on it. `false`: it cannot, since the file would lie on the PFS.
    pub(super) fn adopt_shadows(&self, state: &mut State, name: &str) -> bool {
        let (tokens, now) = (state.tokens.shadows_of(name), monotonic_ms());
        let (Some(file), Some(copy)) = (self.file_ref(name), state.tokens.shadow_of(name).cloned())
        else {
            return false;
        };
        let Placement::Dataset(placed) = state.machine.copy_up_closed(&file, true, now) else {
            return false;
        };
        let on_prefix = match self.keep_copy(state, name, &placed, &copy) {
            Ok(on_prefix) => on_prefix,
            Err(error) => {
                state.machine.open_failed(&placed.key, name, now);
                log::warn_once("copy-up", format_args!("rank {}: {error}", self.site.rank));
                return false;
            }
        };
        if on_prefix {
            let size = copy.metadata().map_or(0, |found| found.len());
            state.machine.write_closed(&placed.key, name, size, now);
            return false;
        }
        for _ in 1..tokens.len() {
            state.machine.write_open(&file, Intent::REWRITE, now);
        }
        for token in tokens {
            if let Some(one) = state.tokens.get_mut(token) {
                (one.way, one.key) = (Way::Cached, placed.key.clone());
            }
        }
        true
    }

    /// The files of these private copies have lost their name: no change of them counts any more.
    pub(super) fn forget_shadows(&self, state: &mut State, tokens: &[u64]) {
        for token in tokens {
            let way = state.tokens.take(*token).map(|tracked| tracked.way);
            if let Some(Way::Shadow { copy, origin }) = way {
                let _ = ns::remove(&copy);
                self.let_go(state, Some(&origin));
            }
        }
    }

    /// The call on the path that `token` stands for is a single one: nothing stays open. Returns
    /// where the file is.
    pub(super) fn settle_change(&self, token: u64) -> Option<PathBuf> {
        let mut state = self.state();
        let tracked = state.tokens.take(token)?;
        let now = monotonic_ms();
        if let Some(copy) = state.tokens.shadow_of(&tracked.name) {
            return Some(copy.clone()); // others have it open still, and see the change
        }
        if let Way::Shadow { copy, .. } = &tracked.way {
            let copy = copy.clone();
            if let Err(error) = self.adopt_copy(&mut state, &tracked, &copy, true) {
                log::warn_once("change", format_args!("rank {}: {error}", self.site.rank));
            }
        } else if tracked.way != Way::Temporary {
            let size = self.size_of(&state, &tracked);
            state.machine.write_closed(&tracked.key, &tracked.name, size, now);
        }
        match state.view.place(&tracked.name) {
            Place::Cached(_, here) | Place::Private(here) => Some(here),
            _ => None,
        }
    }
}

/// Another descriptor on the private copy of `name`.
pub(super) fn share(state: &mut State, name: &str) -> Answer {
    let twin = state.tokens.all().find_map(|(_, one)| match &one.way {
        Way::Shadow { copy, .. } if one.name == name => Some((copy.clone(), one.clone())),
        _ => None,
    });
    let Some((path, twin)) = twin else { return Answer::PASS };
    // What is reserved stays with the descriptor that asked for it.
    let token = state.tokens.issue(Tracked { room: Room::default(), ..twin });
    Answer::Redirect { path, token }
}

fn copy_into(folder: &Path, name: &str, origin: &Path) -> Result<PathBuf> {
    let copy = folder.join(name);
    let made = ns::make_parents(folder, name).and_then(|()| ns::copy_up(origin, &copy));
    if made.is_err() {
        let _ = ns::remove(&copy);
    }
    made.map(|()| copy)
}

/// Whether both files hold the same bytes; false if either cannot be read.
fn same_content(one: &Path, other: &Path) -> bool {
    use std::io::Read as _;
    let compare = || -> std::io::Result<bool> {
        let (mut a, mut b) = (std::fs::File::open(one)?, std::fs::File::open(other)?);
        let mut left = a.metadata()?.len();
        if left != b.metadata()?.len() {
            return Ok(false);
        }
        let (mut x, mut y) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        while left > 0 {
            let count = left.min(1 << 20) as usize;
            a.read_exact(&mut x[..count])?;
            b.read_exact(&mut y[..count])?;
            if x[..count] != y[..count] {
                return Ok(false);
            }
            left -= count as u64;
        }
        Ok(true)
    };
    compare().unwrap_or(false)
}
