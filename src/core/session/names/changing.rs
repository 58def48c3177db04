//! Names that go and move: unlink, rename, rmdir; and look-ups.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::intake::take_in;
use crate::error::Result;
use crate::handles::LiesAt;
use crate::log::messages;
use crate::machine::{self, Deletion, Placed, Placement, Reason, Why};
use crate::namespace::{self as ns, Answer, Manner, Place};
use crate::session::rank::known::file_ref;
use crate::session::rank::publish::{Gate, Single};
use crate::session::rank::runtime::{Session, State};
use crate::session::updates::moves::is_open;
use crate::system::monotonic_ms;

/// A cached file that is renamed.
struct Old<'a> {
    name: &'a str,
    key: &'a machine::DatasetKey,
    here: &'a Path,
    /// What becomes of its old name.
    deletion: Option<Deletion>,
}

impl Session {
    /// Answers chmod, chown, utime, truncate by path: like a write-open that keeps the content.
    pub fn change(&self, path: &Path) -> Answer {
        let answer = self.open_as(path, libc::O_WRONLY, Manner::Changing);
        let (Answer::Pass { token } | Answer::Redirect { token, .. }) = answer else {
            return answer;
        };
        if token == 0 {
            return answer;
        }
        // The call that follows is a single one: nothing stays open. A shadow becomes the file
        // at once, since there is no close at which it could be compared.
        let place = self.settle_change(token);
        place.map_or(Answer::PASS, Answer::at)
    }

    /// Answers unlink of `path`.
    pub fn unlink(&self, path: &Path) -> Answer {
        let Some(name) = self.name_of(path) else { return Answer::PASS };
        if ns::is_ours(name) {
            return Answer::Fail(libc::ENOENT);
        }
        self.heed_link(&[path]);
        self.wake_path(path);
        let mut state = self.state_to_change(&[name]);
        if let Some(answer) = self.unlink_called(&mut state, name, path) {
            return answer;
        }
        if !self.concerns(&state, name) || self.is_child() {
            return Answer::PASS;
        }
        if let Some(answer) = unlink_rules(&state, name, path) {
            return answer;
        }
        drop(state);
        let mut state = self.turn_on(&[name]);
        if let Some(answer) = unlink_rules(&state, name, path) {
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
        let file = self.file_ref(name);
        let deletion = file.map_or(Deletion::Now, |file| state.deleted_at(&file, &place));
        match self.delete(&mut state, name, &place, deletion) {
            Ok(()) => {
                let shadows = state.tokens.shadows_of(name);
                self.forget_shadows(&mut state, &shadows);
                Answer::Done
            }
            Err(error) => {
                drop(state);
                self.give_up_routing(&error.to_string());
                Answer::Fail(libc::EIO)
            }
        }
    }

    /// Answers rename; either name may lie outside the prefix.
    pub fn rename(&self, from: &Path, to: &Path) -> Answer {
        let names = (self.name_of(from), self.name_of(to));
        if self.is_child() || names.0.is_some_and(ns::is_ours) || names.1.is_some_and(ns::is_ours) {
            return Answer::PASS;
        }
        if let Some(name) = names.0
            && from.symlink_metadata().is_ok_and(|found| found.is_dir())
        {
            return self.rename_dir(name, from, to);
        }
        self.heed_link(&[from, to]);
        self.wake_path(from);
        self.wake_path(to);
        let both: Vec<_> = names.0.into_iter().chain(names.1).collect();
        let mut state = self.state_to_change(&both);
        if let Err(error) = self.hand_over_both(&mut state, names.0, names.1) {
            return Answer::Fail(error.errno());
        }
        if !both.iter().any(|name| self.concerns(&state, name)) {
            names.1.into_iter().for_each(|name| self.note_unmatched(name));
            return Answer::PASS;
        }
        let Some(state) = self.bring_all_near(state, names.0) else {
            return Answer::Fail(libc::EXDEV);
        };
        // Two looks at what others may rename meanwhile do not tell whether it is one file.
        let is_sure = |answer: &Answer| *answer != Answer::Done || from == to;
        if let Some(answer) = rename_rules(&state, from, to, names).filter(is_sure) {
            return answer;
        }
        drop(state);
        let mut state = self.turn_on(&both);
        self.rename_in_turn(&mut state, (from, to), names).unwrap_or_else(|error| {
            drop(state);
            self.complain(messages::OPERATION_FAILED, &error);
            Answer::Fail(error.errno())
        })
    }

    /// Renames a file when no other rank of the node looks at its names, or changes them.
    fn rename_in_turn(
        &self,
        state: &mut State,
        (from, to): (&Path, &Path),
        names: (Option<&str>, Option<&str>),
    ) -> Result<Answer> {
        // Another rank may have been there before.
        if let Some(answer) = rename_rules(state, from, to, names) {
            return Ok(answer);
        }
        if let Some(name) = names.0
            && !state.tokens.shadows_of(name).is_empty()
            && !self.adopt_shadows(state, name)
        {
            return Ok(Answer::Fail(libc::EXDEV));
        }
        let source = names.0.map_or(Place::Prefix, |name| state.view.place(name));
        let of_another = names.0.filter(|name| state.of_another(name).is_some());
        let replaced = names.1.map_or_else(Vec::new, |to| state.tokens.shadows_of(to));
        let answer = match (&source, names.1) {
            (Place::Deleted, _) => Answer::Fail(libc::ENOENT),
            (Place::Evicted(_), _) => return Ok(self.rename_evicted(state, names)),
            (Place::Elsewhere(..), _) => Answer::Fail(libc::EXDEV),
            (Place::Private(here), _) => {
                self.rename_private(state, names.0.unwrap_or_default(), here, to)?
            }
            (_, Some(name)) if self.match_name(name).is_some() => {
                self.rename_into(state, names.0, from, name, &source)?
            }
            _ => self.rename_out(state, names.0, (from, to), &source)?,
        };
        if !matches!(answer, Answer::Fail(_)) {
            self.forget_shadows(state, &replaced);
            of_another.into_iter().for_each(|name| state.view.delete(name));
        }
        Ok(answer)
    }

    /// The new name is not ours: what is cached goes to the PFS under it.
    fn rename_out(
        &self,
        state: &mut State,
        name: Option<&str>,
        (from, to): (&Path, &Path),
        source: &Place,
    ) -> Result<Answer> {
        let (Some(name), Place::Cached(_, here)) = (name, source) else {
            if let Err(error) = std::fs::rename(from, to) {
                return Ok(Answer::Fail(error.raw_os_error().unwrap_or(libc::EIO)));
            }
            if let Some(name) = name {
                self.forget(state, name);
            }
            self.replace_private(state, to);
            return Ok(Answer::Done);
        };
        if state.tokens.count(name) > 0 {
            let (here, key) = (here.clone(), self.file_ref(name));
            return self.rename_out_open(state, name, key, &here, to);
        }
        let one = Single { source: here, target: to, reason: Reason::RenamedOut };
        self.publish(one, Gate::Open)?;
        self.replace_private(state, to);
        let deletion = match self.file_ref(name) {
            Some(file) => state.machine.renamed_out(&file, monotonic_ms()),
            None => Deletion::Now,
        };
        self.delete(state, name, source, deletion)?;
        Ok(Answer::Done)
    }

    /// The new name is ours: the file belongs to its dataset. What an older one has on the PFS
    /// under the old name stays there until that is safe.
    fn rename_into(
        &self,
        state: &mut State,
        name: Option<&str>,
        from: &Path,
        to: &str,
        source: &Place,
    ) -> Result<Answer> {
        let Some(matched) = self.match_name(to) else { return Ok(Answer::PASS) };
        self.unmatched.matches();
        let together = name.is_some_and(|name| state.together.remove(name));
        if let (Some(name), Place::Prefix, false) = (name, source, together) {
            self.learn_template(state, name, to, matched.series);
        }
        let old = name.and_then(|name| self.leaving(state, name));
        let cached = matches!(source, Place::Cached(..));
        let new = file_ref(to, &matched);
        let real = if let Place::Cached(_, here) = source { here } else { from };
        let bytes = real.metadata().map_or(0, |found| found.len());
        let routed = self.is_routing() || state.machine.goes_with_cached(&new);
        let joins = if cached { Ok(true) } else { self.can_take_in(state, name, from, &new) };
        let keep = match joins {
            _ if !routed => Some(Reason::FallenBack),
            _ if together => Some(Reason::OpenedTogether),
            Ok(false) => Some(Reason::Learned(Why::Stays)),
            _ => None,
        };
        if together {
            state.machine.mark_unsafe(&new, Why::Writers);
        }
        let has_room = cached || (keep.is_none() && self.takes_now(state, joins, &new));
        let now = monotonic_ms();
        let renamed = state.machine.renamed(old.as_ref(), Some(&new), bytes, keep, now);
        let placed = match renamed.to {
            Placement::Dataset(placed) if has_room || placed.is_on_prefix() => placed,
            Placement::Dataset(placed) => {
                state.machine.moved_to_prefix(&placed.key, to, Reason::NoRoom);
                Placed { on_prefix: Some(Reason::NoRoom), ..placed }
            }
            _ if cached => {
                return self.rename_out(state, name, (from, &self.site.on_prefix(to)), source);
            }
            _ => return Ok(Answer::PASS),
        };
        // A dataset that is sealed keeps its files, whoever has written them.
        let sealed = matches!(source, Place::Cached(key, _) if !is_open(state, key));
        let deletion = if sealed { Some(Deletion::Deferred) } else { renamed.from };
        match source {
            Place::Cached(key, here) => {
                let name = name.unwrap_or_default();
                self.rename_cached(state, &Old { name, key, here, deletion }, to, &placed)
            }
            _ => self.rename_from_prefix(state, (name, deletion), from, to, &placed),
        }
    }

    /// The file is in the cache, and stays there if that has room for it.
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
        let open = state.tokens.writer(name).is_some();
        let put = |target: &Path| ns::move_and_keep(open, keep, here, target);
        if !self.put_in_cache(state, placed, to, put) {
            return self.rename_onto_prefix(state, old, to, &placed.key);
        }
        self.replace_private(state, &self.site.on_prefix(to));
        self.after_move(state, key, name, deletion);
        state.tokens.rename(name, to, &placed.key);
        state.enter_file(&placed.key, to, false);
        Ok(Answer::Done)
    }

    /// The file is on the PFS, under a name of which that is to become.
    fn rename_from_prefix(
        &self,
        state: &mut State,
        (name, deletion): (Option<&str>, Option<Deletion>),
        from: &Path,
        to: &str,
        placed: &Placed,
    ) -> Result<Answer> {
        let bytes = from.metadata().map_or(0, |found| found.len());
        let cached = self.put_in_cache(state, placed, to, |target| take_in(from, target));
        if name.is_none_or(|name| self.match_name(name).is_none()) {
            // What matched before has been counted.
            self.count_named(state.machine.reason_of(&placed.key, to), to, bytes);
        }
        if !cached {
            return self.rename_on_prefix(state, name, from, to, &placed.key);
        }
        match name.zip(deletion) {
            Some((name, deletion)) => self.delete(state, name, &Place::Prefix, deletion)?,
            None => ns::remove(from)?,
        }
        self.replace_private(state, &self.site.on_prefix(to));
        state.enter_file(&placed.key, to, false);
        Ok(Answer::Done)
    }

    /// The file is on the PFS and stays there.
    fn rename_on_prefix(
        &self,
        state: &mut State,
        name: Option<&str>,
        from: &Path,
        to: &str,
        key: &machine::DatasetKey,
    ) -> Result<Answer> {
        if let Some(name) = name {
            state.tokens.rename(name, to, key);
        }
        let target = self.site.on_prefix(to);
        std::fs::rename(from, &target)
            .map_err(|e| crate::error::Error::io("cannot rename", from, e))?;
        self.replace_private(state, &target);
        state.enter_file(key, to, true);
        Ok(Answer::Done)
    }

    /// The cached file belongs on the PFS under its new name. One that is open goes there when it
    /// is closed, with what its descriptors will have written.
    fn rename_onto_prefix(
        &self,
        state: &mut State,
        old: &Old<'_>,
        to: &str,
        target: &machine::DatasetKey,
    ) -> Result<Answer> {
        let Old { name, key, here, deletion } = *old;
        let reason = state.machine.reason_of(target, to).unwrap_or(Reason::StoreFailed);
        if state.tokens.count(name) > 0 {
            self.keep_private(state, here, to, deletion == Some(Deletion::Deferred))?;
            self.after_move(state, key, name, deletion);
            state.tokens.rename_as(name, to, target, &LiesAt::OnPrefix);
        } else {
            let one = Single { source: here, target: &self.site.on_prefix(to), reason };
            self.publish(one, Gate::Open)?;
            let source = Place::Cached(key.clone(), here.to_path_buf());
            self.delete(state, name, &source, deletion.unwrap_or(Deletion::Now))?;
        }
        state.enter_file(target, to, true);
        Ok(Answer::Done)
    }

    /// Answers rmdir of `path`: a directory that files keep which wait for their deletion goes with
    /// the last of them.
    pub fn rmdir(&self, path: &Path) -> Answer {
        let Some(name) = self.name_of(path) else { return Answer::PASS };
        if ns::is_ours(name) {
            return Answer::Fail(libc::ENOENT);
        }
        let mut state = self.state();
        if let Some(answer) = self.rmdir_rules(&mut state, name) {
            return answer;
        }
        drop(state);
        let mut state = self.turn_on(&[name]);
        if let Some(answer) = self.rmdir_rules(&mut state, name) {
            return answer;
        }
        state.view.remove_dir(name);
        self.site.host.names_changed();
        Answer::Done
    }

    /// What rmdir(2) says, if it is not for us to remove the directory.
    fn rmdir_rules(&self, state: &mut State, name: &str) -> Option<Answer> {
        if state.view.is_removed_dir(name) {
            return Some(Answer::Fail(libc::ENOENT));
        }
        let shown = ns::entries(&state.view, &self.site.prefix, name);
        if shown.iter().any(|entry| !entry.hide) {
            return Some(Answer::Fail(libc::ENOTEMPTY));
        }
        // The PFS decides; what waits there for its deletion keeps the directory, which then goes
        // with the last of it.
        shown.is_empty().then(|| {
            state.view.note_rmdir(name);
            Answer::PASS
        })
    }
}

/// What unlink(2) says before anything is done.
fn unlink_rules(state: &State, name: &str, path: &Path) -> Option<Answer> {
    match state.view.place(name) {
        Place::Deleted => Some(Answer::Fail(libc::ENOENT)),
        Place::Private(_) | Place::Evicted(_) => None,
        Place::Prefix if path.symlink_metadata().is_err() => Some(Answer::PASS),
        _ if !ns::may_create(path) => Some(Answer::Fail(libc::EACCES)),
        Place::Prefix if path.is_dir() => Some(Answer::PASS),
        _ => None,
    }
}

/// What rename(2) says before anything is done: a source that is missing, a target that is a
/// directory or lies in none, two names of one file.
fn rename_rules(
    state: &State,
    from: &Path,
    to: &Path,
    names: (Option<&str>, Option<&str>),
) -> Option<Answer> {
    match names.0.map_or(Place::Prefix, |name| state.view.place(name)) {
        Place::Deleted => return Some(Answer::Fail(libc::ENOENT)),
        // The kernel finds the right words.
        Place::Prefix if from.symlink_metadata().is_err() => return Some(Answer::PASS),
        _ => {}
    }
    if names.1.is_some_and(|to| state.view.is_removed_dir(ns::parent(to))) {
        return Some(Answer::Fail(libc::ENOENT));
    }
    if !to.parent().is_some_and(Path::is_dir) {
        return Some(Answer::PASS);
    }
    let mut places = names.0.into_iter().chain(names.1).map(|name| state.view.place(name));
    let on_prefix = places.all(|place| place == Place::Prefix);
    if from == to || on_prefix && same_file(from, to) {
        return Some(Answer::Done);
    }
    let is_dir = to.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_dir && !names.1.is_some_and(|to| state.view.is_removed_dir(to)) {
        return Some(Answer::Fail(libc::EISDIR));
    }
    // What a symlink leads to is not its own: it takes no part in a checkpoint.
    let moves_link = from.symlink_metadata().is_ok_and(|found| found.is_symlink());
    (moves_link && on_prefix).then_some(Answer::PASS)
}

/// Whether these are two names of one file.
fn same_file(one: &Path, other: &Path) -> bool {
    let found = [one, other].map(|path| path.symlink_metadata().map(|it| (it.dev(), it.ino())));
    matches!(&found, [Ok(one), Ok(other)] if one == other)
}
