//! Names that go and move: unlink, rename, rmdir; and look-ups.

use std::path::Path;

use crate::error::{Error, Result};
use crate::files::size_at;
use crate::handles::LiesAt;
use crate::log::messages;
use crate::machine::{self, Deletion, Placed, Placement, Reason, Why};
use crate::namespace::{self as ns, Answer, Manner, Place};
use crate::session::{
    names::Names,
    node::State,
    rank::{known::file_ref, lock},
};
use crate::system::monotonic_ms;

struct Old<'a> {
    name: &'a str,
    key: &'a machine::DatasetKey,
    here: &'a Path,
    /// What becomes of its old name.
    deletion: Option<Deletion>,
}

impl Names {
    /// Answers chmod, chown, utime, truncate by path.
    pub fn change(&self, path: &Path) -> Answer {
        if let Err(answer) = self.bring_whole(self.rank.name_of(path)) {
            return answer;
        }
        let answer = self.open_as(path, libc::O_WRONLY, Manner::Changing);
        let (Answer::Pass { token } | Answer::Redirect { token, .. }) = answer else {
            return answer;
        };
        if token == 0 {
            return answer;
        }
        // The call that follows is a single one: nothing stays open. A shadow becomes the file
        // at once, since there is no close at which it could be compared.
        let place = self.handles.settle_change(token);
        place.map_or(Answer::PASS, Answer::at)
    }

    pub fn unlink(&self, path: &Path) -> Answer {
        let Some(name) = self.rank.name_of(path) else { return Answer::PASS };
        if ns::is_ours(name) {
            return Answer::Fail(libc::ENOENT);
        }
        self.stores.heed_link(&[path]);
        if let Err(answer) = self.bring_out_deleted(name) {
            return answer;
        }
        self.handles.wake_path(path);
        let mut state = self.node.state_to_change(&[name]);
        if let Some(answer) = self.unlink_called(&mut state, name, path) {
            return answer;
        }
        if !self.contents.concerns(&state, name) || self.rank.is_child() {
            return Answer::PASS;
        }
        if let Some(answer) = ns::unlink_rules(&state.view, name, path) {
            return answer;
        }
        drop(state);
        let mut state = self.node.turn_on(&[name]);
        if let Some(answer) = ns::unlink_rules(&state.view, name, path) {
            return answer;
        }
        let place = state.view.place(name);
        match place.clone() {
            Place::Private(here) => {
                // In a store that cannot remove it, it is in nobody's way.
                let _ = ns::remove(&here);
                let left = self.leave_private(&mut state, name);
                return left.map_or(Answer::Fail(libc::EIO), |()| Answer::Done);
            }
            Place::Evicted(_) => {
                state.view.delete(name);
                return Answer::Done;
            }
            _ => {}
        }
        let file = self.rank.file_ref(name);
        let deletion = file.map_or(Deletion::Now, |file| state.deleted_at(&file, &place));
        match self.contents.delete(&mut state, name, &place, deletion) {
            Ok(()) => {
                let shadows = state.own.tokens.shadows_of(name);
                state.forget_shadows(&shadows);
                Answer::Done
            }
            Err(error) => {
                drop(state);
                self.stores.give_up_routing(&error.to_string());
                Answer::Fail(libc::EIO)
            }
        }
    }

    /// Renames where either name may lie outside the prefix.
    pub fn rename(&self, from: &Path, to: &Path) -> Answer {
        let names = ns::OldAndNew { from: self.rank.name_of(from), to: self.rank.name_of(to) };
        if self.rank.is_child()
            || names.from.is_some_and(ns::is_ours)
            || names.to.is_some_and(ns::is_ours)
        {
            return Answer::PASS;
        }
        if let Some(name) = names.from
            && from.symlink_metadata().is_ok_and(|found| found.is_dir())
        {
            return self.rename_dir(name, from, to);
        }
        self.stores.heed_link(&[from, to]);
        let both = names.from.zip(names.to);
        if let Some(answer) = both.and_then(|(from, to)| self.rename_for_all(from, to)) {
            return answer;
        }
        let whole = self.bring_whole(names.from).and_then(|()| self.bring_whole(names.to));
        if let Err(answer) = whole {
            return answer;
        }
        self.handles.wake_path(from);
        self.handles.wake_path(to);
        let both: Vec<_> = names.from.into_iter().chain(names.to).collect();
        let mut state = self.node.state_to_change(&both);
        if let Err(error) = self.hand_over_both(&mut state, names.from, names.to) {
            return Answer::Fail(error.errno());
        }
        if !both.iter().any(|name| self.contents.concerns(&state, name)) {
            names.to.into_iter().for_each(|name| self.report.note_unmatched(name));
            return Answer::PASS;
        }
        // Threads that bring parts of an older file of the new name would put it over this one.
        let is_parted = |to: &&str| state.view.place(*to).is_parted();
        let before = names.from.into_iter().chain(names.to.filter(is_parted));
        let Some(state) = self.contents.bring_all_near(state, before) else {
            return Answer::Fail(libc::EXDEV);
        };
        // Two looks at what others may rename meanwhile do not tell whether it is one file.
        let is_sure = |answer: &Answer| *answer != Answer::Done || from == to;
        if let Some(answer) = ns::rename_rules(&state.view, from, to, names).filter(is_sure) {
            return answer;
        }
        drop(state);
        let mut state = self.node.turn_on(&both);
        self.rename_in_turn(&mut state, from, to, names).unwrap_or_else(|error| {
            drop(state);
            self.rank.complain(messages::OPERATION_FAILED, &error);
            Answer::Fail(error.errno())
        })
    }

    /// No other rank of the node looks at the names now, or changes them.
    fn rename_in_turn(
        &self,
        state: &mut State,
        from: &Path,
        to: &Path,
        names: ns::OldAndNew<'_>,
    ) -> Result<Answer> {
        // Another rank may have been there before.
        if let Some(answer) = ns::rename_rules(&state.view, from, to, names) {
            return Ok(answer);
        }
        if let Some(name) = names.from
            && !state.own.tokens.shadows_of(name).is_empty()
            && !self.handles.adopt_shadows(state, name)
        {
            return Ok(Answer::Fail(libc::EXDEV));
        }
        let source = names.from.map_or(Place::Prefix, |name| state.view.place_now(name));
        let of_another = names.from.filter(|name| state.of_another(*name).is_some());
        let replaced = names.to.map_or_else(Vec::new, |to| state.own.tokens.shadows_of(to));
        let answer = match (&source, names.to) {
            (Place::Deleted, _) => Answer::Fail(libc::ENOENT),
            (Place::Evicted(_), _) => {
                names.from.into_iter().for_each(|from| state.view.rename_evicted(from, names.to));
                return Ok(Answer::Done);
            }
            (Place::Elsewhere(..), _) => Answer::Fail(libc::EXDEV),
            (Place::Private(here), _) => {
                self.rename_private(state, names.from.unwrap_or_default(), here, to)?
            }
            (_, Some(name)) if self.rank.match_name(name).is_some() => {
                self.rename_into(state, names.from, from, name, &source)?
            }
            _ => self.rename_out(state, names.from, from, to, &source)?,
        };
        if !matches!(answer, Answer::Fail(_)) {
            state.forget_shadows(&replaced);
            of_another.into_iter().for_each(|name| state.view.delete(name));
        }
        Ok(answer)
    }

    /// The new name is not ours: what is cached goes to the PFS under it.
    fn rename_out(
        &self,
        state: &mut State,
        name: Option<&str>,
        from: &Path,
        to: &Path,
        source: &Place,
    ) -> Result<Answer> {
        let (Some(name), Place::Cached(_, here)) = (name, source) else {
            if let Err(error) = std::fs::rename(from, to) {
                return Ok(Answer::Fail(error.raw_os_error().unwrap_or(libc::EIO)));
            }
            if let Some(name) = name {
                self.contents.forget(state, name);
            }
            self.contents.replace_private(state, to);
            return Ok(Answer::Done);
        };
        if state.own.tokens.count(name) > 0 {
            let (here, key) = (here.clone(), self.rank.file_ref(name));
            return self.rename_out_open(state, name, key, &here, to);
        }
        self.rank.publish(here, to, Reason::RenamedOut)?;
        self.contents.replace_private(state, to);
        let deletion = match self.rank.file_ref(name) {
            Some(file) => state.machine.renamed_out(&file, monotonic_ms()),
            None => Deletion::Now,
        };
        self.contents.delete(state, name, source, deletion)?;
        Ok(Answer::Done)
    }

    /// The new name is ours. What an older dataset has on the PFS under the old name stays there
    /// until that is safe.
    fn rename_into(
        &self,
        state: &mut State,
        name: Option<&str>,
        from: &Path,
        to: &str,
        source: &Place,
    ) -> Result<Answer> {
        let Some(matched) = self.rank.match_name(to) else { return Ok(Answer::PASS) };
        self.report.unmatched.matches();
        let together = name.is_some_and(|name| {
            lock(&self.together).remove(name) || state.own.joined.is_of_others(name)
        });
        if let (Some(name), Place::Prefix, false) = (name, source, together) {
            self.learn_template(state, name, to, matched.series);
        }
        let old = name.and_then(|name| self.contents.leaving(name));
        let cached = matches!(source, Place::Cached(..));
        let new = file_ref(to, &matched);
        let real = if let Place::Cached(_, here) = source { here } else { from };
        let bytes = size_at(real);
        let routed = self.rank.is_routing() || state.machine.goes_with_cached(&new);
        let joins =
            if cached { Ok(true) } else { self.contents.can_take_in(state, name, from, &new) };
        let keep = match joins {
            _ if !routed => Some(Reason::FallenBack),
            _ if together => Some(Reason::OpenedTogether),
            Ok(false) => Some(Reason::Learned(Why::Stays)),
            _ => None,
        };
        if together {
            match name.is_some_and(|name| self.notice_file(state, name, to, &matched)) {
                true => state.machine.mark_opened_together(&new, true),
                false => state.machine.mark_unsafe(&new, Why::Writers),
            }
        }
        let has_room = cached || (keep.is_none() && self.contents.takes_now(state, joins, &new));
        let now = monotonic_ms();
        let renamed = state.machine.renamed(old.as_ref(), Some(&new), bytes, keep, now);
        let placed = match renamed.to {
            Placement::Dataset(placed) if has_room || placed.is_on_prefix() => placed,
            Placement::Dataset(placed) => {
                state.machine.moved_to_prefix(&placed.key, to, Reason::NoRoom);
                Placed { on_prefix: Some(Reason::NoRoom), ..placed }
            }
            _ if cached => {
                return self.rename_out(state, name, from, &self.site.on_prefix(to), source);
            }
            _ => return Ok(Answer::PASS),
        };
        // A dataset that is sealed keeps its files, whoever has written them.
        let sealed = matches!(source, Place::Cached(key, _) if !state.is_open(key));
        let deletion = if sealed { Some(Deletion::Deferred) } else { renamed.from };
        match source {
            Place::Cached(key, here) => {
                let name = name.unwrap_or_default();
                self.rename_cached(state, &Old { name, key, here, deletion }, to, &placed)
            }
            _ => self.rename_from_prefix(state, name, deletion, from, to, &placed),
        }
    }

    fn rename_cached(
        &self,
        state: &mut State,
        old: &Old<'_>,
        to: &str,
        placed: &Placed,
    ) -> Result<Answer> {
        let Old { name, key, here, deletion } = *old;
        let keep = deletion == Some(Deletion::Deferred);
        // What its descriptors still write is the file's under its new name.
        let open = state.own.tokens.writer(name).is_some();
        let put = |target: &Path| ns::move_and_keep(open, keep, here, target);
        if !self.stores.put_in_cache(state, placed, to, put) {
            return self.rename_onto_prefix(state, old, to, &placed.key);
        }
        self.contents.replace_private(state, &self.site.on_prefix(to));
        self.contents.after_move(state, key, name, deletion);
        state.own.tokens.rename(name, to, &placed.key);
        state.enter_file(&placed.key, to, false);
        Ok(Answer::Done)
    }

    fn rename_from_prefix(
        &self,
        state: &mut State,
        name: Option<&str>,
        deletion: Option<Deletion>,
        from: &Path,
        to: &str,
        placed: &Placed,
    ) -> Result<Answer> {
        let bytes = size_at(from);
        let cached =
            self.stores.put_in_cache(state, placed, to, |target| ns::copy_over(from, target));
        if name.is_none_or(|name| self.rank.match_name(name).is_none()) {
            // What matched before has been counted.
            self.contents.count_named(state.machine.reason_of(&placed.key, to), to, bytes);
        }
        if !cached {
            return self.rename_on_prefix(state, name, from, to, &placed.key);
        }
        match name.zip(deletion) {
            Some((name, deletion)) => {
                self.contents.delete(state, name, &Place::Prefix, deletion)?
            }
            None => ns::remove(from)?,
        }
        self.contents.replace_private(state, &self.site.on_prefix(to));
        state.enter_file(&placed.key, to, false);
        Ok(Answer::Done)
    }

    fn rename_on_prefix(
        &self,
        state: &mut State,
        name: Option<&str>,
        from: &Path,
        to: &str,
        key: &machine::DatasetKey,
    ) -> Result<Answer> {
        if let Some(name) = name {
            state.own.tokens.rename(name, to, key);
        }
        let target = self.site.on_prefix(to);
        std::fs::rename(from, &target).map_err(|e| Error::io("cannot rename", from, e))?;
        self.contents.replace_private(state, &target);
        state.enter_file(key, to, true);
        Ok(Answer::Done)
    }

    /// A file that is open goes to the PFS when it is closed, with what will have been written.
    fn rename_onto_prefix(
        &self,
        state: &mut State,
        old: &Old<'_>,
        to: &str,
        target: &machine::DatasetKey,
    ) -> Result<Answer> {
        let Old { name, key, here, deletion } = *old;
        let reason = state.machine.reason_of(target, to).unwrap_or(Reason::StoreFailed);
        if state.own.tokens.count(name) > 0 {
            self.contents.keep_private(state, here, to, deletion == Some(Deletion::Deferred))?;
            self.contents.after_move(state, key, name, deletion);
            state.own.tokens.rename_as(name, to, target, &LiesAt::OnPrefix);
        } else {
            self.rank.publish(here, &self.site.on_prefix(to), reason)?;
            let source = Place::Cached(key.clone(), here.to_path_buf());
            self.contents.delete(state, name, &source, deletion.unwrap_or(Deletion::Now))?;
        }
        state.enter_file(target, to, true);
        Ok(Answer::Done)
    }

    /// Removes a directory with the last of the files that wait for their deletion.
    pub fn rmdir(&self, path: &Path) -> Answer {
        let Some(name) = self.rank.name_of(path) else { return Answer::PASS };
        if ns::is_ours(name) {
            return Answer::Fail(libc::ENOENT);
        }
        let mut state = self.node.state();
        if let Some(answer) = ns::rmdir_rules(&mut state.view, &self.site.prefix, name) {
            return answer;
        }
        drop(state);
        let mut state = self.node.turn_on(&[name]);
        if let Some(answer) = ns::rmdir_rules(&mut state.view, &self.site.prefix, name) {
            return answer;
        }
        state.view.remove_dir(name);
        self.site.host.names_changed();
        Answer::Done
    }
}
