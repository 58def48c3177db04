//! Files under temporary names, in no dataset yet: where they lie, and how they come to the PFS.

use std::path::Path;

use crate::error::Result;
use crate::files::size_at;
use crate::log::{self, messages};
use crate::machine::{self, FileRef, Placed, Placement, Reason};
use crate::namespace::{self as ns, FoundTarget, OnPrefix, Place, SHADOWS};
use crate::params::keys;
use crate::patterns::{Match, Template};
use crate::session::{
    contents::Contents,
    node::State,
    rank::{
        known::{file_ref, unmatched_ref},
        lock,
    },
};
use crate::system::{monotonic_ms, user_attributes_at};

impl Contents {
    /// Finds what the file `name` will be, if a template says that it will get a cached name.
    pub(crate) fn final_file(&self, state: &State, name: &str) -> Option<FileRef> {
        let caches = |series: usize| state.machine.routing(series).caches();
        let templates = lock(&self.templates);
        let known = templates.iter().filter(|(series, _)| caches(*series));
        known.clone().find_map(|(series, template)| match template.final_name(name) {
            Some(last) => {
                let matched = self.rank.match_name(&last)?;
                (matched.series == *series).then(|| file_ref(name, &matched))
            }
            None => self.is_covered(template, name).then(|| unmatched_ref(*series, name)),
        })
    }

    fn is_covered(&self, template: &Template, name: &str) -> bool {
        template.covers(name) && !self.rank.series.ignores(name)
    }

    /// Tells whether nothing that the program does to `name` can concern us: no pattern matches it,
    /// nor what it may be renamed to, and no change of the view is about it.
    pub(crate) fn is_foreign(&self, state: &State, name: &str) -> bool {
        let becomes_ours = |(_, template): &(usize, Template)| {
            template.final_name(name).is_some_and(|last| self.rank.match_name(&last).is_some())
                || self.is_covered(template, name)
        };
        !self.concerns(state, name)
            && !self.is_called(state, name)
            && !state.view.is_removed_dir(name)
            && !lock(&self.templates).iter().any(becomes_ours)
    }

    pub(crate) fn private_target(
        &self,
        state: &mut State,
        name: &str,
        found: &FoundTarget,
    ) -> Result<std::path::PathBuf> {
        let path = self.private_path(state, name)?;
        let held = matches!(found.place, Place::Private(_));
        if !held || !found.exists {
            match found.on_prefix {
                OnPrefix::File { mode } if found.exists => {
                    let attributes = user_attributes_at(&self.site.on_prefix(name));
                    ns::make_empty(&path, mode, &attributes)?;
                }
                _ => ns::remove(&path)?,
            }
            // What an earlier run left under this name is being truncated.
            ns::remove(&self.site.on_prefix(name))?;
        }
        state.view.put_private(name, path.clone());
        Ok(path)
    }

    /// Keeps the file at `here`, which is open: it will be on the PFS as `to` at its last close.
    pub(crate) fn keep_private(
        &self,
        state: &mut State,
        here: &Path,
        to: &str,
        keep: bool,
    ) -> Result<()> {
        let path = self.private_path(state, to)?;
        ns::move_and_keep(true, keep, here, &path)?;
        state.view.put_private(to, path);
        Ok(())
    }

    /// Takes open descriptors along.
    pub(crate) fn place_private(
        &self,
        state: &mut State,
        name: &str,
        to: &str,
        matched: &Match,
        here: &Path,
    ) -> Option<Placed> {
        let (file, now) = (file_ref(to, matched), monotonic_ms());
        let open = state.own.tokens.count(name);
        let mut placement = Placement::Pass;
        if open == 0 {
            let bytes = size_at(here);
            let keep = !self.rank.is_routing() && !state.machine.goes_with_cached(&file);
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

    pub(crate) fn replace_private(&self, state: &mut State, to: &Path) {
        if let Some(here) = self.rank.name_of(to).and_then(|to| state.view.take_private(to)) {
            let _ = ns::remove(&here);
        }
    }

    pub(crate) fn private_path(&self, state: &State, name: &str) -> Result<std::path::PathBuf> {
        // In the store of the dataset that it will belong to, so that a rename suffices then.
        let last = self.final_file(state, name);
        let (series, number) =
            last.map_or((0, 1), |last| (last.series, state.machine.number_for(&last)));
        let cache = self.site.layout.cache_dir(&self.stores.store_of_number(series, number));
        let folder = cache.join(SHADOWS).join(self.site.rank.to_string());
        ns::make_parents(&folder, name)?;
        Ok(folder.join(name))
    }

    /// Publishes after the last close a file that, as far as is known, will not be renamed.
    pub(crate) fn closed_private(&self, state: &mut State, name: &str) {
        let waits = !self.rank.is_ended() && self.final_file(state, name).is_some();
        if !waits && state.own.tokens.count(name) == 0 {
            self.publish_private(state, name);
        }
    }

    /// Publishes a file that was never renamed. `false`: the PFS does not have it; that was told.
    pub(crate) fn publish_private(&self, state: &mut State, name: &str) -> bool {
        let Some(here) = state.view.take_private(name) else { return true };
        let (target, reason) = (self.rank.on_prefix_now(name), Reason::Temporary);
        let done = self.rank.publish(&here, &target, reason).and_then(|()| ns::remove(&here));
        if let Err(error) = &done {
            log::warn(
                messages::FILE_NOT_WRITTEN,
                format_args!("rank {}: {name}: {error}", self.site.rank),
            );
        }
        done.is_ok()
    }

    /// Publishes what was closed under a temporary name long ago: it may be one by its looks only.
    pub(crate) fn publish_left_private(&self) {
        let patience = self.site.settings.get(keys::UNSEALED_SECONDS);
        let is_old = |here: &Path| {
            let written = here.metadata().and_then(|found| found.modified());
            written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= patience))
        };
        let mut state = self.node.state();
        let all = state.view.private().filter(|(name, _)| state.own.tokens.count(name) == 0);
        let left = all.filter(|(_, here)| is_old(here)).map(|(name, _)| name.to_string());
        for name in left.collect::<Vec<_>>() {
            self.publish_private(&mut state, &name);
        }
    }

    pub(crate) fn publish_all_private(&self) {
        let mut state = self.node.state();
        let names: Vec<String> = state.view.private_names().map(str::to_string).collect();
        for name in
            names.iter().filter(|name| state.own.tokens.count(name) == 0).collect::<Vec<_>>()
        {
            self.publish_private(&mut state, name);
        }
    }
}
