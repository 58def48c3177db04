//! This rank's part of a dataset.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{Begun, Deleted, LocalFile, NameFacts, OnPfs};
use crate::machine::terms::{DatasetKey, FileRef, Reason, set_hash};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Open,
    Provisional,
    Confirmed,
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explicit {
    /// It is output, whether it is a checkpoint or not.
    pub output: bool,
    pub complete: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Being written, known to be in progress elsewhere, or amended.
    #[default]
    Open,
    /// This rank voted for its seal. If that `confirms`, a write from now on belongs to the next
    /// generation, since the others may already count this one as complete.
    Voted { confirms: bool },
    /// Whether it is confirmed is shared state.
    Sealed,
    /// Sealed, and this rank voted to confirm it.
    Locked,
    /// Invalid, or rejected at the restart.
    Dropped,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalDataset {
    pub key: DatasetKey,
    /// This rank has written to it, so it has a durable record.
    pub begun: bool,
    pub begun_ms: u64,
    /// Counts what this rank has begun, of all series; 0: not begun in this launch.
    pub order: u64,
    pub phase: Phase,
    pub prepared: bool,
    /// The sync point of its last seal in this launch.
    pub sealed_at: Option<u64>,
    /// Counts changes by the program: what was encoded before the last is of no use.
    pub changes: u64,
    pub touched: bool,
    pub touched_ms: u64,
    /// When the program last did something to a file of it.
    pub changed_ms: u64,
    pub files: BTreeMap<String, LocalFile>,
    /// Files that this rank wrote, and no longer answers for: another rank does, or, without ids,
    /// the program has deleted or renamed them.
    pub left: BTreeMap<String, LocalFile>,
    pub invalid: Option<String>,
    /// Files that could not be opened for writing, not even on the PFS, and why. An open that
    /// succeeds after all makes good for it.
    pub refused: BTreeMap<String, String>,
    pub replaced: Vec<(String, u64)>,
    /// Files that the program deleted for real after a sync point, and did not write again: what is
    /// left may be an unfinished checkpoint that it gave up.
    pub abandoned: BTreeSet<String>,
    pub returns: bool,
    pub explicit: Option<Explicit>,
}

impl LocalDataset {
    pub fn new(key: DatasetKey, now_ms: u64) -> Self {
        LocalDataset { key, touched_ms: now_ms, changed_ms: now_ms, ..LocalDataset::default() }
    }

    pub fn is_successor(&self) -> bool {
        self.begun && !self.returns
    }

    /// Leaves the file to another rank, which answers for it.
    pub fn leave(&mut self, name: &str) {
        self.left.extend(self.files.remove_entry(name));
    }

    /// Opens that are not closed. A file whose directory is to be renamed counts as open, and so
    /// does a dataset until the program says that it is complete.
    pub fn open_files(&self) -> u32 {
        let waits = |file: &LocalFile| u32::from(file.is_waiting());
        let goes_on = self.explicit.is_some_and(|explicit| !explicit.complete);
        self.files.values().map(|file| file.open + waits(file)).sum::<u32>() + u32::from(goes_on)
    }

    pub fn why_invalid(&self) -> Option<&String> {
        self.invalid.as_ref().or_else(|| self.refused.values().next())
    }

    /// Includes names that the program deleted since the dataset was complete.
    pub fn names(&self) -> BTreeSet<u64> {
        self.files.values().map(|file| file.named.masked).collect()
    }

    pub fn set(&self) -> u64 {
        set_hash(&self.names())
    }

    pub fn holds(&self, name: &str) -> bool {
        self.files.get(name).is_some_and(|file| !file.is_deleted())
    }

    /// Tells whether the file has come since the last seal.
    pub fn is_added(&self, name: &str) -> bool {
        let closed_before = self.files.get(name).and_then(|file| file.closed_before);
        self.sealed_at.is_some_and(|sealed_at| closed_before > Some(sealed_at))
    }

    pub fn touch(&mut self, now_ms: u64) {
        self.touched = true;
        self.touched_ms = now_ms;
        self.changed_ms = now_ms;
        self.changes += 1;
    }

    /// Opens `file` once more; so many checkpoints of the series have `begun`.
    pub fn open_file(&mut self, file: &FileRef, on_prefix: Option<Reason>, begun: u64) {
        let named = NameFacts::of(&file.name, &file.masked, file.temporary);
        let new = || LocalFile::new(named, on_prefix);
        let entry = self.files.entry(file.name.clone()).or_insert_with(new);
        if entry.open == 0 {
            entry.open_since = begun;
        }
        entry.open += 1;
        entry.deleted = Deleted::No;
        entry.moved = false;
        self.left.remove(&file.name);
        self.abandoned.remove(&file.name);
        self.refused.remove(&file.name);
        (entry.published, entry.outlived) = (OnPfs::No, false);
        (entry.on_prefix, entry.keeps_copy) = (on_prefix, false);
        entry.joined = false;
        if entry.begun == Begun::Made {
            entry.begun = Begun::InPlace;
        }
    }

    pub fn is_unsealed(&self) -> bool {
        self.phase == Phase::Open && self.begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_file_spoils_the_dataset_until_it_is_opened_after_all() {
        let mut dataset = LocalDataset::new(DatasetKey::new(0, "5", 0), 0);
        let file = |name: &str| FileRef {
            series: 0,
            id: Some("5".into()),
            name: name.into(),
            masked: name.into(),
            temporary: false,
        };
        dataset.refused.insert("a".into(), "no".into());
        dataset.open_file(&file("b"), None, 0);
        assert_eq!(dataset.why_invalid().map(String::as_str), Some("no"));
        dataset.open_file(&file("a"), Some(Reason::NoRoom), 0);
        assert_eq!(dataset.why_invalid(), None);
    }
}
