//! Files that a process changes which this rank has started. What it writes passes no engine, and
//! nobody knows when it is done: the change is made on the PFS, where the file is brought first.
//! What is open already is one file for all (`lent`).

use std::path::Path;

use crate::error::Result;
use crate::files::mode_at;
use crate::handles::Loan;
use crate::log::messages;
use crate::machine::Reason;
use crate::namespace::{
    self as ns, Answer, FoundTarget, Manner, OnPrefix, OpenIntent, Place, WriteClaim,
};
use crate::session::{
    names::Names,
    node::{State, neighbours::Locked},
    rank::lock,
};
use crate::system::{Attributes, has_writers, user_attributes_at};

impl Names {
    pub(crate) fn open_by_child(&self, path: &Path, flags: i32, child: i32) -> Answer {
        let intent = OpenIntent::of(flags);
        match self.rank.name_of(path) {
            Some(name) if intent.may_change && !ns::is_ours(name) => {
                self.change_by_child(path, name, flags, child)
            }
            _ => self.open_as(path, flags, Manner::Changing),
        }
    }

    /// Lets a child compare the answer with what fstat says of the descriptor that it opens then:
    /// cp(1) copies nothing where they differ. So it waits for a file of another node as an open.
    pub(crate) fn stat_by_child(&self, path: &Path) -> Answer {
        if self.bring_whole(self.rank.name_of(path)).is_err() {
            return Answer::Fail(libc::EIO);
        }
        let answer = self.lookup(path);
        let (Answer::Known(_), Some(name)) = (&answer, self.rank.name_of(path)) else {
            return answer;
        };
        let mut state = self.node.state();
        let place = state.view.place(name);
        let Place::Elsewhere(key, remote) = &place else { return answer };
        self.contents.note_read(&mut state, name, &place);
        drop(state);
        match self.updates.wait_for_remote(name, key, remote) {
            Answer::Fail(_) => answer,
            there => there,
        }
    }

    fn change_by_child(&self, path: &Path, name: &str, flags: i32, child: i32) -> Answer {
        let intent = OpenIntent::of(flags);
        if let Err(answer) = self.bring_whole(Some(name)) {
            return answer;
        }
        self.handles.wake(|one| one.name == name);
        let mut state = self.node.state();
        if !self.contents.concerns(&state, name) {
            return Answer::PASS;
        }
        self.report.unmatched.matches();
        state.doubt(name);
        if let Some(copy) = state.own.tokens.shadow_of(name).cloned() {
            if let Some(token) = state.own.tokens.shadows_of(name).first() {
                self.handles.lend(&mut state, *token, child);
            }
            return Answer::at(copy);
        }
        let mut found = match self.contents.look(&state, name.into(), intent) {
            Ok(found) if found.is_denied() => return Answer::Fail(libc::EACCES),
            Ok(found) => found,
            Err(answer) => return answer,
        };
        let is_written = |here: &Path| has_writers(here).is_ok_and(|found| found == Some(true));
        match (&found.place, state.own.tokens.writer(name)) {
            (Place::Cached(_, here) | Place::Private(here), Some(token)) => {
                self.handles.lend(&mut state, token, child);
                return Answer::at(here.clone());
            }
            (Place::Prefix, Some(_)) => return Answer::PASS,
            (Place::Cached(_, here) | Place::Private(here), None)
                if !self.rank.is_ended() && (is_written(here) || state.view.is_private(name)) =>
            {
                drop(state);
                return self.open_lent(path, flags, child);
            }
            (Place::Private(here), None) => return Answer::at(here.clone()),
            _ => {}
        }
        if !intent.truncate {
            state = match self.contents.bring_near(state, name, &mut found) {
                Ok(state) => state,
                Err(answer) => return answer,
            };
        }
        match self.leave_to_child(&mut state, name, &found, intent) {
            Ok(true) => Answer::PASS,
            Ok(false) => {
                drop(state);
                self.change_by_child(path, name, flags, child)
            }
            Err(error) => {
                drop(state);
                self.rank.complain(messages::OPERATION_FAILED, &error);
                Answer::Fail(libc::EIO)
            }
        }
    }

    /// From now on `name` is what the PFS has. `false`: see `Contents::write_in_turn`.
    fn leave_to_child(
        &self,
        state: &mut Locked<'_>,
        name: &str,
        found: &FoundTarget,
        intent: OpenIntent,
    ) -> Result<bool> {
        let own = state.own.holdings.values().any(|holding| holding.files.contains(name));
        let cached = state.view.cached_in(name).is_some();
        if found.place == Place::Prefix && !own && !cached && !state.view.is_absent(name) {
            self.rank.tally.passed(Reason::Shared, name, 0);
            state.own.by_children.insert(name.to_string());
            return Ok(true); // it belongs to no dataset, and goes on like that
        }
        self.make_for_child(name, found, intent)?;
        let mut leave = |state: &mut State| self.contents.leave_to_prefix(state, name);
        let claim = WriteClaim { name: name.into(), on_prefix: true, ..WriteClaim::default() };
        self.contents.bring_to_prefix(state, claim, found, intent, &mut leave)
    }

    /// A file that the PFS does not have is there for the call that truncates it, with its mode.
    fn make_for_child(&self, name: &str, found: &FoundTarget, intent: OpenIntent) -> Result<()> {
        let (mode, attributes) = match &found.place {
            Place::Cached(_, here) => (mode_at(here), user_attributes_at(here)),
            Place::Elsewhere(_, remote) => {
                (remote.meta.mode & 0o7777, remote.meta.attributes.clone())
            }
            Place::Evicted(known) => (known.mode & 0o7777, Attributes::new()),
            Place::Prefix | Place::Private(_) | Place::Deleted => return Ok(()),
        };
        if !intent.truncate || found.on_prefix != OnPrefix::Absent {
            return Ok(());
        }
        ns::make_empty(&self.site.on_prefix(name), mode, &attributes)
    }

    /// Opens a file that is being written, but not by this rank, as if by this rank.
    pub(crate) fn open_lent(&self, path: &Path, flags: i32, child: i32) -> Answer {
        let answer = self.open_as(path, flags, Manner::Changing);
        match answer {
            Answer::Redirect { token, .. } if token != 0 => {
                lock(&self.handles.lent).push(Loan::new(token, child));
            }
            Answer::Pass { token } if token != 0 => _ = self.handles.closed(token),
            _ => {}
        }
        answer
    }
}
