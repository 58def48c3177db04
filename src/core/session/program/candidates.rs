//! What the program may restart from: checkpoints of its calls, newest first, in the cache or on
//! the prefix; also those of this launch.

use super::KnownCheckpoint;
use super::consent::no_communication;
use crate::error::{Error, Result};
use crate::launch::site::Links;
use crate::log::messages;
use crate::machine::{DatasetState, Outcome, SharedDataset, Step};
use crate::namespace as ns;
use crate::restart::candidates::{self as restart, Begin};
use crate::restart::index::Index;
use crate::session::{program::Program, rank::lock};
use crate::transfer::{
    Check, delete_datasets, forget_datasets, note_refusal, note_success, verify_on_prefix,
};

impl Program {
    /// The same on all ranks. Collective.
    fn candidates(&self, links: &Links) -> Result<Vec<KnownCheckpoint>> {
        let index = Index::read(links.world.as_ref(), &self.site, &self.rank.series, None)?;
        let current = index.current().map(|current| current.id);
        let next_id = self.node.state().machine.next_id();
        let mut progress = self.progress();
        if progress.begin.is_none() {
            progress.begin = current.map(|id| Begin { id, next_id, is_firm: false });
        }
        drop(progress);
        let series = self.rank.series.program(true);
        let sealed = |one: &&SharedDataset| {
            one.id > 0 && matches!(one.state, DatasetState::Confirmed | DatasetState::Provisional)
        };
        let state = self.node.state();
        let datasets = state.machine.datasets(series);
        let mut all: Vec<KnownCheckpoint> = Vec::new();
        for one in datasets.iter().filter(sealed) {
            let name = one.key.id.clone();
            let on_prefix = index.flushed.contains(&one.id);
            let (key, cached) = (self.rank.record_key(&one.key), Some(one.key.clone()));
            all.push(KnownCheckpoint { id: one.id, name, key, cached, on_prefix });
        }
        let there = index.listed.iter().filter(|one| index.flushed.contains(&one.id));
        let ours = there.filter(|one| one.series == Some(series) && one.checkpoint.is_some());
        // The user has had the run go back to before it.
        let ours = ours.filter(|one| !index.turn.is_some_and(|turn| turn.leaves(one.id)));
        for one in ours {
            if all.iter().all(|known| known.id != one.id) {
                let (id, name, key) = (one.id, one.key.id.clone(), one.key.clone());
                all.push(KnownCheckpoint { id, name, key, cached: None, on_prefix: true });
            }
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.id));
        Ok(all)
    }

    /// Returns the newest checkpoint that the program has not refused. Collective.
    pub fn have_restart(&self) -> Result<Option<String>> {
        let links = self.rank.links().ok_or_else(no_communication)?;
        self.site.host.inside(|| {
            let found = self.newest_candidate(&links)?;
            let name = found.as_ref().map(|found| found.name.clone());
            self.progress().offered = found;
            Ok(name)
        })
    }

    fn newest_candidate(&self, links: &Links) -> Result<Option<KnownCheckpoint>> {
        let all = self.candidates(links)?;
        let (refused, begin) = {
            let progress = self.progress();
            (progress.refused.clone(), progress.begin.unwrap_or(Begin::ANYWHERE))
        };
        let all = all.into_iter().filter(|one| !refused.contains(&one.id));
        let course = begin.course(all, |one| restart::Candidate {
            id: one.id,
            is_cached: one.cached.is_some(),
            is_left: false,
        });
        for one in course.in_turn() {
            if one.cached.is_some() || self.is_whole_on_prefix(links, &one)? {
                return Ok(Some(one));
            }
            self.progress().refused.insert(one.id);
        }
        Ok(None)
    }

    fn is_whole_on_prefix(&self, links: &Links, one: &KnownCheckpoint) -> Result<bool> {
        let found = verify_on_prefix(&links.ctx(&self.site), one.id, Check::Sizes)?;
        if let Some(fault) = &found.fault {
            self.rank.tell(
                messages::PREFIX_DAMAGED,
                format_args!("{} cannot be offered: {fault}", one.name),
            );
        }
        Ok(found.fault.is_none() && !found.gone)
    }

    /// Refuses what the program could not restart from: an older one is offered from now on.
    pub(super) fn refuse(&self, one: &KnownCheckpoint) {
        self.progress().refused.insert(one.id);
        if let Some(key) = &one.cached {
            self.flush.stop_background(one.id);
            let mut state = self.node.state();
            state.machine.reject(key);
            if !one.on_prefix {
                // The user may know better: without a newer one the end does not clear it away.
                lock(&self.ending.out_of_reach).push((key.series, one.id));
            }
        }
        // So do later starts, wherever it is then.
        self.prefix.note_fetch(|prefix, id| note_refusal(prefix, id, &one.key), one.id);
        self.flush.record_places();
    }

    /// Begins with `name`: nothing newer is offered, and what the program writes follows from
    /// it. Collective, with equal arguments. Fails if there is no such checkpoint.
    pub fn choose_current(&self, name: &str) -> Result<()> {
        let links = self.rank.links().ok_or_else(no_communication)?;
        self.site.host.inside(|| {
            let one = self.named(&links, name)?.remove(0);
            let next_id = self.node.state().machine.next_id();
            let mut progress = self.progress();
            progress.begin = Some(Begin { id: one.id, next_id, is_firm: true });
            progress.refused.remove(&one.id);
            progress.offered = None;
            drop(progress);
            if one.on_prefix {
                self.prefix.note_fetch(note_success, one.id);
            }
            Ok(())
        })
    }

    fn named(&self, links: &Links, name: &str) -> Result<Vec<KnownCheckpoint>> {
        called(self.candidates(links)?, name)
    }

    /// Whatever they are, in the cache or in the index; at least one.
    fn any_named(&self, links: &Links, name: &str) -> Result<Vec<KnownCheckpoint>> {
        let index = Index::read(links.world.as_ref(), &self.site, &self.rank.series, None)?;
        let state = self.node.state();
        let all = (0..self.rank.series.series().len()).flat_map(|at| state.machine.datasets(at));
        let cached = all.filter(|one| one.id > 0).map(|one| {
            let key = self.rank.record_key(&one.key);
            let on_prefix = index.listed.iter().any(|listed| listed.id == one.id);
            let cached = Some(one.key.clone());
            KnownCheckpoint { id: one.id, name: key.name(), key, cached, on_prefix }
        });
        let mut all: Vec<KnownCheckpoint> = cached.collect();
        drop(state);
        for one in index.listed {
            if all.iter().all(|known| known.id != one.id) {
                let (id, name, key) = (one.id, one.name, one.key);
                all.push(KnownCheckpoint { id, name, key, cached: None, on_prefix: true });
            }
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.id));
        called(all, name)
    }
    /// Takes a dataset out of the cache and the index, and with `files` its files from the prefix.
    /// Collective, with equal arguments. Fails if there is no such dataset.
    pub fn drop_named(&self, name: &str, files: bool) -> Result<()> {
        let links = self.rank.links().ok_or_else(no_communication)?;
        self.site.host.inside(|| {
            for one in self.any_named(&links, name)? {
                self.drop_one(&links, &one, files)?;
            }
            self.progress().offered = None;
            self.flush.record_places();
            Ok(())
        })
    }

    fn drop_one(&self, links: &Links, one: &KnownCheckpoint, files: bool) -> Result<()> {
        self.progress().refused.insert(one.id);
        let mut done = Ok(());
        if one.on_prefix && self.site.rank == 0 {
            let (prefix, id) = (&self.site.prefix, one.id);
            let dropped = match files {
                true => delete_datasets(prefix, &|other| other == id),
                false => forget_datasets(prefix, &|other| other == id),
            };
            done = dropped.map(drop);
        }
        crate::cache::agree::agree(links.world.as_ref(), done)?;
        if let Some(key) = &one.cached {
            // A flush by threads has to end before.
            let id = one.id;
            self.conference.evict(links, key, id)?;
            self.node.state().machine.done(&Step::Evict { key: key.clone(), id }, Outcome::Done);
        }
        let what = if files { "deleted" } else { "dropped" };
        self.rank.mention(format_args!("{} (dataset {}) is {what}", one.name, one.id));
        Ok(())
    }
}

fn called(mut all: Vec<KnownCheckpoint>, name: &str) -> Result<Vec<KnownCheckpoint>> {
    let name = ns::dataset_name(name)?;
    let known: Vec<String> = all.iter().map(|one| one.name.clone()).take(4).collect();
    all.retain(|one| one.name == name);
    if !all.is_empty() {
        return Ok(all);
    }
    let known = match known.is_empty() {
        true => "there is none at all".to_string(),
        false => format!("the newest are {}", known.join(", ")),
    };
    Err(Error::Missing(format!("there is no checkpoint {name}: {known}")))
}
