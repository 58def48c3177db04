//! A store that is full or fails in the middle of a write: file and descriptor move to the PFS.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::account::tally::Count;
use crate::cache::Setback;
use crate::error::{Error, Result};
use crate::files::{CopyOptions, copy_file};
use crate::handles::open_alike;
use crate::handles::{LiesAt, Room, Tracked};
use crate::machine::Reason;
use crate::namespace::{self as ns, Place};
use crate::session::{node::State, stores::Stores};
use crate::system::test_pause;

impl Stores {
    pub(crate) fn met(&self, token: u64, errno: i32) {
        let state = self.node.state();
        if let Some(one) = state.own.tokens.get(token).filter(|one| self.is_in_store(one)) {
            let source = std::io::Error::from_raw_os_error(errno);
            let error = Error::io("cannot write", &one.name, source);
            let store = self.store_for(&state, &one.key);
            self.setbacks.met(Setback::of(self.site.layout.cache_dir(&store), &error));
        }
    }

    /// Opens the file on the PFS as `fd` is. `None`: it is there already, and the PFS refuses.
    pub(crate) fn try_evacuate(&self, token: u64, fd: i32) -> Result<Option<File>> {
        let mut state = self.node.state();
        let Some(tracked) = state.own.tokens.get(token).cloned() else { return Ok(None) };
        if let LiesAt::Shadow { copy, .. } = &tracked.way {
            let copy = self.evacuate_shadow(&mut state, copy)?;
            return open_alike(fd, &copy).map(Some);
        }
        let source = match (state.view.place(&tracked.name), &tracked.way) {
            (Place::Private(here), LiesAt::Temporary) => Some(here),
            (Place::Cached(_, here), LiesAt::Cached) => Some(here),
            // Another descriptor on the same file was here before, a moment ago; if it was not, the
            // store cannot even look the file up.
            (Place::Prefix, LiesAt::Cached) => {
                let layer = state.view.layer(&tracked.key);
                let layer = layer.filter(|layer| !layer.is_on_prefix(&tracked.name));
                layer.map(|layer| layer.dir.join(&tracked.name))
            }
            (Place::Prefix, LiesAt::Temporary) => None,
            _ => return Ok(None),
        };
        if let Some(source) = &source {
            self.copy_out(source, &tracked.name, false)?;
        }
        let file = open_alike(fd, &self.site.on_prefix(&tracked.name))?;
        test_pause("move.copied");
        if let Some(one) = state.own.tokens.get_mut(token) {
            (one.way, one.room) = (LiesAt::OnPrefix, Room::default());
        }
        match source {
            Some(source) => self.moved_out(&mut state, &tracked, &source),
            None if tracked.way == LiesAt::Cached
                && state.machine.lies_on_prefix(&tracked.key, &tracked.name) == Some(false) =>
            {
                state.now_on_prefix(&tracked.key, &tracked.name, Reason::Shared);
            }
            None => {}
        }
        Ok(Some(file))
    }

    /// After an error of write-back the kernel tells it once and takes the pages for clean. They
    /// are what was written as long as they are in memory, so a copy that is made at once is right,
    /// and what the next fsync says of it is true. What is read from the device instead is its own
    /// word: an error here, or what it keeps.
    fn copy_out(&self, source: &Path, name: &str, sync: bool) -> Result<()> {
        let target = self.site.on_prefix(name);
        let was_there = target.symlink_metadata().is_ok();
        let options = CopyOptions { crc32: false, sync, ..CopyOptions::default() };
        let copied = copy_file(source, &target, options).map(drop);
        if copied.is_err() && !was_there {
            let _ = ns::remove(&target); // no part of a file has its final name
        }
        copied
    }

    /// What cannot be removed takes up room until its dataset leaves.
    fn moved_out(&self, state: &mut State, tracked: &Tracked, source: &Path) {
        if state.view.take_private(&tracked.name).is_none() {
            self.rank.tally.one(Count::FellBack);
            state.now_on_prefix(&tracked.key, &tracked.name, Reason::NoRoom);
        }
        let _ = ns::remove(source);
    }

    /// For all descriptors that share the copy.
    fn evacuate_shadow(&self, state: &mut State, copy: &Path) -> Result<PathBuf> {
        let fallback_dir = self.site.fallback_dir();
        if copy.starts_with(&fallback_dir) {
            // Either another descriptor on it was here before, or the PFS is full, too.
            return Ok(copy.to_path_buf());
        }
        let number = copy.file_name().unwrap_or_default();
        let target = fallback_dir.join(number);
        ns::make_parents(&fallback_dir, &number.to_string_lossy())?;
        ns::copy_up(copy, &target)?;
        state.own.tokens.move_shadow(copy, &target);
        let _ = ns::remove(copy);
        Ok(target)
    }

    /// Distrusts a file that is not sure to be durable: it goes to the PFS at its close. `false`:
    /// it is not in the cache.
    pub(crate) fn distrust(&self, token: u64) -> bool {
        let mut state = self.node.state();
        let Some(one) = state.own.tokens.get_mut(token) else { return false };
        let in_cache = self.is_in_store(one) && !matches!(one.way, LiesAt::Lazy { .. });
        one.distrusted |= in_cache;
        in_cache
    }

    /// Sends the file to the PFS with its last descriptor. `false`: it could not, and its dataset
    /// is invalid.
    pub(crate) fn leave_distrusted(&self, state: &mut State, tracked: &mut Tracked) -> bool {
        if let Some(twin) = state.own.tokens.twin(tracked) {
            twin.distrusted = true;
            return true;
        }
        let moved = match (&mut tracked.way, state.view.place(&tracked.name)) {
            (LiesAt::Shadow { copy, .. }, _) => {
                self.evacuate_shadow(state, copy).map(|there| *copy = there)
            }
            (LiesAt::Cached, Place::Cached(_, here)) => {
                let copied = self.copy_out(&here, &tracked.name, true);
                copied.map(|()| {
                    tracked.way = LiesAt::OnPrefix;
                    self.moved_out(state, tracked, &here);
                })
            }
            (LiesAt::Temporary, Place::Private(here)) => {
                let copied = self.copy_out(&here, &tracked.name, true);
                copied.map(|()| self.moved_out(state, tracked, &here))
            }
            _ => Ok(()),
        };
        moved.inspect_err(|error| state.could_not_move(tracked, error)).is_ok()
    }
}
