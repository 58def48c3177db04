//! What the C implementation (3.0, 3.1) has left on a prefix: other trees under the same names and
//! version numbers, which are read and never changed.
//!
//! ```text
//! index.scr    VERSION / 1
//!              CURRENT / <name>
//!              DSET / <id> / NAME (or DIR) / <name> / COMPLETE / 1
//!                                                   / FLUSHED, FETCHED, FAILED / <time> ...
//!                                                   / DSET / <fields>
//! scr.dataset.<id>/
//! summary.scr  VERSION / 6
//!              COMPLETE / 1
//!              DSET / ID, NAME, CREATED (microseconds), USER, JOBID, CKPT, FILES, SIZE, COMPLETE
//! rank2file    LEVEL / <n>, RANKS / <count>         (also rank2file.scr)
//!              RANK / <reader> / FILE / <name of such a file of level n-1>, OFFSET / <bytes>
//!              at level 0: RANK / <rank> / FILE / <name> / SIZE, CRC
//! ```
//!
//! Until a flush of ours is complete its index and flush file stay as they are, and ours lie beside
//! them with the suffix `.ours`. Then ours take the names, and those get the suffix `.classic`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{
    FileLock, LOCK_WAIT_MAX, join_relative, read_ours, remove_file_if_there, replace,
};
use crate::kvtree::KvTree;
use crate::records::record::{Record, number};
use crate::records::text::parse_crc;
use crate::records::{
    Dataset, DatasetKey, FileMeta, FlushState, IndexEntry, PROGRAM, PROGRAM_OUTPUT, PrefixIndex,
    Summary, Timestamp,
};

/// Names of the map from ranks to files, in the dataset's directory.
const MAPS: [&str; 2] = ["rank2file", "rank2file.scr"];
/// More levels of it than any job has.
const LEVELS_MAX: u64 = 16;

/// Returns `path` with a suffix.
fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns where ours lies beside the index or flush file at `path`.
pub(super) fn beside(path: &Path) -> PathBuf {
    with(path, ".ours")
}

/// Returns where the index is that counts: ours beside `path`, unless the C implementation has
/// written its own since.
pub(super) fn index_place(path: &Path) -> PathBuf {
    let written = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let ours = beside(path);
    match written(&ours) {
        Some(time) if written(path).is_none_or(|theirs| theirs <= time) => ours,
        _ => path.to_owned(),
    }
}

/// Returns where the flush file is that counts: beside `path`, as long as the index is.
pub(super) fn flush_place(path: &Path) -> PathBuf {
    match beside(&path.with_file_name(PrefixIndex::NAME)).exists() {
        true => beside(path),
        false => path.to_owned(),
    }
}

/// Returns the ids and names of complete datasets that only caches of the C implementation have,
/// by its flush file; none if the index at `index` is ours.
///
/// # Errors
/// If a file cannot be read.
pub fn cached_elsewhere(index: &Path) -> Result<Vec<(u64, String)>> {
    let Some(known) = PrefixIndex::read(index)?.filter(|known| known.is_beside) else {
        return Ok(Vec::new());
    };
    let flush = index.with_file_name(FlushState::NAME);
    let tree = KvTree::read_file(&flush)?.unwrap_or_default();
    let state = FlushState::from_tree(&tree).map_err(|what| Error::corrupt(&flush, what))?;
    let name = |id: u64| state.name(id).map_or_else(|| format!("dataset {id}"), str::to_owned);
    let there = |id: &u64| known.by_id(*id).is_some_and(|entry| entry.complete);
    Ok(state.unflushed().filter(|id| !there(id)).map(|id| (id, name(id))).collect())
}

/// Gives our index and flush file their names, those of the C implementation stay beside them. Does
/// nothing if the index at `index` is ours.
///
/// # Errors
/// If a file cannot be read or written; what counted before does so still.
pub fn take_over(index: &Path) -> Result<()> {
    let is_beside = |known: &PrefixIndex| known.is_beside;
    if PrefixIndex::read(index)?.filter(is_beside).is_none() {
        // One may have been killed in the middle.
        return if beside(index).exists() { settle(index) } else { Ok(()) };
    }
    let _lock = FileLock::acquire(index, LOCK_WAIT_MAX)?;
    let Some(mut own) = PrefixIndex::read(index)?.filter(is_beside) else { return Ok(()) };
    keep(&index.with_file_name(FlushState::NAME))?;
    keep(index)?;
    own.is_beside = false;
    own.write(index)?;
    settle(index)
}

/// Gives our flush file its name, when the index has it. The index beside goes last: it tells which
/// flush file counts.
fn settle(index: &Path) -> Result<()> {
    let flush = index.with_file_name(FlushState::NAME);
    let ours = beside(&flush);
    let read = |path: &Path| fs::read(path).ok();
    if ours.exists() {
        replace(&ours, &flush).map_err(|error| Error::io("cannot rename", &ours, error))?;
    } else if flush.exists() && read(&flush) == read(&with(&flush, ".classic")) {
        FlushState::default().to_tree().write_file(&flush)?;
    }
    remove_file_if_there(&beside(index))
}

/// Leaves a second name for the file, if it is there.
fn keep(path: &Path) -> Result<()> {
    let kept = with(path, ".classic");
    remove_file_if_there(&kept)?;
    let linked = match fs::hard_link(path, &kept) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // A file system without hard links.
        Err(_) => {
            fs::copy(path, with(&kept, ".tmp")).and_then(|_| replace(&with(&kept, ".tmp"), &kept))
        }
        Ok(()) => Ok(()),
    };
    linked.map_err(|error| Error::io("cannot keep", path, error))
}

/// Reads its index; `None` if the tree is none.
pub(super) fn index_of(tree: &KvTree) -> Option<std::result::Result<PrefixIndex, String>> {
    let is_one = tree.get_u64("VERSION") == Some(1) && tree.contains("DSET");
    is_one.then(|| read_index(tree))
}

fn read_index(tree: &KvTree) -> std::result::Result<PrefixIndex, String> {
    let mut index = PrefixIndex::default();
    index.is_beside = true;
    for (id, copies) in tree.child("DSET") {
        let id = number(id, "a dataset id")?;
        let named = copies.child("NAME").iter().chain(copies.child("DIR"));
        let mut named = named.peekable();
        if named.peek().is_none() {
            return Err(format!("dataset {id} has neither a NAME nor a DIR"));
        }
        for (name, fields) in named {
            index.insert(entry_of(id, name, fields)?);
        }
    }
    if let Some(current) = tree.get_value("CURRENT") {
        let is = |entry: &&IndexEntry| {
            entry.dataset.as_ref().is_some_and(|dataset| dataset.name == current)
        };
        let found = index.newest_first().find(is).map(|entry| entry.dir.clone());
        if let Some(dir) = found {
            index.set_current(&dir);
        }
    }
    Ok(index)
}

fn entry_of(id: u64, name: &str, fields: &KvTree) -> std::result::Result<IndexEntry, String> {
    // Its times are local ones: no later one of ours is to seem older.
    let now = Timestamp::now();
    let times = |key: &str| {
        let times = fields.child(key).keys().map(str::parse::<Timestamp>);
        times.map(|time| time.map(|time| time.min(now))).collect::<std::result::Result<_, _>>()
    };
    let flushed: BTreeSet<Timestamp> = times("FLUSHED")?;
    let complete = fields.get_flag("COMPLETE");
    Ok(IndexEntry {
        id,
        dir: format!("scr.dataset.{id}"),
        complete,
        flushed: flushed.last().copied(),
        fetched: times("FETCHED")?,
        failed: times("FAILED")?,
        dataset: Some(dataset_of(id, name, complete, fields.child("DSET"))),
        ..IndexEntry::default()
    })
}

/// What its fields tell of a dataset. By them it is one that a program has named.
fn dataset_of(id: u64, name: &str, complete: bool, fields: &KvTree) -> Dataset {
    let count = |key: &str| fields.get_u64(key).unwrap_or(0);
    let text = |key: &str| fields.get_value(key).unwrap_or_default().to_owned();
    // A flag that says no is one, too.
    let checkpoint_id = match fields.get_value("FLAG_CKPT") {
        Some("0") => None,
        _ => fields.get_u64("CKPT").or(fields.is_empty().then_some(id)),
    };
    let series = if checkpoint_id.is_some() { PROGRAM } else { PROGRAM_OUTPUT };
    Dataset {
        id,
        name: name.to_owned(),
        key: DatasetKey { series: series.into(), id: name.to_owned(), generation: 0 },
        epoch: 0,
        user: text("USER"),
        job_id: text("JOBID"),
        created_seconds: count("CREATED") / 1_000_000,
        checkpoint_id,
        is_output: checkpoint_id.is_none() || fields.get_flag("FLAG_OUTPUT"),
        files: count("FILES"),
        bytes: count("SIZE"),
        complete,
    }
}

/// Reads its summary, and the map beside it in `dir`; `None` if the tree is none.
pub(super) fn summary_of(tree: &KvTree, dir: &Path) -> Option<Result<Summary>> {
    let id = tree.child("DSET").get_u64("ID").filter(|_| tree.contains("COMPLETE"))?;
    let fields = tree.child("DSET");
    let name = fields.get_value("NAME").unwrap_or_default();
    let dataset = dataset_of(id, name, tree.get_flag("COMPLETE"), fields);
    let map = Map::read(dir, &dataset.name);
    Some(map.map(|Map { ranks, files, .. }| Summary { dataset, ranks, files }))
}

/// The map from ranks to files.
struct Map<'a> {
    dir: &'a Path,
    /// The prefix, to which names are relative; in older ones of 3.0 to a folder of it.
    base: &'a Path,
    folder: String,
    ranks: u64,
    files: BTreeMap<usize, Vec<FileMeta>>,
}

impl Map<'_> {
    fn read<'a>(dir: &'a Path, name: &str) -> Result<Map<'a>> {
        let base = dir.parent().and_then(Path::parent).unwrap_or(dir);
        let mut map = Map { dir, base, folder: name.to_owned(), ranks: 0, files: BTreeMap::new() };
        let there = MAPS.iter().map(|name| dir.join(name)).find(|path| path.exists());
        let path = there.unwrap_or_else(|| dir.join(MAPS[0]));
        map.ranks = map.add(&path, 0, LEVELS_MAX)?;
        Ok(map)
    }

    /// Adds what the map at `offset` of a file lists, which has a level below `above`. Returns the
    /// number of its ranks.
    fn add(&mut self, path: &Path, offset: u64, above: u64) -> Result<u64> {
        let corrupt = |what: &str| Error::corrupt(path, what);
        let io = |error| Error::io("cannot read", path, error);
        let mut file = read_ours(path).map_err(io)?;
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        let (tree, _) = KvTree::read_prefix(&mut file, path)?;
        let tree = tree.get("RANK2FILE").unwrap_or(&tree);
        let level = tree.get_u64("LEVEL").filter(|level| *level < above);
        let level = level.ok_or_else(|| corrupt("it has no LEVEL below that of its parent"))?;
        let ranks = tree.get_u64("RANKS").ok_or_else(|| corrupt("no number of RANKS"))?;
        for (rank, entry) in tree.child("RANK") {
            if level == 0 {
                let rank = number(rank, "a rank").map_err(|what| corrupt(&what))?;
                for (name, fields) in entry.child("FILE") {
                    let meta = self.meta(name, fields).ok_or_else(|| {
                        corrupt(&format!("file {name:?} of rank {rank} has a bad field"))
                    })?;
                    self.files.entry(rank).or_default().push(meta);
                }
            } else {
                let name = entry.get_value("FILE").and_then(|name| Path::new(name).file_name());
                let name = name.ok_or_else(|| corrupt("a part of it has no FILE"))?;
                let part = self.dir.join(name);
                self.add(&part, entry.get_u64("OFFSET").unwrap_or(0), level)?;
            }
        }
        Ok(ranks)
    }

    /// What is known of a file; the map may leave out what the file itself tells.
    fn meta(&self, name: &str, fields: &KvTree) -> Option<FileMeta> {
        let at = |name: &str| fs::metadata(join_relative(self.base, name).ok()?).ok();
        let within = format!("{}/{name}", self.folder);
        let (name, found) = match (at(name), at(&within)) {
            (None, Some(found)) => (within, Some(found)),
            (found, _) => (name.to_owned(), found),
        };
        join_relative(self.base, &name).ok()?;
        let crc32 = fields.get_value("CRC");
        Some(FileMeta {
            name,
            size: fields.get_u64("SIZE").or(found.as_ref().map(fs::Metadata::len))?,
            crc32: crc32.map(|text| parse_crc(text).ok_or(())).transpose().ok()?,
            mode: found.as_ref().map_or(0o600, |found| found.permissions().mode() & 0o7777),
            mtime_seconds: found.as_ref().map_or(0, fs::Metadata::mtime),
            mtime_nanoseconds: found.as_ref().map_or(0, fs::Metadata::mtime_nsec),
            ..FileMeta::default()
        })
    }
}
