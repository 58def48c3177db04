//! A directory gets its final name when all ranks have written into it. The files in it that are
//! cached belong to their dataset from the start (`directories.rs`, `machine/renaming.rs`); the
//! rename moves them within the cache: on this node at once, on the others at the next agreement.
//!
//! A directory that has other files than those of a checkpoint in progress is renamed as any
//! (`links.rs`). Where the prefix has files of it, all that are known come there before: a crash
//! would leave a part of a checkpoint under a name that means a whole one. What a restart must know
//! of a rename that not all have heard of is noted on the prefix before. A file of which each of
//! several nodes has a part moves in the same way.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::files::{has_no_file, size_at};
use crate::handles::LiesAt;
use crate::log::messages;
use crate::machine::{DatasetKey, Placement, Reason};
use crate::namespace::{self as ns, Answer, Move, Place};
use crate::session::{
    names::Names,
    node::{State, neighbours::Locked},
    rank::known::file_ref,
};
use crate::system::monotonic_ms;
use crate::transfer::{is_published, move_directory};

fn next_move(state: &State, from: &str, to: &str) -> Move {
    let number = state.moves.made + 1;
    Move { number, from: from.to_string(), to: to.to_string(), landed: false }
}

impl Names {
    /// Renames the directory `dir`, at `from`, to `last`, at `to`, where nothing is in the way.
    /// `Err`: this is no checkpoint that gets its name, or not one that can move in the cache.
    pub(crate) fn rename_waiting<'a>(
        &'a self,
        mut state: Locked<'a>,
        dir: &str,
        last: &str,
        from: &Path,
        to: &Path,
    ) -> std::result::Result<Answer, Locked<'a>> {
        if self.rank.links().is_none() {
            return Err(state);
        }
        if !self.rank.directories.is_final_of(dir, last) {
            self.notice_directory(&mut state, dir, last);
            return Err(state);
        }
        let names = state.view.names_below(dir);
        let vacant = to.symlink_metadata().is_err()
            && !state.view.is_removed_dir(last)
            && state.view.names_below(last).is_empty();
        if !vacant || !names.iter().all(|name| self.may_move(&state, name, dir, last)) {
            return Err(state);
        }
        let landed = !has_no_file(from);
        if landed && !names.is_empty() {
            let Some(near) = self.contents.bring_all_near(state, &names) else {
                return Ok(Answer::Fail(libc::EXDEV));
            };
            state = near;
            let mut there = names.iter().map(|name| {
                let place = state.view.place(name);
                self.put_on_prefix(&mut state, name, &place, Reason::DirectoryMoved)
            });
            if !there.all(|there| there) {
                return Ok(Answer::Fail(libc::EXDEV));
            }
        }
        let one = Move { landed, ..next_move(&state, dir, last) };
        let noted = state.moves.noted.add(one.clone(), &self.site.state_dir(), self.site.rank);
        if let Err(error) = noted {
            self.rank.complain(messages::OPERATION_FAILED, &error);
            return Err(state);
        }
        Ok(self.rename_and_tell(&mut state, one, || move_directory(from, to)))
    }

    /// Renames a file of a dataset in progress that several ranks write, where nothing is in the
    /// way: each of several nodes has a part of it, or it lies on the PFS under a temporary name.
    /// `None`: it is no such file.
    pub(crate) fn rename_for_all(&self, from: &str, to: &str) -> Option<Answer> {
        let waits = self.rank.directories.waiting(&self.rank.series, from);
        let waits = waits.is_some_and(|it| it.dir == from && it.last == to);
        let has_parts = !self.node.state_to_look().own.parted.is_empty();
        if self.rank.is_child() || !(waits || has_parts) {
            return None;
        }
        let mut state = self.node.turn_on(&[from, to]);
        let file = self.rank.file_ref(to)?;
        let key = state.machine.target(&file);
        let on_prefix = match state.view.place(from) {
            Place::Elsewhere(of, _) if of == key => {
                state.own.parted.get(&key, from).filter(|file| !file.leaves)?;
                false
            }
            Place::Prefix if waits => state.machine.lies_on_prefix(&key, from).filter(|it| *it)?,
            _ => return None,
        };
        let [old, new] = [from, to].map(|name| self.site.on_prefix(name));
        let moves = state.is_open(&key)
            && state.view.place(to) == Place::Prefix
            && new.symlink_metadata().is_err()
            && self.rank.links().is_some();
        let rename = || match on_prefix {
            true => {
                std::fs::rename(old, new).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
            }
            false => Ok(()),
        };
        let one = next_move(&state, from, to);
        moves.then(|| self.rename_and_tell(&mut state, one, rename))
    }

    fn may_move(&self, state: &State, name: &str, dir: &str, last: &str) -> bool {
        let Some(waiting) = self.rank.directories.waiting(&self.rank.series, name) else {
            return false;
        };
        let fits = (waiting.dir.as_str(), waiting.last_dir.as_str()) == (dir, last);
        let of_checkpoint = match state.view.place(name) {
            Place::Cached(key, _) | Place::Elsewhere(key, _) => {
                state.is_open(&key) && waiting.matched.id.as_deref() == Some(key.id.as_str())
            }
            Place::Prefix => true,
            Place::Private(_) | Place::Deleted | Place::Evicted(_) => false,
        };
        fits && of_checkpoint && state.own.tokens.shadows_of(name).is_empty()
    }

    fn rename_and_tell(
        &self,
        state: &mut State,
        one: Move,
        on_prefix: impl FnOnce() -> std::result::Result<(), i32>,
    ) -> Answer {
        let back = Move { from: one.to.clone(), to: one.from.clone(), ..one };
        let moved = state.rename_in_caches(&one).map_err(|_| libc::EXDEV);
        if let Err(errno) = moved.and_then(|()| on_prefix()) {
            let _ = state.rename_in_caches(&back);
            return Answer::Fail(errno);
        }
        state.moves.made = one.number;
        self.node.follow(state, &one);
        state.view.tell_move(one.clone());
        state.moves.untold.push(one);
        state.machine.note_move();
        self.site.host.names_changed();
        Answer::Done
    }

    /// Leaves to the PFS files in directories that the program has not renamed, although it has
    /// begun its next checkpoint, or ended.
    pub(crate) fn release_left_behind(&self) {
        let mut state = self.node.state();
        for left in state.machine.left_behind() {
            if !left.on_prefix
                && let Err((source, error)) = self.publish_left(&state, &left.key, &left.name)
            {
                self.rank.tell_unpublished(&left.name, &source, &error);
                continue;
            }
            state.leave_file(&left.key, &left.name);
            state.machine.withdrawn(&left.key, &left.name);
        }
    }

    fn publish_left(
        &self,
        state: &State,
        key: &DatasetKey,
        name: &str,
    ) -> std::result::Result<(), (PathBuf, Error)> {
        let Some(layer) = state.view.layer(key) else { return Ok(()) };
        let source = layer.dir.join(name);
        let target = self.rank.on_prefix_now(name);
        if !source.exists() {
            return Ok(());
        }
        let done = match self.rank.has_the_same(name, &source) {
            true => Ok(()),
            false => self.rank.publish(&source, &target, Reason::DirectoryMoved),
        };
        done.and_then(|()| ns::remove(&source)).map_err(|error| (source, error))
    }

    /// Settles, after the first step of an agreement, what was told at the one before.
    pub(crate) fn settle_noted(&self) {
        let mut state = self.node.state();
        let told = std::mem::take(&mut state.moves.told);
        if told > 0 {
            let (folder, rank) = (self.site.state_dir(), self.site.rank);
            let settled = state.moves.noted.settle(told, &folder, rank);
            self.rank.complain_if_failed(messages::OPERATION_FAILED, settled);
        }
    }

    /// Returns `false` if the PFS cannot have what the program sees under `name`.
    pub(crate) fn put_on_prefix(
        &self,
        state: &mut State,
        name: &str,
        place: &Place,
        reason: Reason,
    ) -> bool {
        let target = self.site.on_prefix(name);
        let open =
            state.own.tokens.all().any(|(_, one)| one.name == name && one.way != LiesAt::OnPrefix);
        match place {
            Place::Prefix | Place::Deleted | Place::Evicted(_) => true,
            Place::Elsewhere(_, remote) => is_published(&target, &remote.meta),
            Place::Cached(..) | Place::Private(_) if open => false,
            Place::Private(_) => {
                self.contents.publish_private(state, name);
                target.exists()
            }
            // Another rank may have it open there already: it is not put there anew.
            Place::Cached(_, here) => {
                self.rank.has_the_same(name, here) || self.rank.publish_or_tell(name, here, reason)
            }
        }
    }

    pub(crate) fn enter_from_prefix(&self, state: &mut State, name: &str, reason: Reason) {
        let Some(matched) = self.rank.match_name(name) else { return };
        if self.rank.is_child() {
            return;
        }
        let bytes = size_at(&self.site.on_prefix(name));
        let file = file_ref(name, &matched);
        let renamed = state.machine.renamed(None, Some(&file), bytes, Some(reason), monotonic_ms());
        let Placement::Dataset(placed) = renamed.to else {
            state.view.revive(name);
            return;
        };
        match self.stores.record_begin(state, &placed.key, placed.begin, placed.revoke) {
            Ok(()) => state.enter_file(&placed.key, name, true),
            Err(error) => {
                self.rank.complain(messages::OPERATION_FAILED, &error);
            }
        }
    }
}
