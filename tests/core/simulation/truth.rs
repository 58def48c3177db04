//! What the program really wrote, and the promises checked against it while the job runs.

use std::collections::{BTreeMap, BTreeSet};

use scr_core::session::machine::{DatasetKey, DatasetState};

use super::cluster::{Content, Files, Stage};
use super::job::{Checked, Sim, trace};

/// A checkpoint of the program: launch and step.
pub type Checkpoint = (u32, u32);

/// A dataset that we called complete.
#[derive(Debug, Clone)]
pub struct Called {
    pub key: DatasetKey,
    pub epoch: u64,
    /// What it holds; `None` where that cannot be looked at (a node is dead, or files on the PFS
    /// are overwritten in place as they would be without us).
    pub checkpoint: Option<Checkpoint>,
}

/// What the program wrote.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// What each checkpoint consists of when all ranks have written it: the files of its id, or
    /// without ids all files of the series.
    checkpoints: BTreeMap<Checkpoint, Files>,
    /// The files of the series at the start of the launch.
    base: Files,
    /// In the order in which we called them complete.
    pub called: Vec<Called>,
    /// Names that the program has deleted.
    pub deleted: BTreeSet<String>,
}

impl Truth {
    /// A launch starts with these files.
    pub fn start(&mut self, base: Files) {
        self.base = base;
    }

    /// The files of a checkpoint.
    pub fn files(&self, checkpoint: Checkpoint) -> Files {
        self.checkpoints.get(&checkpoint).cloned().unwrap_or_default()
    }

    /// The checkpoint that consists of exactly these files.
    pub fn find(&self, files: &Files) -> Option<Checkpoint> {
        let newest = files.values().map(|content| (content.launch, content.step)).max()?;
        let mut near = self.checkpoints.range(newest..).take(4);
        near.find(|(_, expected)| *expected == files).map(|(checkpoint, _)| *checkpoint)
    }
}

impl Sim {
    /// A rank begins a checkpoint: what will it consist of?
    pub fn expect(&mut self, step: u32) {
        let checkpoint = (self.launch, step);
        if self.truth.checkpoints.contains_key(&checkpoint) {
            return;
        }
        let mut files = Files::new();
        if !self.style.series.has_id {
            let before = self.truth.checkpoints.get(&(self.launch, step - 1));
            files = before.unwrap_or(&self.truth.base).clone();
        }
        let whole = self.content(step, Stage::Final);
        for rank in 0..self.ranks.len() {
            let written = self.style.written(rank, step);
            files.extend(written.into_iter().map(|file| (file.name, whole)));
        }
        self.truth.checkpoints.insert(checkpoint, files);
    }

    /// The names that make up a checkpoint: all of the series, or those of one id.
    pub fn belongs(&self, name: &str, id: &str) -> bool {
        if name.ends_with(".tmp") {
            return false;
        }
        !self.style.series.has_id || name.split_once('/').is_some_and(|(head, _)| head == id)
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
    pub fn check_called(&mut self, rank: usize, key: &DatasetKey, _id: u64) -> Checked {
        let (_, epoch) = self.sealed(rank, key);
        if self.truth.called.iter().any(|called| called.key == *key && called.epoch == epoch) {
            return Ok(());
        }
        self.confirmed += 1;
        if !self.cluster.lost.is_empty() {
            self.truth.called.push(Called { key: key.clone(), epoch, checkpoint: None });
            return Ok(());
        }
        let has_id = self.style.series.has_id;
        let parts: Vec<DatasetKey> = {
            let datasets = self.ranks[rank].machine.datasets(0).iter();
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
        let mut on_prefix = self.in_place;
        for part in &parts {
            self.lay(part, &mut files);
            on_prefix |= self.cluster.nodes.iter().any(|node| {
                node.records.iter().any(|((_, key), record)| {
                    key == part && record.files.iter().any(|(_, on_prefix)| *on_prefix)
                })
            });
        }
        if on_prefix && !has_id {
            self.truth.called.push(Called { key: key.clone(), epoch, checkpoint: None });
            return Ok(());
        }
        files.retain(|name, _| self.belongs(name, &key.id));
        let found = self.truth.find(&files);
        trace!(self, "{} {key:?} is complete: {found:?}", self.clock_ms);
        let Some(checkpoint) = found else {
            return Err(format!(
                "promise 1: {key:?} is called complete, but no complete checkpoint is {files:?}"
            ));
        };
        if self.style.moves && !self.moved.contains(&checkpoint) {
            return Err(format!("promise 1: {key:?} is called complete before it has its name"));
        }
        self.truth.called.push(Called { key: key.clone(), epoch, checkpoint: Some(checkpoint) });
        Ok(())
    }

    /// Promise 2: the newest dataset that we called complete is never removed.
    pub fn check_eviction(&self, rank: usize, key: &DatasetKey, id: u64) -> Checked {
        let sealed = self.sealed(rank, key);
        match self.truth.called.last() {
            Some(called) if sealed == (called.key.clone(), called.epoch) => Err(format!(
                "promise 2: rank {rank} evicts {key:?} ({id}), the newest complete one"
            )),
            _ => Ok(()),
        }
    }

    /// After a normal end the PFS holds what the program sees of its newest checkpoint, and nothing
    /// that it has deleted.
    pub fn check_end(&self) -> Checked {
        let newest = self.ranks[0].next_step - 1;
        let id = newest.to_string();
        let mut seen = Files::new();
        for rank in &self.ranks {
            seen.extend(rank.sees.iter().map(|(name, content)| (name.clone(), *content)));
        }
        for (name, content) in &seen {
            let wanted = self.belongs(name, &id) || name == "latest";
            if wanted && self.cluster.pfs.get(name) != Some(content) {
                return Err(format!(
                    "promise 2: after the end the PFS has {:?} as {name}, not {content:?}",
                    self.cluster.pfs.get(name)
                ));
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
}
