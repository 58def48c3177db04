//! A descriptor is to lie elsewhere before the next change: on a private copy if it is on a sealed
//! one, on the PFS if the store cannot take more.

use std::fs::File;
use std::os::fd::IntoRawFd;

use scr_abi::change;

use crate::error::{Error, Result};
use crate::handles::{LiesAt, Tracked, stamp};
use crate::handles::{descriptor_info, open_alike, own_path};
use crate::log::messages;
use crate::machine::Why;
use crate::namespace::{Answer, Manner, OpenIntent, Place};
use crate::session::{names::Names, node::State, rank::known::file_ref};

impl Names {
    /// Moves the file of `token` to the PFS, since its store is full or fails (`errno`, or 0), or
    /// since it is never quiet. Returns a new descriptor with the access mode and offset of `fd`;
    /// -1 if that is impossible, so that its dataset is invalid. The file of a lazy token
    /// (`TOKEN_LAZY`) is about to change, and gets its place.
    ///
    /// With -1 for `fd` only what makes the file durable has failed: it goes to the PFS at its
    /// close. The answer is -1 then if the file is not in the cache.
    pub fn evacuate(&self, token: u64, fd: i32, errno: i32) -> i32 {
        let changes = matches!(errno, change::CHANGES | change::EMPTIES);
        if errno != 0 && !changes {
            self.stores.met(token, errno);
        }
        if fd < 0 {
            return if self.stores.distrust(token) { 0 } else { -1 };
        }
        let left = if changes { None } else { self.leave_sealed_part(token, fd) };
        if let Some(left) = left {
            return left.map_or(-1, IntoRawFd::into_raw_fd);
        }
        let parted = self.node.state().part_of(token);
        let moved = match &parted {
            Some((key, name)) => {
                if errno == 0 {
                    self.unsealed.note_why(key, name, Why::Unseen);
                }
                let file = self.unsealed.pull_out(key, name);
                file.and_then(|()| self.go_on_outside(token, fd, name)).map(Some)
            }
            None => self.wake_lazy(token, fd, errno).and_then(|file| match file {
                Some(file) => Ok(Some(file)),
                None => self.stores.try_evacuate(token, fd),
            }),
        };
        match moved {
            Ok(Some(file)) => file.into_raw_fd(),
            Ok(None) => -1,
            Err(_) if parted.is_some() => -1, // that was told
            Err(error) => {
                let mut state = self.node.state();
                match state.own.tokens.get(token).cloned() {
                    Some(one) if matches!(one.way, LiesAt::Cached | LiesAt::Shadow { .. }) => {
                        state.could_not_move(&one, &error);
                    }
                    Some(one) => {
                        let what = format!("{} cannot be moved out of the cache", one.name);
                        self.rank.complain(messages::NOT_MOVED, format_args!("{what}: {error}"));
                    }
                    None => self.rank.complain(messages::NOT_MOVED, &error),
                }
                -1
            }
        }
    }

    /// Opens, where it is whole, a sealed file that is read from what this node has of it. The
    /// outer `None`: the token has none such.
    fn leave_sealed_part(&self, token: u64, fd: i32) -> Option<Option<File>> {
        let state = self.node.state_to_look();
        let one = state.own.tokens.get(token)?;
        let name = matches!(one.way, LiesAt::Part(_)).then(|| one.name.clone())?;
        let place = state.view.place(&name);
        drop(state);
        self.contents.note_read(&mut self.node.state(), &name, &place);
        let come = match &place {
            Place::Prefix => Answer::PASS,
            Place::Elsewhere(key, remote) => self.updates.wait_for_remote(&name, key, remote),
            _ => return Some(None), // another file has the name now, or none
        };
        let whole = open_alike(fd, &self.site.on_prefix(&name)).ok();
        let whole = whole.filter(|_| come == Answer::PASS);
        let mut state = self.node.state();
        if let Some(one) = state.own.tokens.get_mut(token).filter(|_| whole.is_some()) {
            one.way = LiesAt::Older;
            state.own.logs.leave(token);
        }
        Some(whole)
    }

    /// Has all ranks bring a file of which each node has a part to the PFS: what is to be done to
    /// its name, or to it by its name, is done to the whole. `Err` is the answer.
    pub(crate) fn bring_whole(&self, name: Option<&str>) -> std::result::Result<(), Answer> {
        let Some(name) = name.filter(|_| !self.rank.is_child()) else { return Ok(()) };
        let gone = |_| Answer::Fail(libc::EIO);
        let parted = self.node.state_to_look().parted_in_progress(name);
        if let Some(key) = parted {
            self.unsealed.leave_cache(&key, name).map_err(gone)?;
        }
        self.unsealed.pulls.settle(name).map_err(gone)
    }

    /// Brings out a file that is deleted. Of later ones each would have to come out before it is
    /// deleted; and without ids the next checkpoint's would be in the caches alone until it is
    /// sealed. They go to the PFS.
    pub(crate) fn bring_out_deleted(&self, name: &str) -> std::result::Result<(), Answer> {
        let parted = self.node.state_to_look().parted_in_progress(name);
        if let Some(key) = parted {
            self.unsealed.note_why(&key, name, Why::DeletedEarly);
        }
        self.bring_whole(Some(name))
    }

    /// Opens it where all ranks have brought it.
    fn go_on_outside(&self, token: u64, fd: i32, name: &str) -> Result<File> {
        let file = open_alike(fd, &self.site.on_prefix(name))?;
        let mut state = self.node.state();
        state.own.logs.end(token, |_| ());
        if let Some(one) = state.own.tokens.get_mut(token) {
            one.way = LiesAt::OnPrefix;
        }
        Ok(file)
    }

    /// Opens the file for the first change through `fd`, as `how` says (`scr_abi::change`).
    /// `None`: `token` is no reader of a sealed copy.
    pub(crate) fn wake_lazy(&self, token: u64, fd: i32, how: i32) -> Result<Option<File>> {
        let name = {
            let mut state = self.node.state();
            match state.own.tokens.get(token).cloned() {
                Some(Tracked { way: LiesAt::Part(_) | LiesAt::Older, name, .. }) => {
                    if state.view.place(&name) == Place::Deleted {
                        state.own.tokens.take(token); // what it writes only its descriptors see
                        return Ok(Some(open_alike(fd, &own_path(fd))?));
                    }
                    name
                }
                Some(mut tracked @ Tracked { way: LiesAt::Lazy { .. }, .. }) => {
                    if state.view.place(&tracked.name) == Place::Deleted {
                        state.own.tokens.orphan_readers(&tracked.name);
                        tracked = state.own.tokens.get(token).cloned().unwrap_or(tracked);
                    }
                    if tracked.is_orphan() || state.is_evicted(&tracked) {
                        return self.wake_alone(&mut state, token, fd, tracked).map(Some);
                    }
                    tracked.name
                }
                _ => return Ok(None),
            }
        };
        let gone = || Error::Missing(format!("{name} cannot be copied to be changed"));
        let (flags, _) = descriptor_info(fd)?;
        let matched = self.rank.match_name(&name).ok_or_else(gone)?;
        let mut intent = OpenIntent::of(flags & (libc::O_ACCMODE | libc::O_APPEND));
        // Of others a copy is emptied: who goes on with what they have is known by that.
        let file = file_ref(&name, &matched);
        let again = || file.id.is_none() && self.node.state_to_look().machine.is_parted(&file);
        intent.truncate = how == change::EMPTIES && again();
        loop {
            let answer = self.open_for_writing(&name, &matched, intent, Manner::Changing);
            let (path, own) = match answer {
                Answer::Redirect { path, token } => (path, token),
                Answer::Pass { token } => (self.site.on_prefix(&name), token),
                _ => return Err(gone()),
            };
            match open_alike(fd, &path) {
                Ok(file) => {
                    let replaced = self.node.state().own.replace(token, own);
                    if !replaced {
                        self.handles.closed(own); // as the reader was, by another thread
                    }
                    return Ok(Some(file));
                }
                Err(error) if self.handles.opened(own, -1, error.errno()) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Opens a file that only its descriptors lead to. If its dataset has left the cache, the
    /// change goes to the PFS; if the file was deleted, nowhere.
    pub(crate) fn wake_alone(
        &self,
        state: &mut State,
        token: u64,
        fd: i32,
        tracked: Tracked,
    ) -> Result<File> {
        let orphan = tracked.is_orphan();
        let Tracked { key, name, way: LiesAt::Lazy { kept, .. }, .. } = tracked else {
            return Err(Error::Missing(format!("{} is not open on a sealed copy", tracked.name)));
        };
        let here = own_path(fd);
        let there = self.site.on_prefix(&name);
        // What was flushed is there, with what others have changed since.
        let is_flushed = state.view.place(&name) == Place::Prefix
            && state.view.evicted_names().all(|(left, _)| left != name);
        let is_same = || stamp(&there).is_some_and(|flushed| stamp(&here) == Some(flushed));
        if !orphan
            && (is_flushed || is_same())
            && let Ok(file) = open_alike(fd, &there)
        {
            state.own.tokens.take(token);
            state.let_go(kept.as_deref());
            return Ok(file);
        }
        let shared = state.own.tokens.shadow_of(&name).cloned();
        if shared.is_none() {
            state.mates.co_writers.remove(&name);
        }
        let copy =
            shared.map_or_else(|| self.handles.private_copy(state, &key, &name, &here), Ok)?;
        let file = open_alike(fd, &copy)?;
        if let Some(one) = state.own.tokens.get_mut(token) {
            one.way = LiesAt::Shadow { copy, origin: kept.unwrap_or_default(), base: None };
        }
        Ok(file)
    }
}
