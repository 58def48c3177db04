//! Private copies: a sealed file that is opened for update is copied, and the copy becomes the file
//! only if it differs in the end.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::account::tally::Count;
use crate::cache::Setback;
use crate::error::{Error, Result};
use crate::files::{same_content, size_at};
use crate::handles::{LiesAt, Tracked};
use crate::log::{self, messages};
use crate::machine::{DatasetKey, Intent, Placed, Placement, Reason};
use crate::namespace::{self as ns, Answer, OnPrefix, Place, SHADOWS};
use crate::session::{
    contents::co_writers::{CopyChange, CopyStanding, Naming},
    handles::Handles,
    node::State,
    rank::lock,
};
use crate::system::monotonic_ms;

impl Handles {
    /// Leaves the sealed file until it is known whether the program changes it.
    pub(crate) fn copy_up(
        &self,
        state: &mut State,
        name: &str,
        from: &DatasetKey,
        origin: PathBuf,
    ) -> Answer {
        let base = self.contents.begin_copy(state, name, &origin);
        match self.private_copy(state, from, name, &origin) {
            Ok(copy) => {
                let way = LiesAt::Shadow { copy: copy.clone(), origin, base };
                let token = state.own.tokens.issue(Tracked::new(from, name, way));
                Answer::Redirect { path: copy, token }
            }
            Err(error) => {
                self.rank.complain(messages::OPERATION_FAILED, &error);
                Answer::Fail(error.errno())
            }
        }
    }

    /// Makes a copy that only this rank sees; it lies on the PFS if the store cannot have it.
    pub(crate) fn private_copy(
        &self,
        state: &mut State,
        key: &DatasetKey,
        name: &str,
        origin: &Path,
    ) -> Result<PathBuf> {
        let number = self.copy_number();
        let folder = self.site.layout.cache_dir(&self.stores.store_for(state, key)).join(SHADOWS);
        if !lock(&self.stores.kept_out).contains(name) {
            match ns::copy_into(&folder, &number, origin) {
                Ok(copy) => return Ok(copy),
                Err(error) => self.stores.setbacks.met(Setback::of(&folder, &error)),
            }
        }
        ns::copy_into(&self.site.fallback_dir(), &number, origin)
    }

    /// Throws the copy away if it is unchanged.
    pub(crate) fn settle_shadow(&self, state: &mut State, tracked: &Tracked) {
        let LiesAt::Shadow { copy, origin, base } = &tracked.way else { return };
        let changed = !same_content(copy, origin);
        let outcome = match tracked.is_orphan() || state.is_evicted(tracked) {
            true if changed && !tracked.is_orphan() => {
                self.publish_evicted(state, &tracked.name, copy)
            }
            true => Ok(()),
            false => {
                let (name, base) = (tracked.name.as_str(), base.as_ref());
                let change = CopyChange { name, key: None, copy, base };
                self.adopt_copy(state, change, changed)
            }
        };
        state.let_go(Some(origin));
        if let Err(error) = outcome {
            let text = format!("the change of {} could not be kept: {error}", tracked.name);
            self.rank.complain(messages::CHANGE_LOST, &text);
            state.machine.failed(&tracked.key, &text, monotonic_ms());
        }
        state.mates.co_writers.remove(&tracked.name);
        let _ = ns::remove(copy);
    }

    pub(crate) fn adopt_copy(
        &self,
        state: &mut State,
        change: CopyChange<'_>,
        changed: bool,
    ) -> Result<()> {
        let (name, now) = (change.name, monotonic_ms());
        let Some(file) = self.rank.file_ref(name) else { return Ok(()) };
        let size = size_at(change.copy);
        match state.machine.copy_up_closed(&file, changed, now) {
            Placement::Dataset(placed) => match self.keep_copy(state, change, &placed) {
                Ok((CopyStanding::Free, on_prefix)) => {
                    self.rank.tally.one(if on_prefix { Count::OnPrefix } else { Count::Cached });
                    state.machine.write_closed(&placed.key, name, size, now);
                }
                Ok((CopyStanding::Gone, _)) => state.machine.open_failed(&placed.key, name, now),
                Ok((CopyStanding::Taken, _)) => {
                    self.contents.give_up_change(state, &file, Some(&placed))
                }
                Err(error) => {
                    state.machine.open_failed(&placed.key, name, now);
                    return Err(error);
                }
            },
            _ if !changed => {}
            _ => drop(self.publish_copy(state, change)?),
        }
        Ok(())
    }

    /// Returns also whether the file is on the PFS.
    fn keep_copy(
        &self,
        state: &mut State,
        change: CopyChange<'_>,
        placed: &Placed,
    ) -> Result<(CopyStanding, bool)> {
        let (name, change) = (change.name, CopyChange { key: Some(&placed.key), ..change });
        if self.stores.begin_in_cache(state, placed, name) {
            match self.keep_in_cache(state, change, &placed.key) {
                Ok(standing) => return Ok((standing, false)),
                Err(error) => self.stores.set_back(state, &placed.key, name, &error),
            }
        }
        match self.publish_copy(state, change) {
            // The program was told that it has written it: a flush can try again.
            Err(error) => {
                log::message(1, format_args!("rank {}: {error}; cached", self.site.rank));
                let standing = self.keep_in_cache(state, change, &placed.key)?;
                state.machine.kept_in_cache(&placed.key, name);
                Ok((standing, false))
            }
            Ok(standing) => {
                if standing == CopyStanding::Free {
                    state.machine.replaced_on_prefix(&placed.key, name);
                }
                Ok((standing, true))
            }
        }
    }

    fn keep_in_cache(
        &self,
        state: &mut State,
        change: CopyChange<'_>,
        key: &DatasetKey,
    ) -> Result<CopyStanding> {
        let CopyChange { name, copy, .. } = change;
        let Some(dir) = state.view.layer(key).map(|layer| layer.dir.clone()) else {
            return Err(Error::Missing(format!("no directory for {name}")));
        };
        let target = dir.join(name);
        ns::make_parents(&dir, name)?;
        let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
        let near = match device(copy) == device(&dir) {
            true => copy.to_path_buf(),
            // What is done in turn is a rename.
            false => {
                let number = self.copy_number();
                let folder =
                    self.site.layout.cache_dir(&self.stores.store_for(state, key)).join(SHADOWS);
                ns::copy_into(&folder, &number, copy)?
            }
        };
        let naming = Naming { from: &near, to: &target, on_prefix: false };
        let mut put = || match std::fs::rename(&near, &target) {
            // Another rank of the node has done it, which could not wait.
            Err(error) if error.kind() == ErrorKind::NotFound && target.exists() => Ok(()),
            done => done.map_err(|error| Error::io("cannot rename", &near, error)),
        };
        let kept = self.contents.adopt_in_turn(state, change, naming, &mut put);
        if near != copy {
            let _ = ns::remove(&near);
        }
        kept
    }

    /// Tells of a change that cannot be kept, if it has no dataset.
    pub(crate) fn publish_copy(
        &self,
        state: &mut State,
        change: CopyChange<'_>,
    ) -> Result<CopyStanding> {
        let CopyChange { name, key, .. } = change;
        let target = self.site.on_prefix(name);
        let mut standing = CopyStanding::Free;
        let reason = key.and_then(|key| state.machine.reason_of(key, name));
        let reason = reason.unwrap_or(Reason::Evicted);
        let mut in_turn = |staged: &Path, publish: &mut dyn FnMut() -> Result<()>| {
            let naming = Naming { from: staged, to: &target, on_prefix: true };
            standing = self.contents.adopt_in_turn(state, change, naming, publish)?;
            Ok(standing == CopyStanding::Free)
        };
        self.rank.publish_in_turn(change.copy, &target, reason, &mut in_turn)?;
        if let (CopyStanding::Taken, None, Some(file)) = (standing, key, self.rank.file_ref(name)) {
            self.contents.give_up_change(state, &file, None);
        }
        Ok(standing)
    }

    /// Makes the private copy of `name`, which is about to move, the file, with its descriptors.
    /// `false`: it cannot be, since the file would lie on the PFS.
    pub(crate) fn adopt_shadows(&self, state: &mut State, name: &str) -> bool {
        let (tokens, now) = (state.own.tokens.shadows_of(name), monotonic_ms());
        let (Some(file), Some(copy)) =
            (self.rank.file_ref(name), state.own.tokens.shadow_of(name).cloned())
        else {
            return false;
        };
        let Placement::Dataset(placed) = state.machine.copy_up_closed(&file, true, now) else {
            return false;
        };
        let base = tokens.first().and_then(|token| match &state.own.tokens.get(*token)?.way {
            LiesAt::Shadow { base, .. } => base.clone(),
            _ => None,
        });
        let change = CopyChange { name, key: None, copy: &copy, base: base.as_ref() };
        let on_prefix = match self.keep_copy(state, change, &placed) {
            Ok((CopyStanding::Free, on_prefix)) => on_prefix,
            Ok(_) => {
                self.contents.give_up_change(state, &file, Some(&placed));
                return false;
            }
            Err(error) => {
                state.machine.open_failed(&placed.key, name, now);
                self.rank.complain(messages::OPERATION_FAILED, &error);
                return false;
            }
        };
        if on_prefix {
            let size = size_at(&copy);
            state.machine.write_closed(&placed.key, name, size, now);
            return false;
        }
        for _ in 1..tokens.len() {
            state.machine.write_open(&file, Intent::REWRITE, now);
        }
        for token in tokens {
            if let Some(one) = state.own.tokens.get_mut(token) {
                (one.way, one.key) = (LiesAt::Cached, placed.key.clone());
            }
        }
        true
    }

    /// Settles a single call on a path: nothing stays open. Returns where the file is.
    pub(crate) fn settle_change(&self, token: u64) -> Option<PathBuf> {
        let mut state = self.node.state();
        let tracked = state.own.tokens.take(token)?;
        let now = monotonic_ms();
        if let Some(copy) = state.own.tokens.shadow_of(&tracked.name) {
            return Some(copy.clone()); // others have it open still, and see the change
        }
        if let LiesAt::Shadow { copy, base, .. } = &tracked.way {
            let (name, base) = (tracked.name.as_str(), base.as_ref());
            let change = CopyChange { name, key: None, copy, base };
            self.rank.complain_if_failed(
                messages::CHANGE_LOST,
                self.adopt_copy(&mut state, change, true),
            );
        } else if tracked.way != LiesAt::Temporary {
            let size = self.node.size_of(&state, &tracked);
            state.machine.write_closed(&tracked.key, &tracked.name, size, now);
        }
        match state.view.place(&tracked.name) {
            Place::Cached(_, here) | Place::Private(here) => Some(here),
            _ => None,
        }
    }

    /// Publishes the change of a file that left the cache while it was open, into no dataset,
    /// which would be newer than all others.
    pub(crate) fn publish_evicted(&self, state: &mut State, name: &str, copy: &Path) -> Result<()> {
        let target = self.site.on_prefix(name);
        if state.view.place(name) == Place::Prefix && ns::on_prefix(&target) == OnPrefix::Absent {
            return Ok(()); // deleted meanwhile
        }
        self.publish_copy(state, CopyChange { name, key: None, copy, base: None }).map(drop)
    }
}
