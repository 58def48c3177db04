//! What is learned of how the program treats the files of a series: which of them stay on the PFS,
//! and why. Without ids one such name keeps the whole series there: its older versions are gone,
//! and no roll-back would be consistent.

use std::collections::{BTreeMap, BTreeSet};

use super::Machine;
use super::keys::{DatasetKey, FileRef, Intent};
use super::knowledge::{Why, name_hash};
use super::local::Begun;
use super::report::{Mark, Report};
use super::shared::{Routing, SharedDataset, SharedSeries};

impl Machine {
    /// Notes that this rank reads a file that it did not write. While learning, call it for every
    /// such file; later only for those that lie in the cache of another node.
    pub fn read_elsewhere(&mut self, file: &FileRef) {
        let shared = &self.shared.series[file.series];
        let begun = |dataset: &&SharedDataset| !dataset.restored;
        if !shared.datasets.iter().any(|dataset| begun(&dataset)) {
            return; // a restart reads what earlier launches wrote
        }
        let name = name_hash(&file.masked);
        let bare = file.masked == file.name;
        let learning = shared.routing.watches();
        let known = shared.unsafe_names.contains_key(&name);
        let local = &mut self.series[file.series];
        if learning && !local.written.contains(&name) && !local.news.read.contains(&(name, bare)) {
            local.news.read.push((name, bare));
            self.agreement.changed(1);
        } else if !learning && !known {
            self.mark_unsafe(file, Why::Readers);
        }
    }

    /// Notes that new files of that name stay on the PFS.
    pub fn mark_unsafe(&mut self, file: &FileRef, why: Why) {
        let marked = &mut self.series[file.series].news.unsafe_names;
        let name = name_hash(&file.masked);
        if !marked.iter().any(|mark| mark.name == name) {
            marked.push(Mark { name, bare: file.masked == file.name, why });
        }
        self.agreement.changed(1);
    }

    /// Tells whether, in a series without ids, the program changes a file of its last checkpoint in
    /// place, and so begins the next one. While learning that is not sure of one that was made
    /// anew, nor of what is only appended to: it may be the rest of the checkpoint, which the next
    /// open tells. See `expect_append`.
    pub(super) fn is_changed_again(
        &mut self,
        key: &DatasetKey,
        file: &FileRef,
        intent: Intent,
    ) -> bool {
        let again = !self.config.series[key.series].has_id && self.written_before(key, file);
        if again && self.shared.series[key.series].routing == Routing::Learning {
            let own = self.series[key.series].find_mut(key);
            let held = own.and_then(|own| own.files.get_mut(&file.name));
            if let Some(anew) = held.filter(|held| held.begun == Begun::Anew) {
                anew.begun = Begun::GoesOn;
                return false;
            }
            return !intent.appends;
        }
        again
    }

    /// Notes whether the file was opened to be made `anew`, or not.
    pub(super) fn note_anew(&mut self, key: &DatasetKey, file: &FileRef, anew: bool) {
        let own = self.series[key.series].find_mut(key);
        if let Some(held) = own.and_then(|own| own.files.get_mut(&file.name)) {
            held.begun = if anew { Begun::Anew } else { Begun::InPlace };
        }
    }

    /// Tells whether a checkpoint went on after a sync point: its file was made anew, changed in
    /// place, and is made anew once more.
    pub(super) fn went_on(&self, file: &FileRef) -> bool {
        let mut datasets = self.series[file.series].datasets.iter().rev();
        let holder = datasets.find(|dataset| dataset.holds(&file.name));
        let held = holder.and_then(|holder| holder.files.get(&file.name));
        held.is_some_and(|held| held.begun == Begun::GoesOn)
    }

    /// Takes in what the ranks have found out about a series.
    pub(super) fn take_series_news(&mut self, index: usize, reports: &[Report]) {
        let nodes = &self.config.nodes;
        let shared = &mut self.shared.series[index];
        let mut interval_ms = 0;
        for (rank, report) in reports.iter().enumerate() {
            let news = &report.series[index];
            interval_ms = interval_ms.max(news.interval_ms);
            shared.rewrites |= news.rewrites;
            shared.learned |= news.learned;
            for mark in &news.unsafe_names {
                shared.note_unsafe(mark);
            }
            shared.written.extend(news.written.iter().map(|name| (*name, rank)));
            shared.read.extend(news.read.iter().map(|(name, bare)| (*name, rank, *bare)));
        }
        if interval_ms > 0 {
            shared.interval_ms = interval_ms;
        }
        learn_unsafe(shared, nodes);
        self.find_marked(index);
    }

    /// Finds the name of the file for which the series stays on the PFS: a rank that has it tells
    /// it.
    pub(super) fn find_marked(&mut self, index: usize) {
        let (shared, local) = (&self.shared.series[index], &mut self.series[index]);
        let Some(mark) = shared.marked.as_ref().filter(|_| local.marked.is_none()) else { return };
        let files = local.datasets.iter().flat_map(|dataset| &dataset.files);
        let mut named = files.filter(|(_, file)| file.masked == mark.name);
        local.marked = named.next().map(|(name, _)| name.clone());
    }

    /// Tells why no file of the series is cached, with the file of this rank that is the reason.
    #[must_use]
    pub fn unprotected(&self, series: usize) -> Option<(Why, &str)> {
        let name = self.series[series].marked.as_deref()?;
        Some((self.shared.series[series].marked.as_ref()?.why, name))
    }
}

impl SharedSeries {
    /// Notes that files of that name go to the PFS.
    pub fn note_unsafe(&mut self, mark: &Mark) {
        self.learned |= !self.unsafe_names.contains_key(&mark.name);
        self.unsafe_names.entry(mark.name).or_insert(mark.why);
        if mark.bare && self.routing != Routing::Prefix {
            self.routing = Routing::Prefix;
            self.marked = Some(mark.clone());
            self.learned = true;
        }
    }
}

/// Finds names with several writers, or readers on other nodes than the writer's.
fn learn_unsafe(shared: &mut SharedSeries, nodes: &[usize]) {
    if shared.routing == Routing::Prefix {
        return;
    }
    let mut found: BTreeMap<u64, Why> = BTreeMap::new();
    let mut writers = shared.written.iter().peekable();
    while let Some((name, _)) = writers.next() {
        if writers.peek().is_some_and(|(next, _)| next == name) {
            found.insert(*name, Why::Writers);
        }
    }
    for (name, reader, _) in &shared.read {
        let mut writers = shared.written.range((*name, 0)..=(*name, usize::MAX));
        if writers.any(|(_, writer)| nodes[*writer] != nodes[*reader]) {
            found.entry(*name).or_insert(Why::Readers);
        }
    }
    let read = shared.read.iter();
    let bare: BTreeSet<u64> = read.filter(|(_, _, bare)| *bare).map(|(name, ..)| *name).collect();
    for (name, why) in found {
        shared.note_unsafe(&Mark { name, bare: bare.contains(&name), why });
    }
}
