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

mod index;
mod places;
mod summary;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

pub(super) use index::{TheirIndex, index_of};
use places::with;
pub(super) use places::{INDEX_NAME, beside, flush_place, index_place};
pub(super) use summary::{TheirSummary, summary_of};

use crate::error::{Error, Result};
use crate::files::{FileLock, LOCK_WAIT_MAX, remove_file_if_there, replace};
use crate::kvtree::KvTree;
use crate::records::record::Record;
use crate::records::{FlushState, PrefixIndex};

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
