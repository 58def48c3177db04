//! Flushes that ended while files got their names one by one, and do not go on: the index says that
//! the dataset failed. Else a start would take what is there for the program's: names of a series
//! without ids would have files of two generations.

use std::path::Path;

use super::about::About;
use super::journal::Journal;
use super::newer::taken_by_newer;
use crate::cache::CatalogEntry;
use crate::error::{Error, Result};
use crate::files::join_relative;
use crate::transfer::prefix::index::{note_failure, record_flushed};
use crate::transfer::prefix::paths::{is_published, read_index};

/// Notes that the flush of a dataset with these files of all ranks is given up, if it had begun to
/// give them their names. After an error what tells of the flush has to stay.
pub(crate) fn note_half(prefix: &Path, about: &About, entries: &[CatalogEntry]) -> Result<()> {
    let id = about.dataset.id;
    let index = read_index(prefix)?;
    let known = index.by_id(id).and_then(|entry| Some(entry.dataset.as_ref()?.epoch));
    if known == Some(about.dataset.epoch) || taken_by_newer(prefix, &about.dataset)?.is_none() {
        return Ok(());
    }
    let mut copied = entries.iter().filter(|entry| !entry.meta.on_prefix);
    let has_come = |entry: &CatalogEntry| {
        let whole = entry.meta.as_whole();
        join_relative(prefix, &whole.name).is_ok_and(|path| is_published(&path, &whole))
    };
    if !copied.any(has_come) {
        return Ok(());
    }
    record_flushed(prefix, &about.over(entries), about.ranks, entries)?;
    note_failure(prefix, id)
}

/// Does the same for a flush that had come to its commit; its journal goes.
pub(crate) fn close_half(prefix: &Path, journal: &Journal) -> Result<()> {
    note_half_of(prefix, journal)?;
    journal.remove()
}

/// Does the same; the journal stays. Of a damaged one nothing is known.
pub(crate) fn note_half_of(prefix: &Path, journal: &Journal) -> Result<()> {
    let read = || {
        let Some(about) = journal.committed()? else { return Ok(None) };
        let mut entries = Vec::new();
        for name in journal.parts()? {
            let part = journal.read_part(&name)?;
            if part.epoch == about.dataset.epoch {
                entries.extend(part.entries);
            }
        }
        entries.sort_by_key(|entry| entry.rank);
        Ok(Some((about, entries)))
    };
    match read() {
        Ok(Some((about, entries))) => note_half(prefix, &about, &entries),
        Ok(None) | Err(Error::Corrupt { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}
