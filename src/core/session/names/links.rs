//! Calls that need the real thing on the PFS: hard links, and directories that move. What is cached
//! is written there first, under its own name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use scr_abi::open_mode;

use crate::error::{Error, Result};
use crate::files::remove_empty_dirs;
use crate::log::messages;
use crate::machine::{Deletion, Hints, Reason};
use crate::namespace::{self as ns, Answer, OnPrefix, Place};
use crate::session::{
    names::Names,
    node::{State, neighbours::Locked},
    rank::lock,
};
use crate::system::monotonic_ms;
use crate::transfer::{move_directory, remove_staged_below};

impl Names {
    pub fn link(&self, target: &Path, path: &Path, symbolic: bool) -> Answer {
        if symbolic {
            self.give_way(path);
            return Answer::PASS;
        }
        let names = ns::OldAndNew { from: self.rank.name_of(target), to: self.rank.name_of(path) };
        if let Err(answer) = self.bring_whole(names.from) {
            return answer;
        }
        self.handles.wake_path(target);
        let mut state = self.node.state();
        if let Err(error) = self.hand_over_both(&mut state, names.from, None) {
            return Answer::Fail(error.errno());
        }
        let ours = |name: &&str| self.contents.concerns(&state, name);
        let (old, new) = (names.from.filter(ours), names.to.filter(ours));
        let named = ns::OldAndNew { from: old, to: new };
        if new.is_some_and(|name| self.rank.match_name(name).is_some()) {
            self.report.unmatched.matches();
        }
        if let Some(answer) = ns::link_rules(&state.view, named, target, path) {
            return answer;
        }
        let Some(state) = self.contents.bring_all_near(state, old) else {
            return Answer::Fail(libc::EPERM);
        };
        drop(state);
        let both: Vec<&str> = old.into_iter().chain(new).collect();
        let mut state = self.node.turn_on(&both);
        if let Some(answer) = ns::link_rules(&state.view, named, target, path) {
            return answer;
        }
        let source = old.map_or(Place::Prefix, |name| state.view.place(name));
        let goal = new.map_or(Place::Prefix, |name| state.view.place(name));
        let at = old.map_or_else(|| target.to_path_buf(), |name| self.site.on_prefix(name));
        let busy = self.rank.is_child() && source != Place::Prefix;
        if busy
            || !old.is_none_or(|name| self.put_on_prefix(&mut state, name, &source, Reason::Linked))
        {
            // Programs that link fall back to copying when the file system cannot.
            return Answer::Fail(libc::EPERM);
        }
        if goal == Place::Deleted && ns::remove(path).is_err() {
            return Answer::Fail(libc::EACCES);
        }
        match std::fs::hard_link(&at, path) {
            Err(error) => Answer::Fail(error.raw_os_error().unwrap_or(libc::EIO)),
            Ok(()) => {
                // Two names of one file are beyond the cache: both are on the PFS from now on.
                if let (Some(name), Place::Cached(key, _)) = (old, &source) {
                    state.now_on_prefix(key, name, Reason::Linked);
                }
                new.into_iter()
                    .for_each(|name| self.enter_from_prefix(&mut state, name, Reason::Linked));
                Answer::Done
            }
        }
    }

    /// Clears `path` for something that is no regular file: what the program has
    /// deleted there gives way. The datasets that have it go without it.
    pub(crate) fn give_way(&self, path: &Path) {
        let Some(name) = self.rank.name_of(path) else { return };
        let mut state = self.node.state();
        if !self.contents.concerns(&state, name) || state.view.place(name) != Place::Deleted {
            return;
        }
        let at = self.site.on_prefix(name);
        let is_in_the_way = ns::on_prefix(&at) != OnPrefix::Absent && !at.is_dir();
        let removed = if is_in_the_way { ns::remove(&at) } else { Ok(()) };
        if let Err(error) = removed.and_then(|()| self.contents.leave_to_prefix(&mut state, name)) {
            drop(state);
            self.rank.complain(messages::NOT_MOVED, &error);
        }
    }

    /// Notes that the program is about to open `path` by MPI-IO, these `ranks` together, in this
    /// `mode` (`scr_abi::open_mode`). If they are of several nodes, or could change a file of a
    /// complete dataset, each for itself, what this rank has cached of it is on the PFS before,
    /// where all find it, and so are later files of that name, unless each node is to have its
    /// part. Returns the store in which a new file of that name would lie, if in a cache.
    pub fn shared_open(&self, path: &Path, ranks: &[usize], mode: i32) -> Option<PathBuf> {
        let name = self.rank.name_of(path).filter(|_| !self.rank.is_child())?;
        let (mut state, file) = (self.node.state(), self.rank.file_ref(name));
        let creates = mode & open_mode::CREATE != 0;
        state.opens_together(creates.then_some(name), file.as_ref(), ranks);
        if mode & open_mode::READ_ONLY != 0 {
            return None; // each rank opens it as any other file
        }
        let place = state.view.place(name);
        let file = file.filter(|file| state.machine.caches(file));
        let in_progress =
            matches!(&place, Place::Elsewhere(key, _) if state.machine.is_in_progress(key));
        // What is there may be emptied first, and is opened such that it can be.
        let without_id = file.as_ref().is_some_and(|file| file.id.is_none());
        let is_new = match place {
            Place::Prefix | Place::Deleted => creates,
            Place::Cached(..) => false,
            _ => creates && without_id,
        };
        let parted =
            file.as_ref().filter(|file| state.machine.is_parted(file) && (in_progress || is_new));
        // Each rank would change a copy of its own.
        let is_older = match &place {
            Place::Cached(key, _) => !state.machine.is_in_progress(key),
            Place::Prefix => without_id && ns::on_prefix(path) != OnPrefix::Absent,
            _ => false,
        };
        let is_shared = ranks.len() > 1;
        let far = !ranks.iter().all(|rank| self.node.is_near(*rank));
        if parted.is_none() && (far || (is_shared && is_older)) {
            self.open_on_prefix(state, name, far);
            return None;
        }
        let file = file?;
        let number = state.machine.number_for(&file);
        Some(PathBuf::from(self.stores.store_of_number(file.series, number)))
    }

    /// Notes that MPI_File_open has returned: [`State::opened_together`].
    pub fn opened_together(&self) -> Option<bool> {
        self.node.state().opened_together()
    }

    /// Returns what MPI-IO is to be told of the file that it is about to open, the number of nodes,
    /// and whether that goes for reading, too.
    pub fn hints(&self, path: &Path) -> (Hints, usize, bool) {
        let file = self.rank.name_of(path).and_then(|name| self.rank.file_ref(name));
        let state = self.node.state_to_look();
        let hints = file.and_then(|file| state.machine.hints(&file)).unwrap_or(Hints::None);
        let nodes: BTreeSet<&usize> = state.machine.nodes().iter().collect();
        let name = self.rank.name_of(path);
        (hints, nodes.len(), name.is_some_and(|name| state.own.parted.is_known_to_all(name)))
    }

    /// `far`: it is opened by ranks of several nodes.
    fn open_on_prefix(&self, mut state: Locked<'_>, name: &str, far: bool) {
        let Some(file) = self.rank.file_ref(name) else {
            // The others would not see a temporary file of this rank.
            if state.own.tokens.count(name) == 0 {
                self.contents.publish_private(&mut state, name);
            }
            lock(&self.together).insert(name.to_string());
            return;
        };
        state.machine.mark_opened_together(&file, far);
        let place = state.view.place(name);
        if let Place::Cached(key, _) = &place
            && self.put_on_prefix(&mut state, name, &place, Reason::OpenedTogether)
        {
            state.now_on_prefix(key, name, Reason::OpenedTogether);
        }
    }

    /// Publishes the cached files of the directory before it moves.
    pub(crate) fn rename_dir(&self, name: &str, from: &Path, to: &Path) -> Answer {
        self.handles
            .wake(|one| one.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')));
        let state = self.node.state();
        if state.view.is_removed_dir(name) {
            return Answer::Fail(libc::ENOENT);
        }
        if let Some(answer) = ns::dir_rename_rules(&state.view, &self.site.prefix, name, to) {
            return answer;
        }
        drop(state);
        self.give_way(to);
        let new_dir = self.rank.name_of(to);
        let both: Vec<&str> = [name].into_iter().chain(new_dir).collect();
        let state = self.node.turn_on(&both);
        // Another rank may have been there before.
        if state.view.is_removed_dir(name) || !from.is_dir() {
            return Answer::Fail(libc::ENOENT);
        }
        if let Some(answer) = ns::dir_rename_rules(&state.view, &self.site.prefix, name, to) {
            return answer;
        }
        new_dir.into_iter().for_each(|to| self.report.note_names_moved(name, to));
        let state = match new_dir.filter(|_| !self.rank.is_child()) {
            Some(last) => match self.rename_waiting(state, name, last, from, to) {
                Ok(answer) => return answer,
                Err(state) => state,
            },
            None => state,
        };
        let names = state.view.names_below(name);
        let covers = new_dir.is_some_and(|dir| !state.view.names_below(dir).is_empty());
        if (names.is_empty() && !covers) || self.rank.is_child() {
            return Answer::PASS;
        }
        let Some(mut state) = self.contents.bring_all_near(state, &names) else {
            return Answer::Fail(libc::EXDEV);
        };
        let places: Vec<(String, Place)> = names
            .into_iter()
            .map(|name| {
                let place = state.view.place(&name);
                (name, place)
            })
            .collect();
        if !places.iter().all(|(name, place)| {
            self.put_on_prefix(&mut state, name, place, Reason::DirectoryMoved)
        }) {
            // Programs that rename fall back to copying when the file system cannot.
            return Answer::Fail(libc::EXDEV);
        }
        let cleared = new_dir.map_or(Ok(()), |dir| self.clear(&mut state, dir));
        self.rank.complain_if_failed(messages::OPERATION_FAILED, cleared);
        if let Err(errno) = move_directory(from, to) {
            return Answer::Fail(errno);
        }
        self.move_names(&mut state, name, new_dir, &places);
        self.site.host.names_changed();
        Answer::Done
    }

    /// The directory is outside of the prefix now if it has no `new_dir`.
    fn move_names(
        &self,
        state: &mut State,
        dir: &str,
        new_dir: Option<&str>,
        places: &[(String, Place)],
    ) {
        let below = format!("{dir}/");
        let moved = |old: &str| Some(format!("{}/{}", new_dir?, old.strip_prefix(&below)?));
        for (old, place) in places {
            let new = moved(old);
            self.rank.complain_if_failed(
                messages::OPERATION_FAILED,
                self.move_name(state, old, new.as_deref(), place),
            );
        }
        let deleted = places.iter().filter(|(_, place)| *place == Place::Deleted);
        let deleted: BTreeSet<String> = deleted.filter_map(|(old, _)| moved(old)).collect();
        new_dir.iter().for_each(|dir| self.uncover(state, dir, &deleted));
        let dirs: BTreeSet<String> = state.view.removed_dirs().map(str::to_string).collect();
        for dir in dirs.iter().filter(|dir| dir.starts_with(&below)) {
            state.view.settle_dir(dir);
            moved(dir).iter().for_each(|dir| state.view.remove_dir(dir));
        }
    }

    /// A directory is about to become `dir`, which is empty or gone for the program: what waits
    /// there for its deletion goes now.
    fn clear(&self, state: &mut State, dir: &str) -> Result<()> {
        let below = format!("{dir}/");
        for name in state.view.names_below(dir) {
            let waits = ns::on_prefix(&self.site.on_prefix(&name)) != OnPrefix::Absent;
            if waits && state.view.place(&name) == Place::Deleted {
                self.contents.delete(state, &name, &Place::Prefix, Deletion::Now)?;
            }
        }
        remove_staged_below(&self.site.on_prefix(dir));
        remove_empty_dirs(&self.site.on_prefix(dir));
        let dirs: Vec<String> = state.view.removed_dirs().map(str::to_string).collect();
        for gone in dirs.iter().filter(|gone| *gone == dir || gone.starts_with(&below)) {
            state.view.settle_dir(gone);
        }
        Ok(())
    }

    /// What a directory has that has come to `dir` is there, although such names were deleted
    /// before; but for those that were `deleted` where it comes from.
    fn uncover(&self, state: &mut State, dir: &str, deleted: &BTreeSet<String>) {
        for name in state.view.names_below(dir).difference(deleted).cloned().collect::<Vec<_>>() {
            let is_there = || ns::on_prefix(&self.site.on_prefix(&name)) != OnPrefix::Absent;
            if state.view.place(&name) == Place::Deleted && is_there() {
                state.view.revive(&name);
                self.enter_from_prefix(state, &name, Reason::DirectoryMoved);
            }
        }
    }

    fn move_name(
        &self,
        state: &mut State,
        old: &str,
        new: Option<&str>,
        place: &Place,
    ) -> Result<()> {
        if self.contents.is_called(state, old) {
            return self.leave_called(state, old);
        }
        match place {
            Place::Evicted(_) => {
                state.view.rename_evicted(old, new);
                return Ok(());
            }
            Place::Deleted => {
                // What waits on the PFS for its deletion has moved along.
                if state.view.is_deleted(old) {
                    state.view.settle(old);
                    new.into_iter().for_each(|new| state.view.delete(new));
                } else {
                    let that = state.view.unhide(old);
                    new.into_iter().for_each(|new| state.view.hide(new, that.clone()));
                }
                if state.view.place(old) != Place::Prefix {
                    state.view.delete(old);
                }
                return Ok(());
            }
            _ => {}
        }
        let deletion = match self.rank.file_ref(old) {
            Some(file) => state.machine.moved_away(&file, monotonic_ms()),
            None => Deletion::Now,
        };
        let done = self.contents.delete(state, old, place, deletion);
        if state.view.place(old) != Place::Prefix {
            state.view.delete(old);
        }
        new.into_iter().for_each(|new| self.enter_from_prefix(state, new, Reason::DirectoryMoved));
        done.map_err(|error| Error::Refused(format!("{old}, which has moved: {error}")))
    }
}
