//! open(2) on a path of ours: where the bytes are, or go.

use std::path::Path;

use crate::account::tally::Count;
use crate::handles::Room;
use crate::machine::{self, FileRef, Placed, Placement, Reason};
use crate::namespace::{self as ns, Answer, FoundTarget, Manner, OnPrefix, OpenIntent, Place};
use crate::patterns::Match;
use crate::session::{
    names::Names,
    node::State,
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
        let found = match self.contents.look(&state, name, intent) {
            Ok(found) if manner == Manner::Lazy && found.is_denied() => {
                return Some(Answer::Fail(libc::EACCES));
            }
            Ok(found) => found,
            Err(Answer::Fail(libc::ENOENT)) if self.is_made_together(&mut state, name) => {
                return None;
            }
            Err(answer) => {
                if answer == Answer::PASS && intent.makes != ns::Makes::No {
                    self.stores.note_refusal(&mut state, &file, machine::Intent::REWRITE);
                }
                return Some(answer);
            }
        };
        let wish = intent.as_wish(found.exists);
        if let Some(of) = state.of_another(name) {
            if state.view.place(name) != found.place {
                return None; // that rank has made it since we looked
            }
            return self.handles.open_of_another(state, &file, &of, found, intent, manner);
        }
        let kept_out = lock(&self.stores.kept_out).contains(name);
        let room = match kept_out {
            true => Err(Reason::StoreFailed),
            false => self.room_for(&state, &file, intent),
        };
        let placement = state.machine.write_open(&file, wish, monotonic_ms());
        match placement {
            Placement::Pass => {
                if !found.exists && self.contents.clear_prefix(&state, name, &found).is_ok() {
                    state.view.revive(name);
                }
                Some(answer_in_place(&found))
            }
            Placement::CopyUp { from } => {
                let on_prefix = |here| kept_out && self.rank.has_the_same(name, here);
                let origin = match &found.place {
                    Place::Cached(_, here) if !on_prefix(here) => here.clone(),
                    _ => self.site.on_prefix(name),
                };
                if manner == Manner::Lazy && (!kept_out || origin == self.site.on_prefix(name)) {
                    return Some(self.handles.open_lazily(&mut state, name, &from, &origin));
                }
                match self.handles.take_over_own(&mut state, &file, &from, wish) {
                    Some(placed) => {
                        self.contents.put_into(state, name, placed, &found, intent, Room::default())
                    }
                    None => Some(self.handles.copy_up(&mut state, name, &from, origin)),
                }
            }
            Placement::Dataset(mut placed) => {
                let room = self.settle_place(&mut state, &mut placed, name, &found, room);
                self.contents.put_into(state, name, placed, &found, intent, room)
            }
        }
    }

    /// Tells whether another rank has just made the file that both open by one call: from now on
    /// it is seen here, too.
    fn is_made_together(&self, state: &mut State, name: &str) -> bool {
        let is_made = lock(&self.making).take_if(|one| one == name).is_some()
            && state.view.place(name) == Place::Deleted
            && ns::on_prefix(&self.site.on_prefix(name)) != OnPrefix::Absent;
        if is_made {
            state.view.revive(name);
        }
        is_made
    }

    /// Returns what a file may fill in the cache.
    fn room_for(
        &self,
        state: &State,
        file: &FileRef,
        intent: OpenIntent,
    ) -> std::result::Result<Room, Reason> {
        match intent.special {
            true => Err(Reason::Special),
            false => self.stores.has_room(state, file).ok_or(Reason::NoRoom),
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
        let kept = match room.as_ref().err() {
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

/// Not routed: but what is in the cache can only be found there.
fn answer_in_place(found: &FoundTarget) -> Answer {
    match &found.place {
        Place::Cached(_, here) | Place::Private(here) => Answer::at(here.clone()),
        _ => Answer::PASS,
    }
}
