//! What all ranks know of names: who writes and reads them, and which stay on the PFS.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::state::{DatasetState, SharedDataset, SharedSeries};
use crate::machine::terms::{
    DatasetKey, FileRef, Hints, MachineConfig, PartedNews, UnsafeName, Why, kind_hash, name_hash,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SharedNames {
    pub stay: BTreeMap<u64, Why>,
    /// Ranks of several nodes write some of them into their caches, or have.
    pub parts: bool,
    /// Whether they do in a checkpoint in progress in which another verdict came. It holds from the
    /// next one on: what some ranks have on the PFS and others in their caches is not one file.
    pub(super) kept: BTreeMap<(u64, DatasetKey), bool>,
    /// Names that these ranks of one node write together.
    pub together: BTreeMap<u64, BTreeSet<usize>>,
    /// The first name without id among them, for which the whole series stays there.
    pub marked: Option<UnsafeName>,
    /// None of them is written into caches now: without ids, one that is still watched or stays on
    /// the PFS keeps all there.
    pub(super) waits: bool,
    /// So many checkpoints without ids are complete while they wait.
    pub(super) waited: u32,
    /// (name, rank) of files written while learning, or new, since the last confirmation.
    pub written: BTreeSet<(u64, usize)>,
    /// (name, rank, has no id) of files read but not written by a rank while learning.
    pub read: BTreeSet<(u64, usize, bool)>,
}

impl SharedNames {
    /// Returns what is known of a name, or of another one that differs in its numbers and was
    /// judged.
    pub(super) fn known(&self, name: u64, kind: u64) -> Option<Why> {
        self.stay.get(&name).or_else(|| self.stay.get(&kind)).copied()
    }

    /// Returns the ranks that write files of that name, if there are several.
    pub fn co_writers(&self, name: u64) -> Option<&BTreeSet<usize>> {
        self.together.get(&name).filter(|ranks| ranks.len() > 1)
    }

    /// Tells whether others than `rank` are known to write files of that name: what they take for
    /// the next checkpoint `rank` has to take for it, too.
    pub fn others_write(&self, name: u64, rank: usize) -> bool {
        let other = |one: &(u64, usize)| one.0 == name && one.1 != rank;
        self.written.iter().any(other) || self.co_writers(name).is_some()
    }

    /// Returns those that ranks of several nodes have written since the last confirmation.
    pub fn parted(&self, config: &MachineConfig) -> Vec<PartedNews> {
        let written: BTreeSet<u64> = self.written.iter().map(|(name, _)| *name).collect();
        let news = |(name, writers): (&u64, &BTreeSet<usize>)| PartedNews {
            name: *name,
            writers: writers.clone(),
            is_read: self.read.iter().any(|(read, ..)| read == name),
        };
        let parted = self.together.iter();
        let parted = parted
            .filter(|(name, ranks)| written.contains(*name) && !config.are_on_one_node(ranks));
        parted.map(news).collect()
    }

    pub(super) fn are_parted(&self, name: u64, kind: u64) -> bool {
        !self.waits && matches!(self.known(name, kind), Some(Why::OfNodes(_)))
    }

    /// Returns what MPI-IO is to be told of the file now.
    pub(super) fn hints(&self, file: &FileRef) -> Option<Hints> {
        let (name, kind) = (name_hash(&file.masked), kind_hash(&file.masked));
        match self.known(name, kind)? {
            Why::OfNodes(hints) if self.are_parted(name, kind) => Some(hints),
            Why::Tries(hints) => Some(hints),
            _ => None,
        }
    }

    /// Tells whether they were when this checkpoint began, if that has changed since.
    pub(super) fn were_parted(&self, name: u64, key: &DatasetKey) -> Option<bool> {
        self.kept.get(&(name, key.clone())).copied()
    }

    pub(super) fn learn(&mut self, name: u64, why: Why, series: &mut SharedSeries) {
        self.keep(&[name], series);
        self.stay.insert(name, why);
        self.parts |= self.are_parted(name, name);
        series.learned = true;
    }

    /// Notes whether they wait, from the next checkpoint on.
    pub(super) fn wait(&mut self, waits: bool, series: &SharedSeries) {
        if self.waits != waits {
            let names: Vec<u64> = self.stay.keys().copied().collect();
            self.keep(&names, series);
            (self.waits, self.waited) = (waits, 0);
            self.parts |= names.iter().any(|name| self.are_parted(*name, *name));
        }
    }

    /// Keeps what holds of these names in the checkpoints that are in progress.
    fn keep(&mut self, names: &[u64], series: &SharedSeries) {
        let in_progress = |one: &&SharedDataset| {
            matches!(one.state, DatasetState::Open | DatasetState::Provisional)
        };
        let all = || series.datasets.iter().filter(in_progress).map(|one| &one.key);
        self.kept.retain(|(_, key), _| all().any(|one| one == key));
        for name in names {
            let parted = self.are_parted(*name, *name);
            for key in all() {
                self.kept.entry((*name, key.clone())).or_insert(parted);
            }
        }
    }
}

pub(super) fn find_writers(written: &BTreeSet<(u64, usize)>) -> BTreeMap<u64, BTreeSet<usize>> {
    let mut writers: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    written.iter().for_each(|(name, rank)| _ = writers.entry(*name).or_default().insert(*rank));
    writers
}

/// Finds names with writers on several nodes, or readers on other nodes than the writers'.
pub(super) fn find_unsafe(
    shared: &SharedNames,
    writers: &BTreeMap<u64, BTreeSet<usize>>,
    config: &MachineConfig,
) -> Vec<UnsafeName> {
    let parted = writers.iter().filter(|(_, ranks)| !config.are_on_one_node(ranks));
    let mut found: BTreeMap<u64, Why> = parted.map(|(name, _)| (*name, Why::Writers)).collect();
    for (name, reader, _) in &shared.read {
        let mut writers = writers.get(name).into_iter().flatten();
        if writers.any(|writer| config.nodes[*writer] != config.nodes[*reader]) {
            found.entry(*name).or_insert(Why::Readers);
        }
    }
    let read = shared.read.iter();
    let bare: BTreeSet<u64> = read.filter(|(_, _, bare)| *bare).map(|(name, ..)| *name).collect();
    let marks = found.into_iter().map(|(name, why)| UnsafeName {
        name,
        kind: name,
        bare: bare.contains(&name),
        why,
    });
    marks.collect()
}
