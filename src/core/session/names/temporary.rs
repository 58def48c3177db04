//! Files that a program writes under a temporary name and renames when they are complete: once such
//! a name is known, its file lies in the cache, in no dataset, seen by this rank only.

use std::path::Path;

use crate::account::tally::Count;
use crate::error::Result;
use crate::handles::{LiesAt, Tracked};
use crate::log::messages;
use crate::machine::{self, DatasetKey, Reason};
use crate::namespace::{self as ns, Answer, OpenIntent, Place};
use crate::patterns::Template;
use crate::session::{names::Names, node::State, rank::lock};
use crate::system::monotonic_ms;

impl Names {
    pub(crate) fn open_unmatched(&self, name: &str, intent: OpenIntent) -> Answer {
        if intent.may_change {
            self.report.note_unmatched(name);
        }
        let mut state = self.node.state_to_change(&[name]);
        let place = state.view.place(name);
        if !matches!(place, Place::Private(_)) && self.contents.is_called(&state, name) {
            drop(state);
            return self.open_called(name, intent);
        }
        match place {
            Place::Private(here) if !intent.may_change => return Answer::at(here),
            Place::Private(_) => {}
            _ if self.contents.is_foreign(&state, name) => {
                if intent.may_change
                    && self.rank.series.could_match_below(ns::parent(name))
                    && state.own.joined.opens(name, self.site.on_prefix(name).exists())
                {
                    state.machine.note_move(); // told as soon as can be, on one node, too
                }
                return Answer::Foreign;
            }
            _ if !intent.may_change || intent.special || self.rank.is_child() => {
                return Answer::PASS;
            }
            _ if lock(&self.together).contains(name) => return Answer::PASS,
            _ => {}
        }
        let held = matches!(place, Place::Private(_));
        let last = self.contents.final_file(&state, name);
        if last.is_none() && !held {
            return Answer::PASS;
        }
        let found = match self.contents.look(&state, name.into(), intent) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        if lock(&self.stores.kept_out).remove(name) {
            // The cache has it, or would, and could not open it.
            return self.pass_private(&mut state, name, intent);
        }
        let room = last.as_ref().and_then(|last| self.stores.has_room(&state, last));
        if !held && ((found.exists && !intent.truncate) || room.is_none()) {
            return Answer::PASS;
        }
        match self.contents.private_target(&mut state, name, &found) {
            Ok(path) => {
                let key = DatasetKey::new(last.map_or(0, |last| last.series), "", 0);
                let tracked = Tracked {
                    made: !found.exists,
                    room: room.unwrap_or_default(),
                    ..Tracked::new(&key, name, LiesAt::Temporary)
                };
                Answer::Redirect { path, token: state.own.tokens.issue(tracked) }
            }
            Err(error) => {
                self.rank.complain(messages::TEMPORARY_PASSED, &error);
                self.pass_private(&mut state, name, intent)
            }
        }
    }

    /// Opens on the PFS what the cache cannot open. What the cache has goes there first, or is
    /// forgotten if the open empties it: it must not come back later.
    fn pass_private(&self, state: &mut State, name: &str, intent: OpenIntent) -> Answer {
        let Place::Private(here) = state.view.place(name) else { return Answer::PASS };
        if state.own.tokens.count(name) > 0 {
            return Answer::Fail(libc::EIO); // one name cannot be two files
        }
        if !intent.truncate {
            let done = self.contents.publish_private(state, name);
            return if done { Answer::PASS } else { Answer::Fail(libc::EIO) };
        }
        state.view.take_private(name);
        let _ = ns::remove(&here);
        Answer::PASS
    }

    /// Learns from a rename on the PFS how the program names its temporary files.
    pub(crate) fn learn_template(&self, state: &mut State, from: &str, to: &str, series: usize) {
        let known = |(at, one): &(usize, Template)| *at == series && one.explains(from, to);
        if self.rank.match_name(from).is_some() || lock(&self.contents.templates).iter().any(known)
        {
            return;
        }
        let learned = Template::learn(from, to).map(|template| (series, template));
        let Some(learned) = learned.filter(|one| !lock(&self.contents.templates).contains(one))
        else {
            return;
        };
        if let Some(last) = state.machine.learn_temporary(series, &learned.1.to_text()) {
            lock(&self.contents.templates)
                .retain(|(at, one)| *at != series || one.to_text() != last);
        }
        lock(&self.contents.templates).push(learned);
        self.site.host.names_changed();
    }

    pub(crate) fn rename_private(
        &self,
        state: &mut State,
        name: &str,
        here: &Path,
        to: &Path,
    ) -> Result<Answer> {
        let last = self.rank.name_of(to).and_then(|to| Some((to, self.rank.match_name(to)?)));
        let placed = match &last {
            Some((to, matched)) => {
                self.report.unmatched.matches();
                self.contents.place_private(state, name, to, matched, here)
            }
            None => None,
        };
        let open = state.own.tokens.count(name) > 0;
        let elsewhere = last.as_ref().map_or(Reason::RenamedOut, |_| Reason::NoAgreement);
        if let (Some((last, _)), Some(placed)) = (last, &placed) {
            let put = |target: &Path| ns::move_to_unless(open, here, target);
            let cached = self.stores.put_in_cache(state, placed, last, put);
            if cached {
                self.contents.replace_private(state, to);
                state.own.tokens.rename_as(name, last, &placed.key, &LiesAt::Cached);
            } else if open {
                self.contents.keep_private(state, here, last, false)?;
                state.own.tokens.rename_as(name, last, &placed.key, &LiesAt::OnPrefix);
            } else {
                let reason = state.machine.reason_of(&placed.key, last);
                self.publish_as(state, here, to, reason.unwrap_or(Reason::StoreFailed))?;
            }
            self.rank.tally.one(if cached { Count::Cached } else { Count::OnPrefix });
            state.enter_file(&placed.key, last, !cached);
        } else if open {
            let Some(new) = self.rank.name_of(to) else { return Ok(Answer::Fail(libc::EXDEV)) };
            self.contents.keep_private(state, here, new, false)?;
            ns::remove(to)?;
            state.own.tokens.become_temporary(name, new);
            self.site.host.names_changed();
        } else {
            self.publish_as(state, here, to, elsewhere)?;
        }
        self.leave_private(state, name)?;
        Ok(Answer::Done)
    }

    fn publish_as(&self, state: &mut State, here: &Path, to: &Path, reason: Reason) -> Result<()> {
        self.rank.publish(here, to, reason)?;
        // In a store that cannot remove it, it is in nobody's way.
        let _ = ns::remove(here);
        self.contents.replace_private(state, to);
        Ok(())
    }

    /// Takes a name of ours out of its dataset, and hides what older datasets or the PFS have under
    /// it.
    pub(crate) fn leave_private(&self, state: &mut State, name: &str) -> Result<()> {
        state.view.take_private(name);
        let Some(file) = self.rank.file_ref(name) else { return Ok(()) };
        let deletion = state.machine.renamed_out(&file, monotonic_ms());
        let place = state.view.place(name);
        self.contents.delete(state, name, &place, deletion)
    }

    /// Takes a file that is open out of its dataset. It stays in the cache under the new name, as
    /// its descriptors still write it, and goes to the PFS at its last close.
    pub(crate) fn rename_out_open(
        &self,
        state: &mut State,
        name: &str,
        file: Option<machine::FileRef>,
        here: &Path,
        to: &Path,
    ) -> Result<Answer> {
        let (Some(new), Some(file)) = (self.rank.name_of(to), file) else {
            return Ok(Answer::Fail(libc::EXDEV));
        };
        // A private copy of a sealed file has not become the file yet.
        let mut all = state.own.tokens.all().filter(|(_, one)| one.name == name);
        let plain = all.all(|(_, one)| one.way == LiesAt::Cached);
        drop(all);
        if !plain || self.rank.match_name(new).is_some() {
            return Ok(Answer::Fail(libc::EXDEV));
        }
        let Place::Cached(key, _) = state.view.place(name) else {
            return Ok(Answer::Fail(libc::EXDEV));
        };
        let deletion = state.machine.renamed_out(&file, monotonic_ms());
        self.contents.keep_private(state, here, new, deletion == machine::Deletion::Deferred)?;
        self.contents.after_move(state, &key, name, Some(deletion));
        // What had the new name is replaced, and must not come back when that moves on.
        ns::remove(to)?;
        state.own.tokens.become_temporary(name, new);
        self.site.host.names_changed();
        Ok(Answer::Done)
    }
}
