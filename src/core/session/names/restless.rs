//! Files that are never quiet (`machine/matters/logs.rs`) are left to the PFS, as if
//! SCR_IGNORE_PATTERN named them.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::files::size_at;
use crate::handles::LiesAt;
use crate::log::{self, messages};
use crate::machine::{Reason, Restless, name_hash};
use crate::namespace::{self as ns, Place, pattern_of};
use crate::params::keys;
use crate::session::{names::Names, node::State};
use crate::system::has_children;

const IGNORE: &str = "SCR_IGNORE_PATTERN";

impl Names {
    pub(crate) fn silence(&self) {
        self.silence_ahead();
        self.leave_caches();
    }

    fn silence_ahead(&self) {
        let mut state = self.node.state();
        let ahead = state.machine.restless_ahead();
        if ahead.is_empty() {
            return;
        }
        let known = self.names_by_template(&state);
        for (series, template) in ahead {
            let none = BTreeSet::new();
            let names = known.get(&(series, template)).unwrap_or(&none);
            let mine = names.iter().filter(|name| is_mine(&state, name));
            let mine: Vec<String> = mine.cloned().collect();
            if !mine.iter().all(|name| can_leave(&state, name)) {
                continue; // looked at again in the next conference
            }
            let out = mine.iter().try_for_each(|name| self.take_out(&mut state, name));
            if let Err(error) = out {
                let what = format_args!("rank {}: {error}; tried again", self.site.rank);
                log::warn_once(messages::NOT_MOVED, what);
                continue;
            }
            self.silence_template(&mut state, series, template, names);
        }
    }

    /// What is open in the cache goes on on the PFS: a log that stays open for the whole run would
    /// be lost with the cache. Not with the state locked.
    fn leave_caches(&self) {
        if !self.rank.silenced.is_any() {
            return;
        }
        let open: Vec<(u64, String)> = {
            let state = self.node.state();
            let open = state.own.tokens.all().filter(|(_, one)| {
                one.way == LiesAt::Temporary
                    && state.view.is_private(&one.name)
                    && self.is_silenced(&one.name)
            });
            open.map(|(token, one)| (token, one.name.clone())).collect()
        };
        // A child may have the descriptor, too, and go on writing to the old file.
        if open.is_empty() || has_children() != Some(false) {
            return; // looked at again in the next conference
        }
        for (token, name) in open {
            self.site.host.move_out(token);
            let mut state = self.node.state();
            if state.own.tokens.get(token).is_some_and(|one| one.way == LiesAt::OnPrefix) {
                state.own.tokens.orphan(&name);
                state.view.leave_alone(&name);
                drop(state);
                self.site.host.names_changed();
            }
        }
    }

    pub(crate) fn is_silenced(&self, name: &str) -> bool {
        self.rank.series.match_path(name).is_some_and(|matched| self.rank.silenced.has(&matched))
    }

    /// Leaves to the PFS what an earlier launch has found; it has all, unless that launch ended
    /// before.
    pub(crate) fn silence_restored(&self) {
        let mut state = self.node.state();
        let known = self.names_by_template(&state);
        let silenced =
            |(series, template): &(usize, u64)| state.machine.is_silenced(*series, *template);
        let known: Vec<_> = known.into_iter().filter(|(template, _)| silenced(template)).collect();
        for (_, names) in known {
            for name in names {
                if let Place::Cached(_, here) = state.view.place(&name)
                    && is_mine(&state, &name)
                    && size_at(&self.site.on_prefix(&name)) < size_at(&here)
                    && let Err(error) = self.take_out(&mut state, &name)
                {
                    self.rank.complain(messages::NOT_MOVED, &error);
                }
                state.view.leave_alone(&name);
            }
        }
    }

    fn names_by_template(&self, state: &State) -> BTreeMap<(usize, u64), BTreeSet<String>> {
        let mut names = state.view.names();
        names.extend(state.own.holdings.values().flat_map(|holding| holding.files.iter().cloned()));
        names.extend(state.own.tokens.all().map(|(_, one)| one.name.clone()));
        let mut known: BTreeMap<(usize, u64), BTreeSet<String>> = BTreeMap::new();
        for name in names {
            if let Some(matched) = self.rank.series.match_path(&name) {
                let template = (matched.series, name_hash(&matched.masked));
                known.entry(template).or_default().insert(name);
            }
        }
        known
    }

    /// A file that is open in the cache goes to the PFS with its descriptors, at the latest at its
    /// close.
    fn take_out(&self, state: &mut State, name: &str) -> Result<()> {
        match state.view.place(name) {
            Place::Cached(_, here) if state.own.tokens.count(name) > 0 => {
                self.contents.keep_private(state, &here, name, false)?;
                state.own.tokens.become_temporary(name, name);
            }
            Place::Cached(_, here) => {
                let (target, reason) = (self.site.on_prefix(name), Reason::NeverQuiet);
                self.rank.publish(&here, &target, reason)?;
            }
            // Nobody waits for the close of what is on the PFS.
            Place::Prefix => state.own.tokens.orphan(name),
            Place::Private(_) | Place::Elsewhere(..) | Place::Deleted | Place::Evicted(_) => {}
        }
        Ok(())
    }

    fn silence_template(
        &self,
        state: &mut State,
        series: usize,
        template: u64,
        names: &BTreeSet<String>,
    ) {
        for gone in state.machine.silence(series, template) {
            for name in &gone.names {
                state.leave_file(&gone.key, name);
                if let Some(layer) = state.view.layer(&gone.key) {
                    let _ = ns::remove(&layer.dir.join(name));
                }
            }
            if gone.revoke {
                let revoked = self.site.filemap.revoke(&self.rank.record_key(&gone.key));
                self.rank.complain_if_failed(messages::NOT_MOVED, revoked);
            }
        }
        self.rank.silenced.add(series, template);
        names.iter().for_each(|name| state.view.leave_alone(name));
        self.site.host.names_changed();
    }

    /// Tells, on rank 0, of files that are called alike, in one message.
    pub(crate) fn tell_restless(&self, restless: &[Restless]) {
        let Some(first) = restless.first().filter(|_| self.site.rank == 0) else { return };
        let more = match restless.len() {
            1 => "is".to_string(),
            count => format!("and {} more are", count - 1),
        };
        let names: Vec<&str> = restless.iter().map(|one| one.name.as_str()).collect();
        let pattern = pattern_of(&names);
        let ignored = self.site.settings.family(keys::IGNORE_PATTERN).into_iter();
        let ignored = ignored.filter(|(parameter, _)| parameter == IGNORE);
        let before: String = ignored.map(|(_, text)| format!("{text}, ")).collect();
        log::warn_once_for(
            messages::NEVER_QUIET,
            &pattern,
            format_args!(
                "{} {more} never quiet: open, or appended to, while checkpoints come and go. {} \
                 matches, but no checkpoint can wait for that; from now on, in later runs too, \
                 such files go straight to {} and belong to no checkpoint. To leave them out from \
                 the start ({}): {IGNORE}={before}{pattern}",
                first.name,
                self.rank.series.series()[first.series].parameter,
                self.site.prefix.display(),
                messages::NEVER_QUIET,
            ),
        );
    }
}

fn is_mine(state: &State, name: &str) -> bool {
    state.own.tokens.count(name) > 0
        || state.own.holdings.values().any(|holding| holding.files.contains(name))
}

/// Nothing that is open has to find its dataset again when it is closed.
fn can_leave(state: &State, name: &str) -> bool {
    let plain = |way: &LiesAt| matches!(way, LiesAt::Cached | LiesAt::OnPrefix);
    !state.view.is_private(name)
        && state.own.tokens.all().all(|(_, one)| one.name != name || plain(&one.way))
}
