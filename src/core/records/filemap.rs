//! The filemap of one process: which rank's files of which dataset lie in this node's cache (manual
//! 1.1, sections 4 and 9.3).
//!
//! ```text
//! RANK / <world rank> / DSET / <dataset id>  / <fields of DatasetRecord>
//!                     / OPEN / <open name>   / <fields of DatasetRecord>
//! DSET / <dataset id> / RANK / <world rank>              (index, for people and scavenge)
//! ```
//!
//! A dataset is listed by id once it has one that no other record of the rank has; else by the name
//! of its directory, so that an id that was given twice (a seal that a crash voided) loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::kvtree::KvTree;
use crate::records::record::{Record, datasets, number};
use crate::records::{DatasetRecord, RecordKey};

/// Name of the file in the control directory that lists the filemaps of the node's processes.
pub const MASTER_FILEMAP: &str = "filemap.scrinfo";

/// Returns the name of the filemap file of a process, by its rank among those of the node.
#[must_use]
pub fn filemap_name(local_rank: usize) -> String {
    format!("filemap_{local_rank}.scrinfo")
}

/// Records of datasets, by world rank and dataset key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filemap {
    records: BTreeMap<(usize, RecordKey), DatasetRecord>,
}

impl Filemap {
    /// Returns an empty filemap.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds the record of `rank`; returns the one it replaces, that of the same key.
    pub fn insert(&mut self, rank: usize, record: DatasetRecord) -> Option<DatasetRecord> {
        self.records.insert((rank, record.key.clone()), record)
    }

    /// Returns the record of `rank` for a dataset.
    #[must_use]
    pub fn get(&self, rank: usize, key: &RecordKey) -> Option<&DatasetRecord> {
        self.records.get(&(rank, key.clone()))
    }

    /// Returns the record of `rank` for a dataset with an id.
    #[must_use]
    pub fn get_id(&self, rank: usize, dataset_id: u64) -> Option<&DatasetRecord> {
        self.by_dataset(dataset_id).find(|(owner, _)| *owner == rank).map(|(_, record)| record)
    }

    /// Changes the record of `rank` for a dataset, if there is one. The key stays as it is.
    pub fn change(
        &mut self,
        rank: usize,
        key: &RecordKey,
        change: impl FnOnce(&mut DatasetRecord),
    ) -> bool {
        let Some(record) = self.records.get_mut(&(rank, key.clone())) else { return false };
        change(record);
        record.key = key.clone();
        true
    }

    /// Removes and returns the record of `rank` for a dataset.
    pub fn remove(&mut self, rank: usize, key: &RecordKey) -> Option<DatasetRecord> {
        self.records.remove(&(rank, key.clone()))
    }

    /// Returns all records with their ranks, by rank, then key.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &DatasetRecord)> {
        self.records.iter().map(|((rank, _), record)| (*rank, record))
    }

    /// Returns all records of the dataset with this id, by rank.
    pub fn by_dataset(&self, dataset_id: u64) -> impl Iterator<Item = (usize, &DatasetRecord)> {
        self.iter().filter(move |(_, record)| record.dataset_id == dataset_id)
    }

    /// Returns the ranks with any record, ascending.
    #[must_use]
    pub fn ranks(&self) -> Vec<usize> {
        let ranks: BTreeSet<_> = self.records.keys().map(|(rank, _)| *rank).collect();
        ranks.into_iter().collect()
    }

    /// Returns the ids of all datasets that have one, oldest first.
    #[must_use]
    pub fn dataset_ids(&self) -> Vec<u64> {
        let ids: BTreeSet<_> = self.iter().map(|(_, record)| record.dataset_id).collect();
        ids.into_iter().filter(|id| *id != 0).collect()
    }
}

impl Record for Filemap {
    const KIND: &'static str = "a filemap";

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        let mut listed = BTreeSet::new();
        for (rank, record) in self.iter() {
            let id = record.dataset_id;
            let entry = tree.set_kv("RANK", rank);
            if id != 0 && listed.insert((rank, id)) {
                entry.child_mut("DSET").set(id, record.to_tree());
                tree.set_kv("DSET", id).set_kv("RANK", rank);
            } else {
                entry.child_mut("OPEN").set(record.key.directory_name(), record.to_tree());
            }
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let mut map = Filemap::new();
        for (rank, entry) in tree.child("RANK") {
            let rank: usize = number(rank, "a rank")?;
            for (name, fields) in datasets(entry).iter().chain(entry.child("OPEN")) {
                let record = DatasetRecord::from_tree(fields)
                    .ok_or_else(|| format!("dataset {name} of rank {rank} has a bad field"))?;
                if map.insert(rank, record).is_some() {
                    return Err(format!("dataset {name} of rank {rank} is listed twice"));
                }
            }
        }
        Ok(map)
    }
}

/// The file `filemap.scrinfo` of a node: paths of the filemap files of its processes (manual 1.1,
/// section 9.3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MasterFilemap {
    /// The files, by full path.
    pub files: BTreeSet<PathBuf>,
}

impl MasterFilemap {
    /// Makes the list for `processes` processes that all keep their filemaps in `control_dir`.
    #[must_use]
    pub fn for_node(control_dir: &Path, processes: usize) -> Self {
        let path = |local_rank| control_dir.join(filemap_name(local_rank));
        MasterFilemap { files: (0..processes).map(path).collect() }
    }
}

impl Record for MasterFilemap {
    const KIND: &'static str = "the list of filemaps";

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        let list = tree.child_mut("Filemap");
        for path in &self.files {
            list.child_mut(path.display());
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let list = tree.get("Filemap").ok_or("no key Filemap")?;
        Ok(MasterFilemap { files: list.keys().map(PathBuf::from).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::RecordedState;

    fn record(id: &str, dataset_id: u64) -> DatasetRecord {
        DatasetRecord {
            key: RecordKey { series: "ckpt".into(), id: id.into(), generation: 0 },
            dataset_id,
            state: if dataset_id == 0 { RecordedState::Open } else { RecordedState::Prepared },
            ..DatasetRecord::default()
        }
    }

    #[test]
    fn an_id_given_twice_loses_nothing() {
        let mut map = Filemap::new();
        for (rank, id, dataset) in [(20, "a", 10), (20, "b", 10), (20, "c", 0), (28, "a", 10)] {
            map.insert(rank, record(id, dataset));
        }
        let tree = map.to_tree();
        assert!(tree.get_path(&["RANK", "20", "DSET", "10", "EXPECT"]).is_some());
        assert!(tree.get_path(&["RANK", "20", "OPEN", "scr.open.ckpt.b.0"]).is_some());
        assert_eq!(tree.child("DSET").child("10").child("RANK").len(), 2);
        assert_eq!(Filemap::from_tree(&tree), Ok(map));
    }

    #[test]
    fn queries_and_removal() {
        let mut map = Filemap::new();
        map.insert(20, record("a", 10));
        map.insert(20, record("b", 11));
        map.insert(28, record("b", 11));
        map.insert(28, record("c", 0));
        assert_eq!(map.dataset_ids(), [10, 11]);
        assert_eq!(map.ranks(), [20, 28]);
        assert_eq!(map.by_dataset(11).count(), 2);
        assert!(map.change(20, &record("a", 0).key, |record| record.expect = 5));
        assert_eq!(map.get_id(20, 10).map(|record| record.expect), Some(5));
        assert!(map.remove(28, &record("c", 0).key).is_some());
        assert_eq!((map.iter().count(), map.dataset_ids()), (3, vec![10, 11]));
    }
}
