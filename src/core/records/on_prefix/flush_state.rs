//! The flush file: where each dataset is (manual 1.1, section 9.4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::kvtree::KvTree;
use crate::records::on_prefix::classic;
use crate::records::record::{Record, datasets, number};

/// A place where a dataset can be, or a way on which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// In cache.
    Cache,
    /// On the parallel file system, whole.
    Prefix,
    /// A flush is under way.
    Flushing,
}

impl Location {
    const ALL: [Location; 3] = [Location::Cache, Location::Prefix, Location::Flushing];

    fn text(self) -> &'static str {
        match self {
            Location::Cache => "CACHE",
            Location::Prefix => "PFS",
            Location::Flushing => "FLUSHING",
        }
    }
}

/// Locations by dataset id. Beside the manual's LOCATION a NAME says which dataset it is, so that
/// one that only the cache had can be told of when all its nodes are gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlushState {
    locations: BTreeMap<u64, BTreeSet<Location>>,
    /// Names of datasets that are known to be complete; each of them has a location.
    names: BTreeMap<u64, String>,
    /// Of flushes under way: bytes that have come, and all of them.
    progress: BTreeMap<u64, (u64, u64)>,
}

impl FlushState {
    /// File name in the prefix's `.scr` directory.
    pub const NAME: &'static str = "flush.scr";

    /// Adds a location.
    pub fn set(&mut self, dataset_id: u64, location: Location) {
        self.locations.entry(dataset_id).or_default().insert(location);
    }

    /// Removes a location; with the last one the dataset is forgotten.
    pub fn unset(&mut self, dataset_id: u64, location: Location) {
        if let Some(locations) = self.locations.get_mut(&dataset_id) {
            locations.remove(&location);
            if location == Location::Flushing {
                self.progress.remove(&dataset_id);
            }
            if locations.is_empty() {
                self.remove(dataset_id);
            }
        }
    }

    /// Names a dataset that has a location: it is complete from now on.
    pub fn set_name(&mut self, dataset_id: u64, name: &str) {
        if self.locations.contains_key(&dataset_id) {
            self.names.insert(dataset_id, name.to_owned());
        }
    }

    /// Returns the name of a dataset that is known to be complete.
    #[must_use]
    pub fn name(&self, dataset_id: u64) -> Option<&str> {
        self.names.get(&dataset_id).map(String::as_str)
    }

    /// Notes how many bytes of a flush under way have come, `of` how many.
    pub fn set_progress(&mut self, dataset_id: u64, done: u64, of: u64) {
        if self.is_at(dataset_id, Location::Flushing) {
            self.progress.insert(dataset_id, (done, of));
        }
    }

    /// Returns how many bytes of a flush under way have come, and of how many, if that is noted.
    #[must_use]
    pub fn progress(&self, dataset_id: u64) -> Option<(u64, u64)> {
        self.progress.get(&dataset_id).copied()
    }

    /// Tells whether the dataset has a location.
    #[must_use]
    pub fn is_at(&self, dataset_id: u64, location: Location) -> bool {
        self.locations.get(&dataset_id).is_some_and(|locations| locations.contains(&location))
    }

    /// Returns the ids that have a location.
    #[must_use]
    pub fn at(&self, location: Location) -> BTreeSet<u64> {
        self.locations.keys().copied().filter(|id| self.is_at(*id, location)).collect()
    }

    /// Forgets a dataset.
    pub fn remove(&mut self, dataset_id: u64) {
        self.locations.remove(&dataset_id);
        self.names.remove(&dataset_id);
        self.progress.remove(&dataset_id);
    }

    /// Returns all ids, oldest first.
    pub fn dataset_ids(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.locations.keys().copied()
    }

    /// Returns the ids that are in cache and not on the parallel file system, oldest first.
    pub fn unflushed(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.dataset_ids()
            .filter(|id| self.is_at(*id, Location::Cache) && !self.is_at(*id, Location::Prefix))
    }

    /// Takes in what another node says: a location anywhere holds for all.
    pub fn merge(&mut self, other: &FlushState) {
        for (id, locations) in &other.locations {
            self.locations.entry(*id).or_default().extend(locations);
        }
        self.names.extend(other.names.clone());
        self.progress.extend(&other.progress);
    }
}

impl Record for FlushState {
    const KIND: &'static str = "the flush file";

    fn place(path: &Path) -> PathBuf {
        classic::flush_place(path)
    }

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        for (id, locations) in &self.locations {
            let entry = tree.set_kv("DSET", id);
            for location in locations {
                entry.child_mut("LOCATION").child_mut(location.text());
            }
            if let Some(name) = self.names.get(id) {
                entry.set_value("NAME", name);
            }
            if let Some((done, of)) = self.progress(*id) {
                entry.child_mut("PROGRESS").set_value("DONE", done);
                entry.child_mut("PROGRESS").set_value("OF", of);
            }
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let mut state = FlushState::default();
        for (id, entry) in datasets(tree) {
            let id = number(id, "a dataset id")?;
            for location in Location::ALL {
                // Locations that only newer versions know are left out.
                if entry.child("LOCATION").contains(location.text()) {
                    state.set(id, location);
                }
            }
            // The C implementation has had both.
            if let Some(name) = entry.get_value("NAME").or(entry.get_value("DIR")) {
                state.set_name(id, name);
            }
            let progress = entry.child("PROGRESS");
            if let (Some(done), Some(of)) = (progress.get_u64("DONE"), progress.get_u64("OF")) {
                state.set_progress(id, done, of);
            }
        }
        Ok(state)
    }
}
