//! open(2) on a path of ours: where the bytes are, or go.

use std::path::Path;

use crate::account::tally::Count;
use crate::handles::Room;
use crate::machine::{self, DatasetKey, FileRef, Placed, Placement, Reason, Why};
use crate::namespace::{self as ns, Answer, FoundTarget, Manner, OnPrefix, OpenIntent, Place};
use crate::patterns::Match;
use crate::session::{
    names::Names,
    node::{State, neighbours::Locked},
    rank::{known::file_ref, lock},
};
use crate::system::monotonic_ms;

impl Names {
    pub fn open(&self, path: &Path, flags: i32) -> Answer {
        self.open_as(path, flags, Manner::Lazy)
    }

    pub(crate) fn open_as(&self, path: &Path, flags: i32, manner: Manner) -> Answer {
        let intent = OpenIntent::of(flags);
        let Some(name) = self.rank.name_of(path) else {
            if intent.may_change {
                self.report.tell_unnameable(path);
            }
            return Answer::PASS;
        };
        if ns::is_ours(name) {
            return Answer::Fail(libc::ENOENT);
        }
        let Some(matched) = self.rank.match_name(name) else {
            return self.open_unmatched(name, intent);
        };
        if !intent.may_change || self.rank.is_child() {
            return self.open_for_reading(name);
        }
        if intent.truncate || manner == Manner::Changing {
            self.handles.wake(|one| one.name == name);
        }
        self.open_for_writing(name, &matched, intent, manner)
    }

    pub(crate) fn open_for_writing(
        &self,
        name: &str,
        matched: &Match,
        intent: OpenIntent,
        manner: Manner,
    ) -> Answer {
        self.report.unmatched.matches();
        self.unsealed.publish_outrun(&file_ref(name, matched));
        loop {
            if let Some(answer) = self.try_open_for_writing(name, matched, intent, manner) {
                return answer;
            }
        }
    }

    /// `None`: another rank of the node has changed what was found meanwhile.
    fn try_open_for_writing(
        &self,
        name: &str,
        matched: &Match,
        intent: OpenIntent,
        manner: Manner,
    ) -> Option<Answer> {
        let mut state = self.node.state_to_change(&[name]);
        if let Some((path, token)) = state.own.tokens.share_shadow(name) {
            return Some(Answer::Redirect { path, token });
        }
        self.node.honour(&mut state, name);
        let file = file_ref(name, matched);
        let found = match self.find_to_write(&mut state, &file, intent, manner) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        if let Some(of) = state.parted_in(&file, &found.place) {
            return self.open_part(state, &file, &of, &found, intent);
        }
        let together = state.own.making.as_deref() == Some(name);
        let wish = machine::Intent { together, ..intent.as_wish(found.exists) };
        if let Some(of) = state.sealed_by_others(&file).filter(|_| wish.rewrites()) {
            state.machine.is_behind(&of, &file);
        }
        let again = found.exists && file.id.is_none() && state.machine.is_parted(&file);
        if again && manner == Manner::Lazy && !intent.truncate {
            let older = state.open_older(&file, &found.place, self.site.on_prefix(name));
            if older.is_some() {
                return older;
            }
        }
        let anew = intent.truncate && again;
        if let Some(of) = state.of_another(&file).filter(|_| !anew) {
            if state.view.place(&file) != found.place {
                return None; // that rank has made it since we looked
            }
            return self.handles.open_of_another(state, &file, &of, found, intent, manner);
        }
        let kept_out = lock(&self.stores.kept_out).contains(name);
        let placement = state.machine.write_open(&file, wish, monotonic_ms());
        match placement {
            Placement::Pass => {
                if !found.exists {
                    let older = state.in_the_way(name, self.site.on_prefix(name));
                    if older.is_none_or(|older| self.site.remove_outdated(&older).is_ok()) {
                        state.view.revive(name);
                    }
                }
                Some(found.in_place())
            }
            Placement::CopyUp { from } => {
                let on_prefix = |here| kept_out && self.rank.has_the_same(name, here);
                let origin = match &found.place {
                    Place::Cached(_, here) if !on_prefix(here) => here.clone(),
                    _ => self.site.on_prefix(name),
                };
                let is_there = !kept_out || origin == self.site.on_prefix(name);
                let shared = state.machine.is_shared(&file, &from);
                if manner == Manner::Lazy && is_there && !shared {
                    return Some(state.open_lazily(name, &from, &origin));
                }
                match state.take_over_own(&file, &from, wish) {
                    Some(placed) => {
                        self.contents.put_into(state, name, placed, &found, intent, Room::default())
                    }
                    None => Some(self.handles.copy_up(&mut state, name, &from, origin)),
                }
            }
            Placement::Dataset(placed) => self.place(state, &file, placed, &found, intent),
        }
    }

    /// Finds what the program would change. `Err` is what `try_open_for_writing` returns.
    fn find_to_write(
        &self,
        state: &mut State,
        file: &FileRef,
        intent: OpenIntent,
        manner: Manner,
    ) -> std::result::Result<FoundTarget, Option<Answer>> {
        match self.contents.look(state, file.into(), intent) {
            Ok(found) if manner == Manner::Lazy && found.is_denied() => {
                Err(Some(Answer::Fail(libc::EACCES)))
            }
            Ok(found) => Ok(found),
            Err(Answer::Fail(libc::ENOENT)) if state.makes_parted(file) => {
                Ok(FoundTarget { place: Place::Prefix, on_prefix: OnPrefix::Absent, exists: false })
            }
            Err(Answer::Fail(libc::ENOENT))
                if state.take_made_elsewhere(&file.name, &self.site.on_prefix(&file.name)) =>
            {
                Err(None)
            }
            Err(answer) => {
                if answer == Answer::PASS && intent.makes != ns::Makes::No {
                    self.stores.note_refusal(state, file, machine::Intent::REWRITE);
                }
                Err(Some(answer))
            }
        }
    }

    /// Opens, to be read, a file in progress of which each node has its part: what others have of
    /// it is asked for only when it is read. MPI-IO asks for the size of a file so, for instance.
    pub(super) fn open_part_to_read(&self, key: &DatasetKey, name: &str) -> Answer {
        let intent = OpenIntent::of(libc::O_RDONLY);
        let state = self.node.state_to_change(&[name]);
        let found = self.rank.file_ref(name).filter(|_| !self.rank.is_child()).and_then(|file| {
            let found = self.contents.look(&state, (&file).into(), intent).ok()?;
            Some((state.parted_in(&file, &found.place)?, file, found))
        });
        let answer = match found {
            Some((of, file, found)) => self.open_part(state, &file, &of, &found, intent),
            None => {
                drop(state);
                self.unsealed.note_why(key, name, Why::Readers);
                self.open_outside(key, name)
            }
        };
        answer.unwrap_or_else(|| self.open_for_reading(name))
    }

    /// Opens a file in progress of which each node has its part.
    fn open_part(
        &self,
        mut state: Locked<'_>,
        file: &FileRef,
        of: &DatasetKey,
        found: &FoundTarget,
        intent: OpenIntent,
    ) -> Option<Answer> {
        // Where its end is, no node knows.
        let needs_whole = intent.append || intent.special;
        let known = state.own.parted.get(of, &file.name);
        if known.is_some_and(|known| known.leaves || needs_whole) {
            drop(state);
            if needs_whole {
                self.unsealed.note_why(of, &file.name, Why::Unseen);
            }
            return self.open_outside(of, &file.name);
        }
        let near = state.view.is_made(of, &file.name);
        let placed = state.machine.open_parted(file, of, near, monotonic_ms());
        self.place(state, file, placed, found, intent)
    }

    /// Puts the file into its dataset.
    fn place(
        &self,
        mut state: Locked<'_>,
        file: &FileRef,
        mut placed: Placed,
        found: &FoundTarget,
        intent: OpenIntent,
    ) -> Option<Answer> {
        let name = file.name.as_str();
        let room = match placed.is_on_prefix() {
            true => Ok(Room::default()),
            false => self.room_in_cache(&state, file, intent),
        };
        let room = self.settle_place(&mut state, &mut placed, name, found, room);
        // For these two reasons the others put it there, too.
        let agreed = matches!(placed.on_prefix, Some(Reason::WaitsForFlush | Reason::Follows));
        let is_parted = state.own.parted.get(&placed.key, name).is_some()
            || (!agreed && state.machine.is_parted(file));
        if placed.is_on_prefix() && is_parted && !state.is_outside(&placed.key, name) {
            // What others have in their caches must not come over what this rank writes there.
            state.machine.open_failed(&placed.key, name, monotonic_ms());
            drop(state);
            return self.open_outside(&placed.key, name);
        }
        self.contents.put_into(state, name, placed, found, intent, room)
    }

    /// Waits until all ranks have brought the file to the PFS, where it is opened then.
    fn open_outside(&self, key: &DatasetKey, name: &str) -> Option<Answer> {
        self.node.state().own.parted.entry(key, name); // it may be the first to know of the file
        match self.unsealed.leave_cache(key, name) {
            Ok(()) => None,
            Err(_) => Some(Answer::Fail(libc::EIO)),
        }
    }

    /// Returns what a file may fill in the cache.
    fn room_in_cache(
        &self,
        state: &State,
        file: &FileRef,
        intent: OpenIntent,
    ) -> std::result::Result<Room, Reason> {
        match () {
            () if lock(&self.stores.kept_out).contains(&file.name) => Err(Reason::StoreFailed),
            () if intent.special => Err(Reason::Special),
            () if !intent.may_change => Ok(Room::default()),
            () => self.stores.has_room(state, file).ok_or(Reason::NoRoom),
        }
    }

    /// Returns what is reserved for a file in the cache.
    fn settle_place(
        &self,
        state: &mut State,
        placed: &mut Placed,
        name: &str,
        found: &FoundTarget,
        room: std::result::Result<Room, Reason>,
    ) -> Room {
        // What another descriptor holds until it goes to the PFS is one file for all; so is what
        // one has open in the cache: it moves with all of them if it finds no room.
        let held = matches!(found.place, Place::Private(_));
        let opened = matches!(&found.place, Place::Cached(of, _) if *of == placed.key)
            && state.own.tokens.writer(name).is_some();
        let taken = !state.own.has(&placed.key, name) && state.view.is_taken(&placed.key, name);
        let outside = state.is_outside(&placed.key, name);
        let kept = match room.as_ref().err() {
            _ if outside => Some(Reason::Follows),
            _ if held => Some(Reason::Follows),
            _ if taken => Some(Reason::Shared),
            reason => reason.filter(|_| !opened).copied(),
        };
        if let Some(reason) = kept.filter(|_| !placed.is_on_prefix()) {
            state.machine.moved_to_prefix(&placed.key, name, reason);
            self.rank.tally.one(Count::FellBack);
            placed.on_prefix = Some(reason);
        }
        room.unwrap_or_default()
    }
}
