//! What one rank knows of its own files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::keys::{DatasetKey, FileRef};
use super::knowledge::{Why, kind_hash, name_hash, set_hash};
use super::reason::Reason;
use super::report::SeriesReport;

/// How far a dataset is, from this rank's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Open,
    Provisional,
    Confirmed,
    Dropped,
}

/// What the program has said of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Explicit {
    /// It is output, whether it is a checkpoint or not.
    pub output: bool,
    /// All its files are written.
    pub complete: bool,
}

/// How a file of a dataset without id was begun, as far as learning needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    /// Not cut short: the program changes it in place at each checkpoint.
    InPlace,
    /// Made anew, as it may be at each checkpoint.
    Anew,
    /// Made anew, and changed in place after a sync point. If the program makes it anew the next
    /// time, too, that was the rest of a checkpoint.
    GoesOn,
}

/// How often a file was appended to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Appends {
    /// Its size when it was opened to be changed; `None` if it is not, or was unknown.
    pub size: Option<u64>,
    /// Checkpoints that had begun at the last append.
    pub begun: u64,
    /// Sync points passed at the last append.
    pub last: u64,
    /// Appends since then, each after another sync point.
    pub times: u32,
    /// All that no checkpoint explains.
    pub unexplained: u32,
}

/// Datasets that have left and whose generation is remembered: more than one conference evicts.
const EVICTED_MAX: usize = 64;

/// Whether the PFS has a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Published {
    No,
    /// A thread brings it, in its turn.
    Coming,
    There,
}

/// How far this rank's part of a dataset is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
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

/// A file of a dataset on this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocalFile {
    pub masked: u64,
    /// See [`kind_hash`].
    pub kind: u64,
    /// The name carries no id.
    pub bare: bool,
    /// Opens for writing that are not closed.
    pub open: u32,
    /// Checkpoints of the series that had begun when it was opened.
    pub open_since: u64,
    /// Why the PFS has it, and not the cache: what the program writes to it goes there.
    pub on_prefix: Option<Reason>,
    /// All the same, its dataset has the content that was sealed, in the cache.
    pub keeps_copy: bool,
    /// See [`FileRef::temporary`].
    pub temporary: bool,
    /// The program deleted it; a sealed dataset keeps it nonetheless.
    pub deleted: bool,
    /// It did so before an agreement could come for it; the PFS is to see both, in due time.
    pub deleted_early: bool,
    /// It was moved on the PFS, to another name: nothing of it is to come back under this one.
    pub moved: bool,
    /// Size at the last close.
    pub bytes: u64,
    pub closed_ms: u64,
    /// The first sync point after the last close; `None` before the first close.
    pub closed_before: Option<u64>,
    /// Whether the PFS has a copy of its present content, but for a flush of all ranks.
    pub published: Published,
    /// Another rank of the node has deleted it since it was written.
    pub outlived: bool,
    /// Another rank of the node answers for it.
    pub joined: bool,
    pub begun: Begun,
}

impl LocalFile {
    /// Tells whether it was written, and a sync point (of `count`) has been passed since.
    pub fn is_past(&self, count: u64) -> bool {
        self.open == 0 && self.bytes > 0 && self.closed_before.is_some_and(|sync| sync <= count)
    }

    /// Notes that another one writes it on the PFS from now on; the sealed dataset has what it had.
    pub fn share(&mut self) {
        self.keeps_copy |= self.on_prefix.is_none();
        (self.on_prefix, self.moved) = (Some(Reason::Shared), true);
    }

    /// Tells whether it is closed, and its directory has not got its final name yet.
    pub fn is_waiting(&self) -> bool {
        self.temporary && self.open == 0 && !self.deleted
    }
}

/// This rank's part of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocalDataset {
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
    /// It is being encoded beside the program.
    pub encoding: Option<super::encoding::Encoding>,
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
    /// See [`DatasetReport::replaced`](super::report::DatasetReport::replaced).
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
            encoding: None,
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
        self.files.values().map(|file| file.masked).collect()
    }

    pub fn set(&self) -> u64 {
        set_hash(&self.names())
    }

    /// Tells whether the file is in it for the program's eyes.
    pub fn holds(&self, name: &str) -> bool {
        self.files.get(name).is_some_and(|file| !file.deleted)
    }

    /// Tells whether the file has come since the last seal.
    pub fn is_added(&self, name: &str) -> bool {
        let closed_before = self.files.get(name).and_then(|file| file.closed_before);
        self.sealed_at.is_some_and(|sealed_at| closed_before > Some(sealed_at))
    }

    /// Notes that what is being encoded is no longer what the dataset is.
    pub fn spoil(&mut self) {
        if let Some(encoding) = &mut self.encoding {
            encoding.spoiled = true;
        }
    }

    pub fn touch(&mut self, now_ms: u64) {
        self.touched = true;
        self.touched_ms = now_ms;
        self.changed_ms = now_ms;
        self.spoil();
    }

    /// Notes one more open of `file`, when so many checkpoints of the series have `begun`.
    pub fn open_file(&mut self, file: &FileRef, on_prefix: Option<Reason>, begun: u64) {
        let entry = self.files.entry(file.name.clone()).or_insert_with(|| LocalFile {
            masked: name_hash(&file.masked),
            kind: kind_hash(&file.masked),
            bare: file.masked == file.name,
            open: 0,
            open_since: 0,
            on_prefix,
            keeps_copy: false,
            temporary: file.temporary,
            deleted: false,
            deleted_early: false,
            moved: false,
            bytes: 0,
            closed_ms: 0,
            closed_before: None,
            published: Published::No,
            outlived: false,
            joined: false,
            begun: Begun::InPlace,
        });
        if entry.open == 0 {
            entry.open_since = begun;
        }
        entry.open += 1;
        entry.deleted = false;
        entry.deleted_early = false;
        entry.moved = false;
        self.abandoned.remove(&file.name);
        self.refused.remove(&file.name);
        (entry.published, entry.outlived) = (Published::No, false);
        (entry.on_prefix, entry.keeps_copy) = (on_prefix, false);
        entry.joined = false;
    }
}

/// A deletion by the program that is not real yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tombstone {
    pub name: String,
    /// It becomes real when a dataset with an id above this one is confirmed.
    pub above: u64,
    /// The newest dataset that has the file; it must be older than the confirmed one, too.
    pub holder: Option<DatasetKey>,
    /// When no agreement was in sight, and the newer dataset not known to be on the PFS.
    pub early_ms: Option<u64>,
}

/// A series on this rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LocalSeries {
    /// [`set_hash`] of the last confirmed dataset's names here.
    pub known: Option<u64>,
    /// In order of their begin.
    pub datasets: Vec<LocalDataset>,
    pub tombstones: Vec<Tombstone>,
    /// Files of this rank that another rank deleted, and that were not written again since.
    pub deleted_elsewhere: BTreeSet<String>,
    /// Files that another rank of the node has made, as this one was told when it happened.
    pub made_near: BTreeSet<String>,
    pub last_begin_ms: Option<u64>,
    /// Findings since the last report.
    pub news: SeriesReport,
    /// Names of files that this rank wrote together with another one of its node since the last
    /// report; `true`: without id.
    pub joined: BTreeMap<u64, bool>,
    /// Names that this rank wrote while learning, or that were new, since the last confirmation.
    pub written: BTreeSet<u64>,
    pub temporaries: Vec<String>,
    /// The file of this rank for which no file of the series is cached.
    pub marked: Option<String>,
    /// Kinds of names ([`kind_hash`]) written in confirmed datasets.
    pub kinds: BTreeSet<u64>,
    pub sizes: BTreeMap<u64, u64>,
    /// Checkpoints that are known to have begun in this launch, on any rank.
    pub begun: u64,
    /// Files that are appended to, by name.
    pub appends: BTreeMap<String, Appends>,
    /// Templates ([`name_hash`]) of files that are never quiet, and belong to no dataset.
    pub silenced: BTreeSet<u64>,
    /// Floating datasets so far, so that their directories differ.
    pub floating: u64,
    /// Datasets that only the PFS has, by their captured id: the newest number.
    pub left: BTreeMap<String, u64>,
    /// Without ids: names ([`name_hash`]) that a checkpoint begins with, if the first one did not
    /// have them.
    pub leaders: BTreeSet<u64>,
    /// Ids and generations that left last.
    pub evicted: VecDeque<(String, u64)>,
    /// When something of it was overdue first; `None` again after an agreement.
    pub unreachable_ms: Option<u64>,
    /// When files in cache were closed for the first time since the last agreement, by name: what
    /// is written anew all the time would never be overdue by its last close.
    pub unheard: BTreeMap<String, u64>,
}

impl LocalSeries {
    pub fn find(&self, key: &DatasetKey) -> Option<&LocalDataset> {
        self.datasets.iter().find(|dataset| dataset.key == *key)
    }

    pub fn find_mut(&mut self, key: &DatasetKey) -> Option<&mut LocalDataset> {
        self.datasets.iter_mut().find(|dataset| dataset.key == *key)
    }

    /// Returns the dataset's entry, made if need be.
    pub fn entry(&mut self, key: &DatasetKey, now_ms: u64) -> &mut LocalDataset {
        let at = match self.datasets.iter().position(|dataset| dataset.key == *key) {
            Some(at) => at,
            None => {
                self.datasets.push(LocalDataset::new(key.clone(), now_ms));
                self.datasets.len() - 1
            }
        };
        &mut self.datasets[at]
    }

    /// Tells why new files of the name stay on the PFS, if this rank has just found that they do.
    pub fn mark_of(&self, name: u64) -> Option<Why> {
        self.news.unsafe_names.iter().find(|mark| mark.name == name).map(|mark| mark.why)
    }

    /// Notes that only the PFS has the dataset of the captured `id`.
    pub fn note_left(&mut self, id: &str, number: u64) {
        let newest = self.left.entry(id.to_string()).or_default();
        *newest = number.max(*newest);
    }

    /// Notes that a dataset leaves. A thread of the program may write its id again on one rank
    /// before that, on another one after it: both must mean the same generation, or there would be
    /// two checkpoints with a part of the files each.
    pub fn note_evicted(&mut self, key: &DatasetKey) {
        self.evicted.truncate(EVICTED_MAX - 1);
        self.evicted.push_front((key.id.clone(), key.generation));
    }

    /// Returns the generation of `id` that comes after what has left.
    pub fn after_evicted(&self, id: &str) -> u64 {
        let same = self.evicted.iter().filter(|(evicted, _)| evicted == id);
        same.map(|(_, generation)| generation + 1).max().unwrap_or(0)
    }

    /// Leaves the file to another rank of the node from now on, if that one answered for it while
    /// it was open.
    pub fn leave_joined(&mut self, key: &DatasetKey, name: &str) {
        if let Some(dataset) = self.find_mut(key)
            && dataset.files.get(name).is_some_and(|file| file.joined && file.open == 0)
        {
            dataset.files.remove(name);
        }
    }

    /// Notes that the PFS has the file under another name.
    pub fn note_moved(&mut self, name: &str) {
        let held = self.datasets.iter_mut().filter_map(|dataset| dataset.files.get_mut(name));
        held.for_each(|file| file.moved = true);
    }

    /// Notes the time since the dataset before.
    pub fn note_begin(&mut self, key: &DatasetKey, now_ms: u64) {
        if key.generation > 0 && !key.id.is_empty() {
            return;
        }
        if let Some(last_ms) = self.last_begin_ms {
            self.news.interval_ms = now_ms.saturating_sub(last_ms);
        }
        self.last_begin_ms = Some(now_ms);
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
