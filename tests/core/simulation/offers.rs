//! The promises checked at a restart, for each series by itself: what is offered, and what the
//! program can go back to.

use std::collections::{BTreeMap, BTreeSet};

use scr_core::machine::{DatasetKey, Offer};

use super::cluster::{Content, Files, Stage};
use super::job::{Checked, Sim};
use super::restart::Restored;
use super::series::{Series, owner, series_of};
use super::truth::{Called, Checkpoint};

impl Sim {
    /// Checks all that a restart offers, and what the program sees then.
    pub fn check_restart(&mut self, restored: &[Restored], visible: &Files) -> Checked {
        for series in self.style.series.clone() {
            let own = restored.iter().filter(|one| one.offer.key.series == series.index);
            let own: Vec<&Restored> = own.collect();
            self.check_offers(&series, &own)?;
            self.check_called_offered(&series, &own)?;
            self.check_pointer(&series, &own, visible)?;
            self.check_told(&series, visible)?;
            self.call_offered(&series, &own);
        }
        Ok(())
    }

    /// Promise 1: what is offered is what the program wrote in one complete checkpoint. For
    /// provisional datasets: what the program would find there if it had written them to a disk.
    fn check_offers(&self, series: &Series, restored: &[&Restored]) -> Checked {
        let mut groups: BTreeMap<&str, Vec<&Restored>> = BTreeMap::new();
        for dataset in restored {
            groups.entry(&dataset.offer.key.id).or_default().push(dataset);
        }
        for (id, datasets) in groups {
            let Some(top) = datasets.last() else { continue };
            if !top.offer.confirmed {
                self.check_provisional(series, top)?;
                continue;
            }
            if self.is_in_place(series) || datasets.iter().any(|one| self.is_on_prefix(one)) {
                continue;
            }
            let mut files = self.base(series, id);
            datasets.iter().for_each(|dataset| files.extend(dataset.files()));
            files.retain(|name, _| series.belongs(name, id));
            if self.truth[series.index].find(&files).is_none() {
                return Err(format!(
                    "promise 1: {:?} is offered as complete, but no complete one is {files:?}",
                    top.offer
                ));
            }
        }
        Ok(())
    }

    /// What the program changes in place on the PFS has one version only, as without us.
    fn is_in_place(&self, series: &Series) -> bool {
        !series.rule.has_id && self.truth[series.index].in_place
    }

    /// The names that no dataset holds: what is on the PFS, for series without ids.
    fn base(&self, series: &Series, id: &str) -> Files {
        match series.rule.has_id {
            true => Files::new(),
            false => self.on_prefix(series, id),
        }
    }

    fn on_prefix(&self, series: &Series, id: &str) -> Files {
        let mut files = self.cluster.pfs.clone();
        files.retain(|name, _| series.belongs(name, id));
        files
    }

    /// Some of its files are on the PFS only: versions are the program's own business there.
    fn is_on_prefix(&self, dataset: &Restored) -> bool {
        let offer = &dataset.offer;
        offer.on_prefix || self.has_on_prefix(&offer.key, offer.epoch)
    }

    fn has_on_prefix(&self, key: &DatasetKey, epoch: u64) -> bool {
        let ranks = 0..self.ranks.len();
        let records = ranks.filter_map(|rank| self.cluster.record(rank, key, epoch));
        let mut files = records.flat_map(|record| &record.files);
        files.any(|(_, on_prefix)| *on_prefix)
    }

    /// The program has begun to write this very checkpoint again, having gone back to an older one
    /// of its first series: what the PFS had of it is gone, as it would be without us.
    fn is_rewritten(&self, series: &Series, checkpoint: Checkpoint) -> bool {
        let truth = &self.truth[series.index];
        truth.files(checkpoint).iter().any(|(name, content)| {
            let written = truth.written.get(name);
            let again = written.is_some_and(|written| written.launch > content.launch);
            !series.id(name).is_empty() && again
        })
    }

    fn check_provisional(&self, series: &Series, dataset: &Restored) -> Checked {
        if self.is_on_prefix(dataset) {
            return Ok(());
        }
        for (name, content) in dataset.files() {
            let Some(seen) = self.ranks[owner(&name)].sees.get(&name) else { continue };
            // The next checkpoint may have the same names, as one that is written again in a later
            // launch has: what it overwrote is offered.
            let newer = (seen.launch, seen.step) > (content.launch, content.step);
            let same_names = series.id(&name).is_empty();
            let replaced = content.stage != Stage::Torn
                && newer
                && (same_names || seen.launch > content.launch);
            let goes_back = || self.is_lost(owner(&name)) && self.is_trusted(dataset);
            if *seen != content && !replaced && !goes_back() {
                return Err(format!(
                    "promise 1: {:?} is offered with {name} as {content:?}, not {seen:?}",
                    dataset.offer,
                ));
            }
        }
        Ok(())
    }

    fn is_lost(&self, rank: usize) -> bool {
        self.cluster.lost.contains(&self.cluster.node_of[rank])
    }

    /// It was left alone for long, and is all that the program saw of it then.
    fn is_trusted(&self, dataset: &Restored) -> bool {
        let sealed = (dataset.offer.key.clone(), dataset.offer.epoch);
        let trusted = &self.truth[dataset.offer.key.series].trusted;
        trusted.get(&sealed).is_some_and(|seen| {
            dataset.files().iter().all(|(name, content)| seen.get(name) == Some(content))
        })
    }

    /// Every complete checkpoint that the program could go back to, newest last.
    fn reachable(&self, series: &Series, restored: &[&Restored]) -> BTreeSet<Checkpoint> {
        let truth = &self.truth[series.index];
        let mut reachable = BTreeSet::new();
        let mut layers: BTreeMap<&str, Files> = BTreeMap::new();
        for name in self.cluster.pfs.keys().filter(|name| series_of(name) == series.index) {
            layers.entry(series.id(name)).or_default();
        }
        for (id, files) in &mut layers {
            *files = self.on_prefix(series, id);
            reachable.extend(truth.find(files));
        }
        for dataset in restored {
            let id = dataset.offer.key.id.as_str();
            let files = layers.entry(id).or_insert_with(|| self.base(series, id));
            files.extend(dataset.files());
            files.retain(|name, _| series.belongs(name, id));
            reachable.extend(truth.find(files));
        }
        reachable
    }

    /// Promise 2: the newest dataset that we called complete and that the scheme covers (or that is
    /// on the PFS) is offered, or a newer one.
    fn check_called_offered(&mut self, series: &Series, restored: &[&Restored]) -> Checked {
        let reachable = self.reachable(series, restored);
        while let Some(called) = self.truth[series.index].called.last() {
            let Some(checkpoint) = called.checkpoint else {
                self.truth[series.index].called.pop();
                continue;
            };
            if reachable.last().is_some_and(|newest| *newest >= checkpoint) {
                return Ok(());
            }
            let sealed = called.sealed();
            let found = (0..self.ranks.len()).any(|rank| self.sealed(rank, &called.key) == sealed);
            let cached = (0..self.ranks.len()).any(|rank| {
                let record = self.cluster.record(rank, &called.key, called.epoch);
                record.is_some_and(|record| record.files.iter().any(|(_, prefix)| !prefix))
            });
            let found = found && cached;
            let on_prefix = self.has_on_prefix(&called.key, called.epoch);
            let rebuilt = self.cluster.rebuild(&called.key, called.epoch).filter(|_| found);
            let deleted = self.was_deleted(series, checkpoint);
            let flushed = self.cluster.index.contains(&sealed) && !deleted;
            let ending = self.ranks.iter().any(|rank| rank.ending);
            let gone = self.is_rewritten(series, checkpoint) || (deleted && ending);
            let gone = gone && (on_prefix || rebuilt.is_none());
            if (rebuilt.is_some() || flushed) && !self.is_in_place(series) && !gone {
                return Err(format!(
                    "promise 2: {called:?} was called complete and is covered, but all that the \
                     program can go back to is {reachable:?}"
                ));
            }
            self.truth[series.index].called.pop();
        }
        Ok(())
    }

    /// What is offered as complete counts as called complete from now on, even if the crash came
    /// before any rank heard the outcome of the seal.
    fn call_offered(&mut self, series: &Series, restored: &[&Restored]) {
        let offers = restored.iter().map(|dataset| dataset.offer.clone());
        for Offer { key, id, epoch, .. } in offers.filter(|offer| offer.confirmed) {
            self.truth[series.index].call(Called { key, id, epoch, checkpoint: None });
        }
    }

    fn was_deleted(&self, series: &Series, checkpoint: Checkpoint) -> bool {
        let truth = &self.truth[series.index];
        truth.files(checkpoint).keys().any(|name| truth.deleted.contains(name))
    }

    /// A pointer file never points past a roll-back.
    fn check_pointer(&self, series: &Series, restored: &[&Restored], visible: &Files) -> Checked {
        let name = series.pointer_name();
        let holds = |dataset: &&&Restored| dataset.files().contains_key(&name);
        let Some(holder) = restored.iter().rfind(holds) else { return Ok(()) };
        if !holder.offer.confirmed || self.is_on_prefix(holder) {
            return Ok(());
        }
        let pointer = visible.get(&name).copied().unwrap_or(Content::GARBAGE);
        if pointer.stage != Stage::Final {
            return Err(format!("promise 1: {name} is {pointer:?}"));
        }
        self.check_named(series, pointer, visible)
    }

    /// Without collectives the PFS looks as it did without us, some time ago: its pointer file
    /// names a checkpoint that is there. If the program has deleted that since, for a newer one
    /// that is lost, the start finds files missing and hides the pointer with the others.
    fn check_told(&self, series: &Series, visible: &Files) -> Checked {
        let pointer = visible.get(&series.pointer_name()).filter(|_| self.style.mute.is_some());
        let truth = &self.truth[series.index];
        let is_deleted = |pointer: &&Content| {
            let files = truth.files((pointer.launch, pointer.step));
            files.keys().any(|name| truth.deleted.contains(name))
        };
        let told = pointer.filter(|pointer| pointer.stage == Stage::Final);
        match told.filter(|pointer| !is_deleted(pointer)) {
            Some(pointer) => self.check_named(series, *pointer, visible),
            None => Ok(()),
        }
    }

    fn check_named(&self, series: &Series, pointer: Content, visible: &Files) -> Checked {
        let mut files = visible.clone();
        files.retain(|name, _| series.belongs(name, &pointer.step.to_string()));
        let found = self.truth[series.index].find(&files).is_some();
        if found || self.is_rewritten(series, (pointer.launch, pointer.step)) {
            return Ok(());
        }
        let name = series.pointer_name();
        Err(format!("promise 1: {name} is {pointer:?}, but that checkpoint is {files:?}"))
    }

    /// The newest step whose files the program finds complete.
    pub fn step_to_go_on_from(&self, visible: &Files) -> u32 {
        let series = &self.style.series[0];
        let mut own = visible.clone();
        own.retain(|name, _| series_of(name) == series.index);
        if !series.rule.has_id {
            return own.values().map(|content| content.step).max().unwrap_or(0);
        }
        let steps: BTreeSet<u32> =
            own.keys().filter_map(|name| series.id(name).parse().ok()).collect();
        let complete = |step: &&u32| {
            let mut files = own.clone();
            files.retain(|name, _| series.belongs(name, &step.to_string()));
            self.truth[series.index].find(&files).is_some()
        };
        steps.iter().rev().find(complete).copied().unwrap_or(0)
    }
}
