//! What newer datasets have on the prefix already: a flush of an older one must not write over it.

use std::collections::BTreeSet;
use std::path::Path;

use super::about::About;
use super::journal::Journal;
use super::stage::remove_staged;
use crate::cache::{Catalog, CatalogEntry, Ctx};
use crate::error::{Error, Result};
use crate::files::{join_relative, modified};
use crate::kvtree::KvTree;
use crate::records::{Dataset, DatasetRecord, RecordKey};
use crate::transfer::prefix::paths::{files_of, read_index};
use crate::transfer::prefix::verify::names_on_prefix;

/// Finds the names that a flush of dataset `id` has to leave to newer datasets of its series (a
/// pointer file); `None` if a newer one has taken all its names. `there` is what can be restored
/// from the prefix, the same on all ranks. Collective.
pub fn kept_by_newer<'a>(
    ctx: &Ctx,
    id: u64,
    key: &RecordKey,
    there: impl Iterator<Item = (u64, &'a RecordKey)>,
) -> Result<Option<BTreeSet<String>>> {
    let newer = there.filter(|(other, of)| *other > id && of.series == key.series);
    let newer: Vec<(u64, &RecordKey)> = newer.collect();
    if newer.iter().any(|(_, of)| of.id == key.id) {
        return Ok(None);
    }
    let mut names = BTreeSet::new();
    for (other, _) in newer {
        names.extend(names_on_prefix(ctx, other)?);
    }
    Ok(Some(names))
}

/// Does the same for an interrupted flush, by the index: newer datasets may have come since.
pub(crate) fn taken_by_newer(prefix: &Path, dataset: &Dataset) -> Result<Option<BTreeSet<String>>> {
    let index = read_index(prefix)?;
    let mut names = BTreeSet::new();
    for entry in index.newest_first().take_while(|entry| entry.id > dataset.id) {
        let key = entry.dataset.as_ref().map(|newer| &newer.key);
        let Some(key) = key.filter(|key| key.series == dataset.key.series) else { continue };
        if !entry.complete || entry.replaced_by.is_some() {
            continue;
        }
        if key.id == dataset.key.id {
            return Ok(None);
        }
        let files = files_of(prefix, entry.id).ok().flatten().unwrap_or_default();
        names.extend(files.into_iter().map(|file| file.name));
    }
    Ok(Some(names))
}

pub(crate) struct Decided {
    pub about: About,
    pub taken: BTreeSet<String>,
}

impl Decided {
    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set("ABOUT", self.about.to_tree());
        self.taken.iter().for_each(|name| tree.child_mut("TAKEN").set_flag(name, true));
        tree
    }

    pub fn from_tree(tree: &KvTree) -> Option<Self> {
        let about = About::from_tree(tree.get("ABOUT")?)?;
        let taken = tree.child("TAKEN").into_iter().map(|(name, _)| name.to_string()).collect();
        Some(Decided { about, taken })
    }
}

/// Marks the files of `record` that a flush only lists: those that are `left_out`, by name, and
/// those that the program has changed by itself, which are part of the dataset as they are now.
pub(crate) fn leave_as_is(
    prefix: &Path,
    record: &mut DatasetRecord,
    left_out: &dyn Fn(&str) -> bool,
) {
    for file in record.files.iter_mut().filter(|file| !file.on_prefix) {
        let is_changed = record.left.contains(file.whole_name());
        if !is_changed && !left_out(file.whole_name()) {
            continue;
        }
        // What the prefix has, if anything, is not what was sealed.
        (file.on_prefix, file.crc32) = (true, None);
        let Ok(path) = join_relative(prefix, file.whole_name()) else { continue };
        // An attempt that was cut off has staged it, perhaps; what cannot go is hidden.
        let _ = remove_staged(&path, record.epoch);
        let now = path.metadata().ok().filter(|now| is_changed && now.is_file());
        if let Some(now) = now.filter(|_| file.part.is_none()) {
            file.size = now.len();
        }
    }
}

/// Tells whether a file of an interrupted flush, and not one that others have, too, has later
/// content on the prefix: the program has written the next generation there by itself, and older
/// files would go over it, or beside it. A damaged part is left to who completes the flush.
pub(crate) fn is_written_anew(prefix: &Path, journal: &Journal, dataset: &Dataset) -> Result<bool> {
    for name in journal.parts()? {
        let part = match journal.read_part(&name) {
            Err(Error::Corrupt { .. }) => continue,
            part => part?,
        };
        let is_own = |entry: &&CatalogEntry| {
            !entry.meta.on_prefix && !part.key.is_shared_name(entry.meta.whole_name())
        };
        let mut own = part.entries.iter().filter(is_own);
        if part.epoch == dataset.epoch && own.any(|entry| is_later(prefix, entry)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tells whether the prefix has something of this name that is newer than the sealed file.
fn is_later(prefix: &Path, entry: &CatalogEntry) -> bool {
    let Ok(target) = join_relative(prefix, entry.meta.whole_name()) else { return false };
    let sealed = (entry.meta.mtime_seconds, entry.meta.mtime_nanoseconds);
    target.symlink_metadata().is_ok_and(|now| modified(&now) > sealed)
}

/// Removes what is staged of these names, so that they are only listed; likewise of a file without
/// id of which the prefix has a newer one: a pointer that the program has put there since.
pub(crate) fn leave_to_newer(
    prefix: &Path,
    part: &mut Catalog,
    taken: &BTreeSet<String>,
) -> Result<()> {
    for entry in part.entries.iter_mut().filter(|entry| !entry.meta.on_prefix) {
        let name = entry.meta.whole_name();
        let is_shared = part.key.is_shared_name(name);
        let is_left = taken.contains(name) || is_shared && is_later(prefix, entry);
        if !is_left {
            continue;
        }
        let target = join_relative(prefix, name)?;
        remove_staged(&target, part.epoch)?;
        (entry.meta.on_prefix, entry.meta.crc32) = (true, None);
    }
    Ok(())
}
