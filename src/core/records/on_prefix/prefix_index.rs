//! The index file of a prefix: which datasets it holds (manual 1.1, section 9.1).
//!
//! ```text
//! VERSION / 2
//! BESIDE / 1                     (the prefix is still one of the C implementation)
//! CURRENT / <dir>                                        (the dataset to restart from)
//! RETURNED / <id>                (instead of CURRENT: the run went back to it, in the cache)
//! TURN / TO / <id>, FROM / <id>  (the last time that it went back: to which, and from the newest)
//! DIR  / <dir> / DSET / <id>                             (look-up by directory, for people)
//! DSET / <id> / DIR / <dir> / COMPLETE / 1
//!                           / FLUSHED / <time>
//!                           / FETCHED / <time> ...       (every attempt)
//!                           / FAILED  / <time> ...       (every failure)
//!                           / REFUSED / 1                (the program could not restart from it)
//!                           / REPLACED / <id>            (of the one that has its files' names)
//!                           / KEPT / 1                   (its files are in DIR/files; without
//!                                                        REPLACED: they are to get their names)
//!                           / ABANDONED / <id>           (of the first of another course)
//!                           / DATASET / <fields of Dataset>
//! ```
//!
//! Version 1 (manual 1.1) says CKPT instead of DSET and knows neither CURRENT, REPLACED nor
//! DATASET. The C implementation has other trees under that number
//! ([`crate::records::on_prefix::classic`]).
//! It has several writers: change it with [`crate::records::update`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::kvtree::KvTree;
use crate::records::IndexEntry;
use crate::records::on_prefix::classic;
use crate::records::record::{Record, datasets, number};

/// Version that is written; older ones are read.
const VERSION: u64 = 2;

/// A run went back to an older dataset: those between are of a course that it has left, whether the
/// prefix has them or only the cache. Those that come later have larger ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CourseTurn {
    /// Id of the older one.
    pub to: u64,
    /// The largest id that there was.
    pub from: u64,
}

impl CourseTurn {
    /// Tells whether the run has left dataset `id` behind.
    #[must_use]
    pub fn leaves(&self, id: u64) -> bool {
        self.to < id && id <= self.from
    }

    /// Makes a tree of the keys TO, FROM.
    #[must_use]
    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("TO", self.to);
        tree.set_value("FROM", self.from);
        tree
    }

    /// Reads what [`CourseTurn::to_tree`] makes; `None` if a field is missing or malformed.
    #[must_use]
    pub fn from_tree(tree: &KvTree) -> Option<Self> {
        Some(CourseTurn { to: tree.get_u64("TO")?, from: tree.get_u64("FROM")? })
    }
}

/// The datasets of a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixIndex {
    entries: BTreeMap<(u64, String), IndexEntry>,
    current: Option<String>,
    returned_to: Option<u64>,
    /// The last time that the run went back. What it left then stays so, whatever becomes current.
    pub turn: Option<CourseTurn>,
    /// By series, what only caches had when somebody had removed older ones from the prefix: it is
    /// not offered any more.
    pub removed: BTreeMap<String, CourseTurn>,
    /// The file of this name is one of the C implementation: ours lies beside it.
    pub is_beside: bool,
}

impl PrefixIndex {
    /// File name in the prefix's `.scr` directory.
    pub const NAME: &'static str = classic::INDEX_NAME;

    /// Adds an entry; replaces that of the same id and directory.
    pub fn insert(&mut self, entry: IndexEntry) {
        self.entries.insert((entry.id, entry.dir.clone()), entry);
    }

    /// Finds the entry of a directory; the newest one, should a directory hold several datasets.
    #[must_use]
    pub fn by_dir(&self, dir: &str) -> Option<&IndexEntry> {
        self.newest_first().find(|entry| entry.dir == dir)
    }

    /// Finds the entry of a dataset; the last directory by name, should several hold it.
    #[must_use]
    pub fn by_id(&self, id: u64) -> Option<&IndexEntry> {
        self.newest_first().find(|entry| entry.id == id)
    }

    /// Finds the entry of a dataset, to be changed. Its id and directory must stay.
    pub fn by_id_mut(&mut self, id: u64) -> Option<&mut IndexEntry> {
        self.entries.values_mut().rev().find(|entry| entry.id == id)
    }

    /// Notes that the program is to restart from the dataset, whatever it has said before.
    pub fn accept(&mut self, id: u64) {
        if let Some(entry) = self.by_id_mut(id) {
            entry.refused = false;
        }
    }

    /// Removes a dataset with all its copies. If it was current, nothing is.
    pub fn remove(&mut self, id: u64) {
        let current_goes = self.current_entry().is_some_and(|entry| entry.id == id);
        self.entries.retain(|(of, _), _| *of != id);
        if current_goes {
            self.current = None;
        }
    }

    /// Returns all entries, highest id first.
    pub fn newest_first(&self) -> impl Iterator<Item = &IndexEntry> {
        self.entries.values().rev()
    }

    /// Returns the directory that a restart begins with.
    #[must_use]
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// Returns the entry that a restart begins with.
    #[must_use]
    pub fn current_entry(&self) -> Option<&IndexEntry> {
        self.current().and_then(|dir| self.by_dir(dir))
    }

    /// Makes a directory the one to restart from; `false` if no entry has it. What led to it is of
    /// its course again.
    pub fn set_current(&mut self, dir: &str) -> bool {
        let Some(id) = self.by_dir(dir).map(|entry| entry.id) else { return false };
        self.current = Some(dir.to_owned());
        self.returned_to = None;
        for entry in self.entries.values_mut().filter(|entry| entry.id <= id) {
            entry.abandoned_by = entry.abandoned_by.filter(|by| *by <= id);
        }
        true
    }

    /// Notes that `id`, which comes next, follows the current one: checkpoints between the two are
    /// of a course that the run has left. Output is what it is in any course.
    pub fn abandon_before(&mut self, id: u64) {
        let current = self.current_entry().map(|entry| entry.id).or(self.returned_to);
        let Some(current) = current else { return };
        let restarts = |entry: &IndexEntry| {
            let dataset = entry.dataset.as_ref();
            dataset.is_some_and(|dataset| dataset.checkpoint_id.is_some() || !dataset.is_output)
        };
        for entry in self.entries.values_mut().filter(|entry| restarts(entry)) {
            if current < entry.id && entry.id < id && entry.abandoned_by.is_none() {
                entry.abandoned_by = Some(id);
            }
        }
    }

    /// Notes that the run has gone back to dataset `id`, which is not here: nothing is current, and
    /// what comes next follows that one.
    pub fn return_to(&mut self, id: u64) {
        self.current = None;
        self.returned_to = Some(id);
    }

    /// Returns the dataset of [`PrefixIndex::return_to`]; `None` as soon as something is current.
    #[must_use]
    pub fn returned_to(&self) -> Option<u64> {
        self.returned_to
    }

    /// Notes that no dataset is current: a restart begins with the newest.
    pub fn clear_current(&mut self) {
        self.current = None;
    }

    /// Takes over the index of the C implementation, which stays where it is.
    fn of_theirs(theirs: classic::TheirIndex) -> PrefixIndex {
        let mut index = PrefixIndex { is_beside: true, ..PrefixIndex::default() };
        theirs.entries.into_iter().for_each(|entry| index.insert(entry));
        let is = |entry: &&IndexEntry| {
            let name = entry.dataset.as_ref().map(|dataset| &dataset.name);
            name.is_some() && name == theirs.current.as_ref()
        };
        let dir = index.newest_first().find(is).map(|entry| entry.dir.clone());
        if let Some(dir) = dir {
            index.set_current(&dir);
        }
        index
    }
}

impl Record for PrefixIndex {
    const KIND: &'static str = "the index";

    fn place(path: &Path) -> PathBuf {
        classic::index_place(path)
    }

    fn write(&self, path: &Path) -> crate::error::Result<()> {
        let beside = self.is_beside.then(|| classic::beside(path));
        self.to_tree().write_file(beside.as_deref().unwrap_or(path))
    }

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("VERSION", VERSION);
        tree.set_flag("BESIDE", self.is_beside);
        if let Some(dir) = &self.current {
            tree.set_value("CURRENT", dir);
        }
        if let Some(id) = self.returned_to {
            tree.set_value("RETURNED", id);
        }
        if let Some(turn) = self.turn {
            tree.set("TURN", turn.to_tree());
        }
        for (series, turn) in &self.removed {
            tree.child_mut("REMOVED").set(series, turn.to_tree());
        }
        for ((id, dir), entry) in &self.entries {
            tree.set_kv("DIR", dir).set_kv("DSET", id);
            tree.set_kv("DSET", id).child_mut("DIR").set(dir, entry.to_tree());
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let version = tree.get_u64("VERSION").ok_or("no VERSION")?;
        if version > VERSION {
            return Err(format!(
                "it has version {version}, written by a newer SCR; this one knows {VERSION}"
            ));
        }
        if let Some(theirs) = classic::index_of(tree) {
            return Ok(PrefixIndex::of_theirs(theirs?));
        }
        let mut index =
            PrefixIndex { is_beside: tree.get_flag("BESIDE"), ..PrefixIndex::default() };
        for (id, copies) in datasets(tree) {
            let id = number(id, "a dataset id")?;
            for (dir, fields) in copies.child("DIR") {
                index.insert(IndexEntry::from_tree(id, dir, fields)?);
            }
        }
        index.returned_to = tree.get_u64("RETURNED");
        index.turn = CourseTurn::from_tree(tree.child("TURN"));
        let removed = tree.child("REMOVED").iter();
        index.removed = removed
            .filter_map(|(series, turn)| Some((series.to_owned(), CourseTurn::from_tree(turn)?)))
            .collect();
        // A current directory that was removed behind our back is as good as none.
        if let Some(dir) = tree.get_value("CURRENT") {
            index.set_current(dir);
        }
        Ok(index)
    }
}
