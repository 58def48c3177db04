//! What the program really wrote, and the promises checked against it while the job runs, for each
//! series by itself.

use std::collections::{BTreeMap, BTreeSet};

use scr_core::machine::{DatasetKey, DatasetState};

use super::cluster::{Content, Files, Sealed, Stage};
use super::job::{Checked, Sim, trace};
use super::series::{Series, series_of};

/// A checkpoint of a series: launch and step.
pub type Checkpoint = (u32, u32);

/// A dataset that we called complete.
#[derive(Debug, Clone)]
pub struct Called {
    pub key: DatasetKey,
    pub id: u64,
    pub epoch: u64,
    /// What it holds; `None` where that cannot be looked at (a node is dead, or files on the PFS
    /// are overwritten in place as they would be without us).
    pub checkpoint: Option<Checkpoint>,
}

impl Called {
    pub fn sealed(&self) -> Sealed {
        (self.key.clone(), self.epoch)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// What each checkpoint consists of when all ranks have written it: the files of its id, or
    /// without ids all files of the series.
    checkpoints: BTreeMap<Checkpoint, Files>,
    /// The files of the series at the start of the launch.
    base: Files,
    /// What we called complete, by its number.
    pub called: Vec<Called>,
    /// What was removed from the cache before the end, due or not.
    pub evicted: BTreeSet<(String, Content)>,
    /// What the program wrote last under each name, if only in part, deleted or not.
    pub written: Files,
    /// What the program saw of all series when a dataset of this one was found to have been left
    /// alone for long.
    pub trusted: BTreeMap<Sealed, Files>,
    pub deleted: BTreeSet<String>,
    /// What it has thrown away before its checkpoint was complete.
    pub discarded: Files,
    /// Checkpoints whose directory has its final name.
    pub moved: BTreeSet<Checkpoint>,
    /// Files went to the PFS under their own names, outside of flushes.
    pub in_place: bool,
}

impl Truth {
    pub fn start(&mut self, base: Files) {
        self.base = base;
    }

    pub fn call(&mut self, called: Called) {
        if self.called.iter().all(|known| known.sealed() != called.sealed()) {
            let at = self.called.partition_point(|known| known.id <= called.id);
            self.called.insert(at, called);
        }
    }

    pub fn files(&self, checkpoint: Checkpoint) -> Files {
        self.checkpoints.get(&checkpoint).cloned().unwrap_or_default()
    }

    /// The files of the launch's checkpoint before this one, or those that it began with.
    fn before(&self, checkpoint: Checkpoint) -> Files {
        let older = self.checkpoints.range((checkpoint.0, 0)..checkpoint).next_back();
        older.map_or(&self.base, |(_, files)| files).clone()
    }

    /// The checkpoint that consists of exactly these files.
    pub fn find(&self, files: &Files) -> Option<Checkpoint> {
        let newest = files.values().map(|content| (content.launch, content.step)).max()?;
        let mut near = self.checkpoints.range(newest..).take(4);
        near.find(|(_, expected)| *expected == files).map(|(checkpoint, _)| *checkpoint)
    }
}

impl Sim {
    /// A rank begins a step: what will the checkpoints in it consist of?
    pub fn expect(&mut self, step: u32) {
        let checkpoint = (self.launch, step);
        let whole = self.content(step, Stage::Final);
        for series in self.style.due(step) {
            let truth = &mut self.truth[series.index];
            if truth.checkpoints.contains_key(&checkpoint) {
                continue;
            }
            let mut files =
                if series.rule.has_id { Files::new() } else { truth.before(checkpoint) };
            for rank in 0..self.ranks.len() {
                let written = series.written(rank, step);
                files.extend(written.into_iter().map(|file| (file.name, whole)));
            }
            truth.checkpoints.insert(checkpoint, files);
        }
    }

    /// Lays a dataset's files as they are now, of all ranks, over `onto`.
    fn lay(&self, key: &DatasetKey, onto: &mut Files) {
        for rank in 0..self.ranks.len() {
            let node = &self.cluster.nodes[self.cluster.node_of[rank]];
            let part = (rank, key.clone());
            let Some(record) = node.records.get(&part) else { continue };
            for (name, on_prefix) in &record.files {
                let content = match on_prefix {
                    true => self.cluster.pfs.get(name),
                    false => node.files.get(&part).and_then(|files| files.get(name)),
                };
                onto.insert(name.clone(), content.copied().unwrap_or(Content::GARBAGE));
            }
        }
    }

    /// Promise 1, at the moment when a dataset is called complete: it is what the program wrote in
    /// one complete checkpoint.
    pub fn check_called(&mut self, rank: usize, key: &DatasetKey) -> Checked {
        let sealed = self.sealed(rank, key);
        let called = &self.truth[key.series].called;
        if called.iter().any(|called| called.sealed() == sealed) {
            return Ok(());
        }
        self.confirmed += 1;
        let checkpoint = match self.cluster.lost.is_empty() {
            true => self.checkpoint_of(rank, key)?,
            false => None,
        };
        let id = self.cluster.own_record(rank, key).map_or(0, |record| record.id);
        let (key, epoch) = sealed;
        self.truth[key.series].call(Called { key, id, epoch, checkpoint });
        Ok(())
    }

    /// The checkpoint that a dataset holds which is called complete; `None` if files of it are
    /// overwritten on the PFS.
    fn checkpoint_of(&mut self, rank: usize, key: &DatasetKey) -> Checked<Option<Checkpoint>> {
        let (series, truth) = (&self.style.series[key.series], &self.truth[key.series]);
        let has_id = series.rule.has_id;
        let parts: Vec<DatasetKey> = {
            let datasets = self.ranks[rank].machine.datasets(key.series).iter();
            let older = datasets.take_while(|dataset| dataset.key != *key);
            let older = older.filter(|older| {
                older.state != DatasetState::Dropped && (!has_id || older.key.same_group(key))
            });
            older.map(|older| older.key.clone()).chain([key.clone()]).collect()
        };
        let mut files = Files::new();
        if !has_id {
            files = self.cluster.pfs.clone();
        }
        let mut on_prefix = truth.in_place;
        for part in &parts {
            self.lay(part, &mut files);
            on_prefix |= self.cluster.nodes.iter().any(|node| {
                node.records.iter().any(|((_, key), record)| {
                    key == part && record.files.iter().any(|(_, on_prefix)| *on_prefix)
                })
            });
        }
        if on_prefix && !has_id {
            return Ok(None);
        }
        files.retain(|name, _| series.belongs(name, &key.id));
        let found = truth.find(&files);
        trace!(self, "{} {key:?} is complete: {found:?}", self.clock_ms);
        let Some(checkpoint) = found else {
            return Err(format!(
                "promise 1: {key:?} is called complete, but no complete checkpoint is {files:?}"
            ));
        };
        if series.moves && !truth.moved.contains(&checkpoint) {
            return Err(format!("promise 1: {key:?} is called complete before it has its name"));
        }
        Ok(Some(checkpoint))
    }

    /// Promise 2: the newest dataset of its series that we called complete is never removed, and no
    /// other before a newer one of its series is called complete.
    pub fn check_eviction(&self, rank: usize, key: &DatasetKey, id: u64) -> Checked {
        let sealed = self.sealed(rank, key);
        let called = &self.truth[key.series].called;
        if called.last().is_some_and(|called| called.sealed() == sealed) {
            return Err(format!(
                "promise 2: rank {rank} evicts {key:?} ({id}), the newest complete one"
            ));
        }
        let mut datasets = self.ranks[rank].machine.datasets(key.series).iter();
        let state = datasets.find(|dataset| dataset.key == *key).map(|dataset| dataset.state);
        if state != Some(DatasetState::Dropped) && self.style.series[key.series].rule.keeps {
            self.check_kept(rank, key)?;
        }
        let is_empty = state == Some(DatasetState::Open);
        if is_empty || called.iter().any(|called| called.id > id) {
            return Ok(());
        }
        Err(format!("promise 2: rank {rank} evicts {key:?} ({id}) before a newer one is complete"))
    }

    /// Promise 1: what the program has not given up is on the PFS before it leaves the cache.
    fn check_kept(&self, rank: usize, key: &DatasetKey) -> Checked {
        let node = &self.cluster.nodes[self.cluster.node_of[rank]];
        let files = node.files.get(&(rank, key.clone())).into_iter().flatten();
        let mut kept = files.filter(|(name, content)| {
            let sees = &self.ranks[rank].sees;
            sees.get(*name) == Some(content) && self.cluster.pfs.get(*name) != Some(content)
        });
        kept.next().map_or(Ok(()), |(name, content)| {
            Err(format!("promise 1: rank {rank} evicts {name} ({content:?}), and has no other"))
        })
    }

    /// A number belongs to one dataset, whatever the series.
    pub fn check_id(&self, key: &DatasetKey, id: u64) -> Checked {
        let records = self.cluster.nodes.iter().flat_map(|node| &node.records);
        let mut others = records.filter(|((_, other), record)| other != key && record.id == id);
        match others.next() {
            None => Ok(()),
            Some(((_, other), _)) => {
                Err(format!("promise 2: {key:?} and {other:?} have the same id {id}"))
            }
        }
    }

    /// After a normal end the PFS holds what the program sees of the newest checkpoint of every
    /// series, and of the newest that we called complete and still had, if that is an older one;
    /// and nothing that it has deleted.
    pub fn check_end(&self) -> Checked {
        let mut seen = Files::new();
        for rank in &self.ranks {
            seen.extend(rank.sees.iter().map(|(name, content)| (name.clone(), *content)));
        }
        for series in &self.style.series {
            for (name, content) in self.wanted_at_end(series, &seen) {
                let there = self.cluster.pfs.get(&name);
                if there != Some(&content) {
                    return Err(format!(
                        "promise 2: after the end the PFS has {there:?} as {name}, not {content:?}"
                    ));
                }
            }
        }
        for name in self.cluster.pfs.keys().filter(|name| !name.ends_with(".tmp")) {
            if !seen.contains_key(name) {
                return Err(format!(
                    "promise 2: after the end the PFS has {name}, which was deleted"
                ));
            }
        }
        Ok(())
    }

    /// Of what the program sees of a series: the newest checkpoint and the newest that we called
    /// complete, but for what has left the cache by then, and the pointer file; all of it, if
    /// nobody has said what is due.
    fn wanted_at_end(&self, series: &Series, seen: &Files) -> Files {
        if series.rule.keeps {
            let own = seen.iter().filter(|(name, _)| series_of(name) == series.index);
            return own.map(|(name, content)| (name.clone(), *content)).collect();
        }
        let truth = &self.truth[series.index];
        let has_id = series.rule.has_id;
        let none = Files::new();
        let mut checkpoints: BTreeMap<u32, Files> = BTreeMap::new();
        for (name, content) in seen.iter().filter(|(name, _)| series.belongs(name, series.id(name)))
        {
            let id = series.id(name).parse().unwrap_or(0);
            if !has_id || !truth.evicted.contains(&(name.clone(), *content)) {
                checkpoints.entry(id).or_default().insert(name.clone(), *content);
            }
        }
        // The newest of which the program has not deleted all; it may have written it again.
        let called = truth.called.iter().rev().find_map(|called| {
            let files = checkpoints.get(&called.key.id.parse().unwrap_or(0))?;
            let found = truth.find(files);
            let same = called.checkpoint.is_none() || called.checkpoint == found;
            Some(files).filter(|_| found.is_some() && same).or(Some(&none))
        });
        // A course that the program has left may have a higher number.
        let written = |files: &&Files| files.values().map(|one| (one.launch, one.step)).max();
        let newest = checkpoints.values().max_by_key(written).into_iter().chain(called);
        let mut wanted: Files = newest.flat_map(Clone::clone).collect();
        let pointer = series.pointer_name();
        wanted.extend(seen.get(&pointer).map(|content| (pointer, *content)));
        wanted
    }
}
