//! Whether the index is right (manual 1.1, section 9.1): against directories, and summaries against
//! files.

use std::path::Path;

use super::index::find_entry;
use super::prefix::state_dir;
use crate::error::{Error, Result};
use crate::records::{IndexEntry, PrefixIndex, Record as _};
use crate::transfer::{Checked, check_files, ids_with_folder};

/// What is known of one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Its files are what its summary says.
    Right,
    /// Some are not; a sentence for each.
    Wrong(Vec<String>),
    /// The program or a person has deleted its files or written them anew, all of them.
    Gone,
    /// It was not looked at, since the index offers it to nobody; the word for its state.
    NotOffered(&'static str),
}

/// A dataset of the index.
#[derive(Debug, Clone)]
pub struct VerifiedDataset {
    /// What the index says.
    pub entry: IndexEntry,
    /// What was found.
    pub condition: Condition,
    /// What is worth knowing besides.
    pub remark: Option<String>,
    /// Files that have no checksum, since the program wrote them to the prefix itself.
    pub unchecked: u64,
}

/// A prefix, looked at.
#[derive(Debug, Clone, Default)]
pub struct VerifiedPrefix {
    /// Its datasets, the newest first.
    pub datasets: Vec<VerifiedDataset>,
    /// Ids of datasets that have a summary and no entry in the index.
    pub not_listed: Vec<u64>,
    /// There is no index, although datasets are there.
    pub no_index: bool,
}

impl VerifiedPrefix {
    /// Tells whether all that a run could go on from is right.
    pub fn is_right(&self) -> bool {
        let wrong = |one: &VerifiedDataset| matches!(one.condition, Condition::Wrong(_));
        !self.no_index && !self.datasets.iter().any(wrong)
    }
}

/// Returns the word for what the index says of a dataset.
pub fn state_of(entry: &IndexEntry) -> &'static str {
    match entry {
        _ if entry.is_kept() => "kept",
        IndexEntry { complete: false, .. } => "incomplete",
        IndexEntry { replaced_by: Some(_), .. } => "written over",
        _ if !entry.is_restorable() => "failed",
        _ => "complete",
    }
}

/// Looks at sizes, with `contents` checksums, too, of the datasets `wanted` by id or name (empty:
/// all).
pub fn verify_prefix(prefix: &Path, wanted: &[String], contents: bool) -> Result<VerifiedPrefix> {
    if !prefix.is_dir() {
        return Err(Error::Missing(format!("{} is no directory", prefix.display())));
    }
    let path = state_dir(prefix).join(PrefixIndex::NAME);
    let read = PrefixIndex::read(&path)?;
    let no_index = read.is_none();
    let index = read.unwrap_or_default();
    let entries: Vec<IndexEntry> = match wanted {
        [] => index.newest_first().cloned().collect(),
        _ => {
            let find = |one: &String| find_entry(&index, one, prefix);
            wanted.iter().map(find).collect::<Result<_>>()?
        }
    };
    let mut found = VerifiedPrefix::default();
    if wanted.is_empty() {
        let has_summary =
            |id: &u64| state_dir(prefix).join(format!("scr.dataset.{id}/summary.scr")).exists();
        let folders = ids_with_folder(prefix).into_iter().filter(has_summary);
        found.not_listed = folders.filter(|id| index.by_id(*id).is_none()).collect();
        found.no_index = no_index && !found.not_listed.is_empty();
    }
    for entry in entries {
        found.datasets.extend(verify_settled(prefix, entry, contents)?);
    }
    Ok(found)
}

/// A run may write over or delete what is being looked at: what is wrong counts only if the index
/// says the same of it afterwards.
fn verify_settled(
    prefix: &Path,
    entry: IndexEntry,
    contents: bool,
) -> Result<Option<VerifiedDataset>> {
    let path = state_dir(prefix).join(PrefixIndex::NAME);
    let mut entry = entry;
    loop {
        let found = verify(prefix, entry, contents);
        if !matches!(found.condition, Condition::Wrong(_)) {
            return Ok(Some(found));
        }
        let index = PrefixIndex::read(&path)?.unwrap_or_default();
        match index.by_id(found.entry.id) {
            None => return Ok(None),
            Some(now) if *now == found.entry => return Ok(Some(found)),
            Some(now) => entry = now.clone(),
        }
    }
}

fn verify(prefix: &Path, entry: IndexEntry, contents: bool) -> VerifiedDataset {
    if !entry.is_restorable() && !entry.is_kept() {
        let condition = Condition::NotOffered(state_of(&entry));
        return VerifiedDataset { entry, condition, remark: None, unchecked: 0 };
    }
    let Checked { faults, gone, remark, unchecked } = check_files(prefix, &entry, contents);
    let condition = match (faults.is_empty(), gone) {
        (false, _) => Condition::Wrong(faults),
        (true, true) => Condition::Gone,
        (true, false) => Condition::Right,
    };
    VerifiedDataset { entry, condition, remark, unchecked }
}
