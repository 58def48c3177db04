//! This rank's filemap in the control directory (manual 1.1, sections 4.2 and 9.3).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk::names_in;
use super::layout::{Layout, store_of};
use super::names::{LAUNCH, is_filemap_name};
use super::owner::note_parts;
use crate::error::{Error, Result, again};
use crate::kvtree::KvTree;
use crate::records::{
    DatasetRecord, FileMeta, Filemap, MASTER_FILEMAP, Record, RecordKey, RecordedState,
    filemap_name,
};

pub type Held = (usize, DatasetRecord);

/// The durable records of one rank: of its own files, and, after a restart on other nodes, of files
/// of ranks that run elsewhere now. Every change is on disk when the call returns (except by
/// `forget` and [`FilemapFile::note_open`]); if it fails, the old state holds, in memory too.
#[derive(Debug)]
pub struct FilemapFile {
    path: PathBuf,
    layout: Layout,
    rank: usize,
    held: Mutex<Vec<Held>>,
    /// What of `held` is in memory alone; changed while that is locked.
    begun: AtomicU8,
    /// The launch file says that records have parts.
    parts_noted: AtomicBool,
}

const WRITTEN: u8 = 0;
const BEGUN: u8 = 1;
/// A dataset had begun when the thread last asked, and nothing of it was written.
const WAITS: u8 = 2;

impl FilemapFile {
    /// Reads nothing: [`crate::cache::rebuild()`] takes over what an earlier launch left.
    pub fn new(layout: &Layout, local_rank: usize, world_rank: usize) -> Self {
        FilemapFile {
            path: layout.control_dir.join(filemap_name(local_rank)),
            layout: layout.clone(),
            rank: world_rank,
            held: Mutex::default(),
            begun: AtomicU8::new(WRITTEN),
            parts_noted: AtomicBool::new(false),
        }
    }

    /// Notes that the first file of a dataset is about to be opened in `store`, in memory alone
    /// until [`FilemapFile::write_begun`]: the record of a checkpoint that is sealed soon is
    /// written once. After a kill it may be as if the dataset had not begun on this rank.
    pub fn note_open(&self, key: &RecordKey, store: &str) {
        let mut held = self.lock();
        if !held.iter().any(|(owner, record)| *owner == self.rank && record.key == *key) {
            put(self.rank, self.own(self.open_record(key, store)))(&mut held);
            self.begun.store(BEGUN, Ordering::Relaxed);
        }
    }

    /// Writes the records of [`FilemapFile::note_open`] that were there, unwritten, at the last
    /// call. To be called now and then; a call after an error tries again. After a power cut it may
    /// be as if they had not begun: the seal makes a record's name durable.
    pub fn write_begun(&self) -> Result<()> {
        let held = self.lock();
        if self.begun.load(Ordering::Relaxed) == BEGUN {
            self.begun.store(WAITS, Ordering::Relaxed);
            return Ok(());
        }
        drop(held);
        match self.begun.load(Ordering::Relaxed) {
            WAITS => self.change_by(|_| {}, |map| self.replace(map)),
            _ => Ok(()),
        }
    }

    /// Writes them at once.
    pub fn write_begun_now(&self) -> Result<()> {
        let _ = self.begun.compare_exchange(BEGUN, WAITS, Ordering::Relaxed, Ordering::Relaxed);
        self.write_begun()
    }

    fn open_record(&self, key: &RecordKey, store: &str) -> DatasetRecord {
        let mut record = DatasetRecord {
            key: key.clone(),
            dir: self.layout.open_dir(store, key),
            ..DatasetRecord::default()
        };
        record.descriptor.set_value("STORE", store);
        record
    }

    /// Notes that all files of this rank's part are durable. The record is durable only with the
    /// next sync of the control directory, which one rank makes for its node.
    pub fn record_prepared(&self, record: DatasetRecord) -> Result<()> {
        debug_assert_eq!(record.state, RecordedState::Prepared);
        self.put_unnamed(record)
    }

    /// Takes the record of `key` back to Open before the program writes to a file of a sealed but
    /// unconfirmed dataset.
    pub fn revoke(&self, key: &RecordKey) -> Result<()> {
        match self.get(key) {
            Some(mut record) if record.state == RecordedState::Prepared => {
                record.state = RecordedState::Open;
                self.put_held(self.rank, record)
            }
            _ => Ok(()),
        }
    }

    /// Notes that the prefix has the last word on this rank's file `name` of the dataset.
    pub fn leave(&self, key: &RecordKey, name: &str) -> Result<()> {
        match self.get(key) {
            Some(record) if record.files.iter().any(|file| file.name == name) => {
                self.note_left(key, name)
            }
            _ => Ok(()),
        }
    }

    /// Does what [`FilemapFile::leave`] does, also for a file of another rank: what one record says
    /// holds for all.
    pub fn note_left(&self, key: &RecordKey, name: &str) -> Result<()> {
        match self.get(key) {
            Some(mut record) => match record.left.insert(name.to_owned()) {
                true => self.put_held(self.rank, record),
                false => Ok(()),
            },
            None => Ok(()),
        }
    }

    pub(crate) fn note_gone(&self, key: &RecordKey, gone: BTreeMap<String, u64>) -> Result<()> {
        let knows = |record: DatasetRecord| {
            gone.iter().all(|(name, time)| record.gone.get(name) == Some(time))
        };
        if self.get(key).is_none_or(knows) {
            return Ok(());
        }
        self.edit_own(|record| record.key == *key, |record| record.gone.extend(gone))
    }

    /// Changes this rank's record, if it is still that of the same seal.
    pub(crate) fn amend(
        &self,
        sealed: &DatasetRecord,
        edit: impl FnOnce(&mut DatasetRecord),
    ) -> Result<()> {
        if !self.is_sealed(sealed) {
            return Ok(());
        }
        self.edit_own(|record| is_same_seal(record, sealed), edit)
    }

    /// Another thread may have changed the record.
    fn edit_own(
        &self,
        wanted: impl Fn(&DatasetRecord) -> bool,
        edit: impl FnOnce(&mut DatasetRecord),
    ) -> Result<()> {
        self.change(|held| {
            let is_it = |(owner, record): &&mut Held| *owner == self.rank && wanted(record);
            if let Some((_, record)) = held.iter_mut().find(is_it) {
                edit(record);
            }
        })
    }

    pub(crate) fn is_sealed(&self, sealed: &DatasetRecord) -> bool {
        self.find(|record| is_same_seal(record, sealed)).is_some()
    }

    /// Forgets this rank's record of `key`; its data is gone already.
    pub fn remove(&self, key: &RecordKey) -> Result<()> {
        self.remove_held(&[(self.rank, key.clone())])
    }

    /// Returns this rank's record of `key`.
    pub fn get(&self, key: &RecordKey) -> Option<DatasetRecord> {
        self.find(|record| record.key == *key)
    }

    /// Returns this rank's record of dataset `id`.
    pub fn get_id(&self, id: u64) -> Option<DatasetRecord> {
        self.find(|record| record.dataset_id == id)
    }

    pub(crate) fn records(&self) -> Vec<DatasetRecord> {
        let held = self.lock();
        let own = held.iter().filter(|(owner, _)| *owner == self.rank);
        own.map(|(_, record)| record.clone()).collect()
    }

    /// Finds the newest of this rank's records that are `wanted`.
    pub(crate) fn find(&self, wanted: impl Fn(&DatasetRecord) -> bool) -> Option<DatasetRecord> {
        let held = self.lock();
        let found = held.iter().filter(|(owner, record)| *owner == self.rank && wanted(record));
        found.max_by_key(|(_, record)| record.dataset_id).map(|(_, record)| record.clone())
    }

    pub(crate) fn held(&self) -> Vec<Held> {
        self.lock().clone()
    }

    pub(crate) fn put_held(&self, owner: usize, record: DatasetRecord) -> Result<()> {
        self.change(put(owner, self.own(record)))
    }

    fn own(&self, mut record: DatasetRecord) -> DatasetRecord {
        record.prefix = record.prefix.or_else(|| self.layout.owner.identity().cloned());
        record
    }

    fn put_unnamed(&self, record: DatasetRecord) -> Result<()> {
        self.change_by(put(self.rank, self.own(record)), |map| self.replace(map))
    }

    fn replace(&self, map: &Filemap) -> Result<()> {
        map.to_tree().replace_file(&self.path)
    }

    /// Forgets records whose data is gone. One that a newer dataset of its series outdates goes
    /// from the file with the next change, which saves a write for each checkpoint: the next start
    /// knows it by the newer one ([`crate::cache::restart::decide`]).
    pub(crate) fn forget(&self, gone: &[(usize, RecordKey)]) -> Result<()> {
        let mut held = self.lock();
        let is_gone = |entry: &Held| gone.contains(&(entry.0, entry.1.key.clone()));
        let outdated = |entry: &Held| {
            let newer = |other: &DatasetRecord| {
                other.state == RecordedState::Prepared
                    && other.key.series == entry.1.key.series
                    && other.dataset_id > entry.1.dataset_id
            };
            held.iter().any(|other| !is_gone(other) && newer(&other.1))
        };
        if held.iter().filter(|entry| is_gone(entry)).all(outdated) {
            held.retain(|entry| !is_gone(entry));
            return Ok(());
        }
        drop(held);
        self.remove_held(gone)
    }

    pub(crate) fn remove_held(&self, gone: &[(usize, RecordKey)]) -> Result<()> {
        let is_gone =
            |entry: &Held| gone.iter().any(|(owner, key)| (*owner, key) == (entry.0, &entry.1.key));
        if !self.lock().iter().any(is_gone) {
            return Ok(());
        }
        self.change(|held| held.retain(|entry| !is_gone(entry)))
    }

    /// Replaces everything at once; durable only with the next sync of the control directory.
    pub(super) fn replace_all_unnamed(&self, records: Vec<Held>) -> Result<()> {
        self.change_by(|held| *held = records, |map| self.replace(map))
    }

    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }

    fn change(&self, edit: impl FnOnce(&mut Vec<Held>)) -> Result<()> {
        self.change_by(edit, |map| map.write(&self.path))
    }

    fn change_by(
        &self,
        edit: impl FnOnce(&mut Vec<Held>),
        write: impl Fn(&Filemap) -> Result<()>,
    ) -> Result<()> {
        let mut current = self.lock();
        let mut next = current.clone();
        edit(&mut next);
        next.sort_by(|a, b| (a.0, &a.1.key).cmp(&(b.0, &b.1.key)));
        if !self.parts_noted.load(Ordering::Relaxed) && next.iter().any(|one| one.1.has_parts()) {
            again(|| note_parts(&self.layout.control_dir.join(LAUNCH)))?;
            self.parts_noted.store(true, Ordering::Relaxed);
        }
        let map = filemap_of(&next);
        // What fails once is done again: a passing error would end caching.
        again(|| write(&map))?;
        *current = next;
        self.begun.store(WRITTEN, Ordering::Relaxed);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        // The content is replaced as a whole, so a panic elsewhere cannot leave half of it.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_same_seal(record: &DatasetRecord, sealed: &DatasetRecord) -> bool {
    record.state == RecordedState::Prepared
        && (&record.key, record.epoch) == (&sealed.key, sealed.epoch)
}

fn put(owner: usize, record: DatasetRecord) -> impl FnOnce(&mut Vec<Held>) {
    move |held| {
        held.retain(|(rank, old)| (*rank, &old.key) != (owner, &record.key));
        held.push((owner, record));
    }
}

fn filemap_of(held: &[Held]) -> Filemap {
    let mut map = Filemap::new();
    for (owner, record) in held {
        map.insert(*owner, record.clone());
    }
    map
}

pub(crate) fn encode_records(held: &[Held]) -> KvTree {
    filemap_of(held).to_tree()
}

pub(crate) fn decode_records(tree: &KvTree) -> Result<Vec<Held>> {
    let map = Filemap::from_tree(tree).map_err(Error::Unreadable)?;
    Ok(map.iter().map(|(owner, record)| (owner, record.clone())).collect())
}

fn filemaps(control_dir: &Path) -> impl Iterator<Item = PathBuf> {
    let mut names = names_in(control_dir).unwrap_or_default();
    names.retain(|name| is_filemap_name(name) && name != MASTER_FILEMAP);
    names.into_iter().map(|name| control_dir.join(name)).collect::<Vec<_>>().into_iter()
}

/// Returns all records in a control directory; a filemap that cannot be read has none.
pub(crate) fn all_records(control_dir: &Path) -> impl Iterator<Item = Held> {
    filemaps(control_dir).filter_map(|path| read_records(&path).ok()).flatten()
}

/// Returns the stores that the records in a control directory name.
pub fn stores_in_records(control_dir: &Path) -> BTreeSet<String> {
    let held = all_records(control_dir);
    held.map(|(_, record)| store_of(&record).to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Finds what the records in a control directory say of files of a rank in a seal of dataset `id`.
pub(crate) fn files_in_records(
    control_dir: &Path,
    id: u64,
    epoch: u64,
    rank: usize,
) -> Vec<FileMeta> {
    let of_seal = |(owner, record): &(usize, DatasetRecord)| {
        (record.dataset_id, record.epoch, *owner) == (id, epoch, rank)
    };
    all_records(control_dir).filter(of_seal).flat_map(|(_, record)| record.files).collect()
}

pub(crate) fn read_records(path: &Path) -> Result<Vec<Held>> {
    let map = Filemap::read(path)?.unwrap_or_default();
    Ok(map.iter().map(|(owner, record)| (owner, record.clone())).collect())
}

/// Changes a rank's record in the filemaps of a node that no launch uses.
pub(crate) fn change_record(
    control_dir: &Path,
    rank: usize,
    record: &DatasetRecord,
    change: impl Fn(&mut DatasetRecord),
) -> Result<()> {
    for path in filemaps(control_dir) {
        let mut held = read_records(&path)?;
        let is_it = |one: &&mut Held| one.0 == rank && one.1 == *record;
        if let Some((_, found)) = held.iter_mut().find(is_it) {
            change(found);
            write_records(&path, &held)?;
        }
    }
    Ok(())
}

/// Writes a filemap durably; a second time after an error, which may be passing and would end
/// caching.
pub(crate) fn write_records(path: &Path, held: &[Held]) -> Result<()> {
    let map = filemap_of(held);
    again(|| map.write(path))
}
