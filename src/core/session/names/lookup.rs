//! Calls that only look: where a path leads, and what a directory has.

use std::path::Path;

use crate::namespace::{self as ns, Answer, Entry, Place};
use crate::session::names::Names;

impl Names {
    pub fn lookup(&self, path: &Path) -> Answer {
        let Some(name) = self.rank.name_of(path) else { return Answer::PASS };
        if ns::is_ours(name) {
            return Answer::Fail(libc::ENOENT);
        }
        let state = self.node.state_to_look_at(&[name]);
        if state.view.is_removed_dir(name) {
            return Answer::Fail(libc::ENOENT);
        }
        if !self.contents.concerns(&state, name) && !self.contents.is_called(&state, name) {
            let foreign = self.contents.is_foreign(&state, name);
            return if foreign { Answer::Foreign } else { Answer::PASS };
        }
        if let Some(copy) = state.own.tokens.shadow_of(name) {
            return Answer::at(copy.clone());
        }
        match state.view.place(name) {
            Place::Prefix => Answer::PASS,
            Place::Cached(_, here) | Place::Private(here) => Answer::at(here),
            Place::Elsewhere(key, mut remote) => {
                if let Some(size) = state.part_size(&key, name) {
                    remote.meta.size = size;
                }
                Answer::Known(remote.attributes())
            }
            Place::Deleted => Answer::Fail(libc::ENOENT),
            Place::Evicted(attributes) => Answer::Known(attributes),
        }
    }

    /// Returns what a listing shows beyond, or hides from, what the PFS has.
    pub fn list(&self, path: &Path) -> Vec<Entry> {
        let dir = match self.rank.name_of(path) {
            Some(name) => name,
            None if path == self.site.prefix => "",
            None => return Vec::new(),
        };
        ns::entries(&self.node.state_to_look_at(&[dir]).view, &self.site.prefix, dir)
    }

    pub(crate) fn open_for_reading(&self, name: &str) -> Answer {
        let mut state = self.node.state_to_look_at(&[name]);
        if let Some(copy) = state.own.tokens.shadow_of(name) {
            return Answer::at(copy.clone());
        }
        let place = state.view.place(name);
        if let Place::Elsewhere(key, _) = &place
            && state.own.parted.get(key, name).is_some()
        {
            drop(state);
            let answer = self.open_part_to_read(key, name);
            return answer.unwrap_or_else(|| self.open_for_reading(name));
        }
        if !self.rank.is_child()
            && let Some(answer) = state.open_sealed_part(name, &place)
        {
            return answer;
        }
        self.contents.note_read(&mut state, name, &place);
        match place {
            Place::Prefix => Answer::PASS,
            Place::Cached(_, here) | Place::Private(here) => Answer::at(here),
            Place::Deleted => Answer::Fail(libc::ENOENT),
            Place::Elsewhere(key, remote) => {
                drop(state);
                self.updates.wait_for_remote(name, &key, &remote)
            }
            Place::Evicted(_) => self.contents.refuse_evicted(name),
        }
    }
}
