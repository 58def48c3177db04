//! open(2) on a path of ours: where the bytes are, or go.

use std::path::Path;

use crate::handles::Room;
use crate::machine::{self, FileRef, Placement};
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
        let found = match self.find_to_write(&mut state, &file, intent, manner) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        if let Some(of) = state.parted_in(&file, &found.place) {
            return self.open_part(state, &file, &of, &found, intent);
        }
        let together = state.own.making.as_deref() == Some(name);
        let wish = machine::Intent { together, ..intent.as_wish(found.exists) };
        state.keep_up(&file, wish);
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
}
