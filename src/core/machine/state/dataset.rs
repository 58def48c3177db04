//! This rank's part of a dataset.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{Deleted, LocalFile, NameFacts, OnPfs};
use crate::machine::terms::keys::{DatasetKey, FileRef};
use crate::machine::terms::names::set_hash;
use crate::machine::terms::reason::Reason;

/// How far a dataset is, from this rank's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Open,
    Provisional,
    Confirmed,
    Dropped,
}

/// What the program has said of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explicit {
    /// It is output, whether it is a checkpoint or not.
    pub output: bool,
    /// All its files are written.
    pub complete: bool,
}

/// How far this rank's part of a dataset is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Being written, known to be in progress elsewhere, or amended.
    Open,
    /// This rank voted for its seal. `confirms`: a write from now on belongs to the next
    /// generation, since the others may already count it as complete.
    Voted {
        /// The seal confirms too.
        confirms: bool,
    },
    /// Sealed; whether it is confirmed is shared state.
    Sealed,
    /// Sealed, and this rank voted to confirm it.
    Locked,
    /// Invalid, or rejected at the restart.
    Dropped,
}

/// This rank's part of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalDataset {
    pub key: DatasetKey,
    /// This rank has written to it, so it has a durable record.
    pub begun: bool,
    pub begun_ms: u64,
    /// Counts what this rank has begun, of all series; 0: it has not begun it in this launch.
    pub order: u64,
    pub phase: Phase,
    /// The durable record says Prepared.
    pub prepared: bool,
    /// The sync point of its last seal in this launch.
    pub sealed_at: Option<u64>,
    /// Counts changes by the program since it is known: what was encoded before the last is of no
    /// use.
    pub changes: u64,
    /// Written to since the last report.
    pub touched: bool,
    pub touched_ms: u64,
    /// When the program last did something to a file of it.
    pub changed_ms: u64,
    pub files: BTreeMap<String, LocalFile>,
    pub invalid: Option<String>,
    /// Files that could not be opened for writing, not even on the PFS, and why: without them the
    /// dataset is not whole. An open that succeeds after all makes good for it.
    pub refused: BTreeMap<String, String>,
    /// See [`DatasetReport::replaced`](crate::machine::DatasetReport::replaced).
    pub replaced: Vec<(String, u64)>,
    /// Files that the program deleted for real after a sync point, and did not write again: what is
    /// left may be an unfinished checkpoint that it gave up.
    pub abandoned: BTreeSet<String>,
    /// Begun since this rank had voted to confirm the generation before; that vote came to nothing,
    /// so the files belong there.
    pub returns: bool,
    /// The program says when it begins and when it is complete.
    pub explicit: Option<Explicit>,
}

impl LocalDataset {
    pub fn new(key: DatasetKey, now_ms: u64) -> Self {
        LocalDataset {
            key,
            begun: false,
            begun_ms: 0,
            order: 0,
            phase: Phase::Open,
            prepared: false,
            sealed_at: None,
            changes: 0,
            touched: false,
            touched_ms: now_ms,
            changed_ms: now_ms,
            files: BTreeMap::new(),
            invalid: None,
            refused: BTreeMap::new(),
            replaced: Vec::new(),
            abandoned: BTreeSet::new(),
            returns: false,
            explicit: None,
        }
    }

    /// Tells whether the program has begun it, and it is a checkpoint of its own.
    pub fn is_successor(&self) -> bool {
        self.begun && !self.returns
    }

    /// Opens that are not closed. A file whose directory is to be renamed is not done before, nor
    /// is a dataset of which the program has not said so.
    pub fn open_files(&self) -> u32 {
        let waits = |file: &LocalFile| u32::from(file.is_waiting());
        let goes_on = self.explicit.is_some_and(|explicit| !explicit.complete);
        self.files.values().map(|file| file.open + waits(file)).sum::<u32>() + u32::from(goes_on)
    }

    /// Tells why it cannot count as a checkpoint; `None` if it can.
    pub fn why_invalid(&self) -> Option<&String> {
        self.invalid.as_ref().or_else(|| self.refused.values().next())
    }

    /// Hashes of the names in it; those that the program deleted since it was complete count.
    pub fn names(&self) -> BTreeSet<u64> {
        self.files.values().map(|file| file.named.masked).collect()
    }

    pub fn set(&self) -> u64 {
        set_hash(&self.names())
    }

    /// Tells whether the file is in it for the program's eyes.
    pub fn holds(&self, name: &str) -> bool {
        self.files.get(name).is_some_and(|file| !file.is_deleted())
    }

    /// Tells whether the file has come since the last seal.
    pub fn is_added(&self, name: &str) -> bool {
        let closed_before = self.files.get(name).and_then(|file| file.closed_before);
        self.sealed_at.is_some_and(|sealed_at| closed_before > Some(sealed_at))
    }

    /// Notes that it is no longer what it was.
    pub fn spoil(&mut self) {
        self.changes += 1;
    }

    pub fn touch(&mut self, now_ms: u64) {
        self.touched = true;
        self.touched_ms = now_ms;
        self.changed_ms = now_ms;
        self.spoil();
    }

    /// Notes one more open of `file`, when so many checkpoints of the series have `begun`.
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
        self.abandoned.remove(&file.name);
        self.refused.remove(&file.name);
        (entry.published, entry.outlived) = (OnPfs::No, false);
        (entry.on_prefix, entry.keeps_copy) = (on_prefix, false);
        entry.joined = false;
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
