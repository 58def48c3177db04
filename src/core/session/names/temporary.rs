//! Files that a program writes under a temporary name and renames when they are complete: once such
//! a name is known, its file lies in the cache, in no dataset, seen by this rank only.

use std::path::Path;

use super::opening::{Found, SHADOWS};
use crate::error::Result;
use crate::log;
use crate::patterns::{Match, Template};
use crate::session::machine::{self, DatasetKey, Placed, Placement, Reason};
use crate::session::namespace::answer::Answer;
use crate::session::namespace::{self as ns, Intent, OnPrefix, Place};
use crate::session::rank::books::{Tracked, Way};
use crate::session::rank::known::file_ref;
use crate::session::rank::publish::{Gate, Single};
use crate::session::rank::runtime::{Session, State};
use crate::system::monotonic_ms;

impl Session {
    /// Opens a name that matches no pattern.
    pub(in crate::session) fn open_unmatched(&self, name: &str, intent: Intent) -> Answer {
        if intent.may_change {
            self.note_unmatched(name);
        }
        let mut state = self.state_to_change(&[name]);
        let place = state.view.place(name);
        if !matches!(place, Place::Private(_)) && self.is_called(&state, name) {
            drop(state);
            return self.open_called(name, intent);
        }
        match place {
            Place::Private(here) if !intent.may_change => return Answer::at(here),
            Place::Private(_) => {}
            _ if self.is_foreign(&state, name) => return Answer::Foreign,
            _ if !intent.may_change || intent.special || self.is_child() => return Answer::PASS,
            _ => {}
        }
        let held = matches!(place, Place::Private(_));
        let last = self.final_match(&state, name);
        if last.is_none() && !held {
            return Answer::PASS;
        }
        let found = match self.look(&state, name, intent) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        if state.kept_out.contains(name) {
            // The cache has it, or would, and could not open it.
            if held && state.tokens.count(name) == 0 {
                self.publish_private(&mut state, name);
            }
            state.kept_out.remove(name);
            return Answer::PASS;
        }
        let room = last.as_ref().and_then(|last| self.has_room(&state, &file_ref(name, last)));
        if !held && ((found.exists && !intent.truncate) || room.is_none()) {
            return Answer::PASS;
        }
        match self.private_target(&mut state, name, &found) {
            Ok(path) => {
                let tracked = Tracked {
                    key: DatasetKey::new(last.map_or(0, |last| last.series), "", 0),
                    name: name.to_string(),
                    way: Way::Temporary,
                    made: !found.exists,
                    room: room.unwrap_or_default(),
                    distrusted: false,
                };
                Answer::Redirect { path, token: state.tokens.issue(tracked) }
            }
            Err(error) => {
                log::warn_once("temporary", format_args!("rank {}: {error}", self.site.rank));
                Answer::PASS
            }
        }
    }

    /// What `name` will be called, if a template says so and that name is cached.
    fn final_match(&self, state: &State, name: &str) -> Option<Match> {
        state.templates.iter().find_map(|(series, template)| {
            let matched = self.match_name(&template.final_name(name)?)?;
            let cached = state.machine.routing(*series).caches();
            (matched.series == *series && cached).then_some(matched)
        })
    }

    /// Whether nothing that the program does to `name` can concern us: no pattern matches it, nor
    /// what it may be renamed to as far as is known, and no change of the view is about it.
    pub(in crate::session) fn is_foreign(&self, state: &State, name: &str) -> bool {
        let becomes_ours = |(_, template): &(usize, Template)| {
            template.final_name(name).is_some_and(|last| self.match_name(&last).is_some())
        };
        !self.concerns(state, name)
            && !self.is_called(state, name)
            && !state.view.is_removed_dir(name)
            && !state.templates.iter().any(becomes_ours)
    }

    fn private_target(
        &self,
        state: &mut State,
        name: &str,
        found: &Found,
    ) -> Result<std::path::PathBuf> {
        let path = self.private_path(state, name)?;
        let held = matches!(found.place, Place::Private(_));
        if !held || !found.exists {
            match found.on_prefix {
                OnPrefix::File { mode } if found.exists => ns::make_empty(&path, mode)?,
                _ => ns::remove(&path)?,
            }
            // What an earlier run left under this name is being truncated.
            ns::remove(&self.site.on_prefix(name))?;
        }
        state.view.put_private(name, path.clone());
        Ok(path)
    }

    /// A rename on the PFS shows how the program names its temporary files.
    pub(in crate::session) fn learn_template(
        &self,
        state: &mut State,
        from: &str,
        to: &str,
        series: usize,
    ) {
        if self.match_name(from).is_some() {
            return;
        }
        let Some(template) = Template::learn(from, to) else { return };
        let text = template.to_text();
        let known = |(at, one): &(usize, Template)| *at == series && one.to_text() == text;
        if !state.templates.iter().any(known) {
            state.machine.learn_temporary(series, &text);
            state.templates.push((series, template));
            self.site.host.names_changed();
        }
    }

    /// The file at `here` gets its final name `to`, or another.
    pub(in crate::session) fn rename_private(
        &self,
        state: &mut State,
        name: &str,
        here: &Path,
        to: &Path,
    ) -> Result<Answer> {
        let last = self.name_of(to).and_then(|to| Some((to, self.match_name(to)?)));
        let placed = match &last {
            Some((to, matched)) => self.place_private(state, name, to, matched, here),
            None => None,
        };
        let open = state.tokens.count(name) > 0;
        if let (Some((last, _)), Some(placed)) = (last, &placed) {
            let put = |target: &Path| ns::move_to_unless(open, here, target);
            let cached = self.put_in_cache(state, placed, last, put);
            if cached {
                self.replace_private(state, to);
                state.tokens.rename_as(name, last, &placed.key, &Way::Cached);
            } else if open {
                self.keep_private(state, here, last, false)?;
                state.tokens.rename_as(name, last, &placed.key, &Way::OnPrefix);
            } else {
                self.publish_as(state, here, to)?;
            }
            state.enter_file(&placed.key, last, !cached);
        } else if open {
            let Some(new) = self.name_of(to) else { return Ok(Answer::Fail(libc::EXDEV)) };
            self.keep_private(state, here, new, false)?;
            ns::remove(to)?;
            state.tokens.become_temporary(name, new);
            self.site.host.names_changed();
        } else {
            self.publish_as(state, here, to)?;
        }
        self.leave_private(state, name)?;
        Ok(Answer::Done)
    }

    /// The private file at `here`, which is closed, gets the name `to` on the PFS.
    fn publish_as(&self, state: &mut State, here: &Path, to: &Path) -> Result<()> {
        let one = Single { source: here, target: to, reason: Reason::Temporary };
        self.publish(one, Gate::Open)?;
        // In a store that cannot remove it, it is in nobody's way.
        let _ = ns::remove(here);
        self.replace_private(state, to);
        Ok(())
    }

    /// The private file of `name` has gone elsewhere. A name of ours has left its dataset with it,
    /// and what older datasets or the PFS have under it is not to be seen again.
    pub(in crate::session) fn leave_private(&self, state: &mut State, name: &str) -> Result<()> {
        state.view.take_private(name);
        let Some(file) = self.file_ref(name) else { return Ok(()) };
        let deletion = state.machine.deleted(&file, monotonic_ms());
        let place = state.view.place(name);
        self.delete(state, name, &place, deletion)
    }

    /// The dataset of the final name; open descriptors go along.
    fn place_private(
        &self,
        state: &mut State,
        name: &str,
        to: &str,
        matched: &Match,
        here: &Path,
    ) -> Option<Placed> {
        let (file, now) = (file_ref(to, matched), monotonic_ms());
        let open = state.tokens.count(name);
        let mut placement = Placement::Pass;
        if open == 0 {
            let bytes = here.metadata().map_or(0, |found| found.len());
            let keep = !self.is_routing() && !state.machine.goes_with_cached(&file);
            let keep = keep.then_some(Reason::FallenBack);
            placement = state.machine.renamed(None, Some(&file), bytes, keep, now).to;
        }
        for _ in 0..open {
            let next = state.machine.write_open(&file, machine::Intent::REWRITE, now);
            placement = match (placement, next) {
                (Placement::Dataset(first), Placement::Dataset(_)) => Placement::Dataset(first),
                (_, next) => next,
            };
        }
        match placement {
            Placement::Dataset(placed) => Some(placed),
            _ => None,
        }
    }

    /// A file that is open leaves its dataset: what its descriptors still write must follow it.
    /// It stays in the cache under the new name and is written to the PFS at its last close.
    pub(in crate::session) fn rename_out_open(
        &self,
        state: &mut State,
        (name, file): (&str, Option<machine::FileRef>),
        here: &Path,
        to: &Path,
    ) -> Result<Answer> {
        let (Some(new), Some(file)) = (self.name_of(to), file) else {
            return Ok(Answer::Fail(libc::EXDEV));
        };
        // A private copy of a sealed file has not become the file yet.
        let mut all = state.tokens.all().filter(|(_, one)| one.name == name);
        let plain = all.all(|(_, one)| one.way == Way::Cached);
        drop(all);
        if !plain || self.match_name(new).is_some() {
            return Ok(Answer::Fail(libc::EXDEV));
        }
        let Place::Cached(key, _) = state.view.place(name) else {
            return Ok(Answer::Fail(libc::EXDEV));
        };
        let deletion = state.machine.deleted(&file, monotonic_ms());
        self.keep_private(state, here, new, deletion == machine::Deletion::Deferred)?;
        self.after_move(state, &key, name, Some(deletion));
        // What had the new name is replaced, and must not come back when that moves on.
        ns::remove(to)?;
        state.tokens.become_temporary(name, new);
        self.site.host.names_changed();
        Ok(Answer::Done)
    }

    /// The file at `here`, which is open, will be on the PFS as `to` at its last close.
    pub(in crate::session) fn keep_private(
        &self,
        state: &mut State,
        here: &Path,
        to: &str,
        keep: bool,
    ) -> Result<()> {
        let path = self.private_path(state, to)?;
        self.move_file(here, &path, keep)?;
        state.view.put_private(to, path);
        Ok(())
    }

    /// The PFS has a new file under `to`: what this rank saw there is replaced.
    pub(in crate::session) fn replace_private(&self, state: &mut State, to: &Path) {
        if let Some(here) = self.name_of(to).and_then(|to| state.view.take_private(to)) {
            let _ = ns::remove(&here);
        }
    }

    /// Where the file of a temporary name lies; its directory is made.
    fn private_path(&self, state: &State, name: &str) -> Result<std::path::PathBuf> {
        // In the store of the dataset that it will belong to, so that a rename suffices then.
        let last = self.final_match(state, name);
        let (series, number) = last
            .map_or((0, 1), |last| (last.series, state.machine.number_for(&file_ref(name, &last))));
        let cache = self.site.layout.cache_dir(&self.store_of_number(series, number));
        let folder = cache.join(SHADOWS).join(self.site.rank.to_string());
        ns::make_parents(&folder, name)?;
        Ok(folder.join(name))
    }

    /// The last descriptor on a temporary name was closed. One that will not be renamed any more,
    /// as far as is known, goes to the PFS at once.
    pub(in crate::session) fn closed_private(&self, state: &mut State, name: &str) {
        let waits = !self.is_ended() && self.final_match(state, name).is_some();
        if !waits && state.tokens.count(name) == 0 {
            self.publish_private(state, name);
        }
    }

    /// The program never renamed it: it ends on the PFS under its temporary name.
    pub(in crate::session) fn publish_private(&self, state: &mut State, name: &str) {
        let Some(here) = state.view.take_private(name) else { return };
        let (target, reason) = (self.on_prefix_now(name), Reason::Temporary);
        let done = self
            .publish(Single { source: &here, target: &target, reason }, Gate::Open)
            .and_then(|_| ns::remove(&here));
        if let Err(error) = done {
            log::warn(format_args!("rank {}: {name}: {error}", self.site.rank));
        }
    }

    /// All temporary files that are closed.
    pub(in crate::session) fn publish_all_private(&self) {
        let mut state = self.state();
        let names: Vec<String> = state.view.private_names().map(str::to_string).collect();
        for name in names.iter().filter(|name| state.tokens.count(name) == 0).collect::<Vec<_>>() {
            self.publish_private(&mut state, name);
        }
    }
}
