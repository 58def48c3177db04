//! Datasets into the index, by their summaries on the prefix (manual 1.1, section 11.10.5).

use std::path::Path;

use super::index::{find_dataset, read_index};
use super::prefix::state_dir;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::records::{IndexEntry, SUMMARY_NAME};
use crate::transfer::{DROPPED_NAME, enter_again, ids_with_folder};

/// Enters a dataset into the index by its id, its name, or the directory of its summary. An entry
/// that is there stays as it is.
pub fn add_dataset(prefix: &Path, wanted: &str) -> Result<IndexEntry> {
    let Some(id) = id_of(prefix, wanted) else {
        let state = state_dir(prefix);
        let what = format!("no summary below {} is of dataset {wanted:?}", state.display());
        return Err(Error::Refused(what));
    };
    match enter_again(prefix, id)? {
        Some(entry) => Ok(entry),
        None => find_dataset(prefix, &id.to_string()),
    }
}

/// Tells whether [`add_dataset`] knows by its summary what is meant.
pub fn has_summary(prefix: &Path, wanted: &str) -> bool {
    id_of(prefix, wanted).is_some()
}

fn id_of(prefix: &Path, wanted: &str) -> Option<u64> {
    let ids = ids_with_folder(prefix);
    let last = Path::new(wanted).file_name().map(|name| name.to_string_lossy());
    // Another prefix has folders of the same names.
    let state = state_dir(prefix).canonicalize().ok();
    let parent = Path::new(wanted).canonicalize().ok();
    let parent = parent.as_deref().and_then(Path::parent);
    if wanted.contains('/') && parent.is_some() && parent != state.as_deref() {
        return None;
    }
    let number = last.as_deref().and_then(|name| name.strip_prefix("scr.dataset."));
    if let Some(id) = number.unwrap_or(wanted).parse().ok().filter(|id| ids.contains(id)) {
        return Some(id);
    }
    let listed = read_index(prefix).unwrap_or_default();
    let named = |id: &u64| {
        let known = listed.by_id(*id).and_then(|entry| entry.dataset.as_ref());
        match known {
            Some(dataset) => dataset.name == wanted,
            None => {
                let folder = state_dir(prefix).join(format!("scr.dataset.{id}"));
                let read = |name| KvTree::read_file(folder.join(name)).ok().flatten();
                let summary = read(SUMMARY_NAME).or_else(|| read(DROPPED_NAME));
                let path = ["DSET", &*id.to_string(), "DATASET"];
                let about = summary.as_ref().and_then(|summary| summary.get_path(&path));
                about.and_then(|about| about.get_value("NAME")) == Some(wanted)
            }
        }
    };
    ids.into_iter().rev().find(named)
}
