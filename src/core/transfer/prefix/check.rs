//! What the prefix has, looked at by one process without a launch.

use std::fs;
use std::path::Path;

use super::findings::{Findings, PrefixVerdict, length_of, wrong};
use super::index::{enter, enter_replaced};
use super::others::of_newer;
use super::paths::{DROPPED_NAME, change_index, copy_place, folder};
use super::repair::flushed_at;
use super::replaced::find_kept;
use crate::error::{Error, Result};
use crate::records::{FileMeta, IndexEntry, SUMMARY_NAME, Summary};
use crate::system::{Lanes, in_lanes};

const LANES: usize = 8;

/// What [`check_files`] has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// What is wrong, a sentence for each file; none if all is well.
    pub faults: Vec<String>,
    /// Somebody has deleted all files, or has written all of them anew.
    pub gone: bool,
    /// What is not as the summary says, and keeps nobody from a restart.
    pub remark: Option<String>,
    /// Files without a checksum.
    pub unchecked: u64,
}

/// Compares a dataset with its summary, as a start that would offer it: presence and size of all
/// files, with `contents` checksums.
pub fn check_files(prefix: &Path, entry: &IndexEntry, contents: bool) -> Checked {
    let fault = |sentence: String| Checked { faults: vec![sentence], ..Checked::default() };
    let summary = match Summary::read_from(&folder(prefix, entry.id)) {
        Ok(Some(summary)) => summary,
        Ok(None) => return fault("its summary is missing".into()),
        Err(error) => return fault(error.to_string()),
    };
    if let Some(known) = entry.dataset.as_ref().filter(|_| entry.complete) {
        let seal = |one: &crate::records::Dataset| (one.id, one.epoch, one.files, one.bytes);
        if seal(known) != seal(&summary.dataset) {
            return fault("its summary is of another dataset than the index says".into());
        }
    }
    if entry.is_kept() {
        return Checked { faults: check_kept(prefix, &summary, contents), ..Checked::default() };
    }
    let (mut verdict, mut faults) = look(prefix, &summary, contents);
    if verdict.cut_short && !contents {
        (verdict, faults) = look(prefix, &summary, true);
    }
    if verdict.fault.is_none() {
        faults.clear();
    }
    let PrefixVerdict { gone, remark, unchecked, .. } = verdict;
    Checked { faults, gone, remark, unchecked: unchecked.files }
}

fn look(prefix: &Path, summary: &Summary, contents: bool) -> (PrefixVerdict, Vec<String>) {
    let files: Vec<&FileMeta> = summary.files.values().flatten().collect();
    let look = |at: usize| {
        let mut found = Findings::default();
        found.look(prefix, summary, files[at], contents, &|file| file.on_prefix);
        found
    };
    let mut all = Findings::default();
    in_lanes(Lanes::of(LANES), files.len(), &look).into_iter().for_each(|found| all.add(found));
    let others = of_newer(prefix, summary.dataset.id, &all.suspects());
    let faults = all.faults(&others);
    (all.judge(files.len(), &others), faults)
}

/// The files wait in the dataset's folder, since a newer one has their names.
fn check_kept(prefix: &Path, summary: &Summary, contents: bool) -> Vec<String> {
    let files: Vec<&FileMeta> = summary.files.values().flatten().collect();
    let look = |at: usize| match copy_place(prefix, summary.dataset.id, &files[at].name) {
        Ok(path) => wrong(&path, length_of(&path), files[at], contents),
        Err(error) => Some(error.to_string()),
    };
    in_lanes(Lanes::of(LANES), files.len(), &look).into_iter().flatten().collect()
}

pub fn enter_again(prefix: &Path, id: u64) -> Result<Option<IndexEntry>> {
    let dir = folder(prefix, id);
    let (summary, dropped) = (dir.join(SUMMARY_NAME), dir.join(DROPPED_NAME));
    let rename = |from: &Path, to: &Path| {
        fs::rename(from, to).map_err(|error| Error::io("cannot rename", from, error))
    };
    let was_dropped = dropped.exists() && !summary.exists();
    if was_dropped {
        rename(&dropped, &summary)?;
    }
    let entered = enter_summary(prefix, id, &dir);
    if was_dropped && entered.is_err() {
        rename(&summary, &dropped)?;
    }
    entered
}

fn enter_summary(prefix: &Path, id: u64, dir: &Path) -> Result<Option<IndexEntry>> {
    let Some(Summary { dataset, .. }) = Summary::read_from(dir)? else {
        return Err(Error::Refused(format!("{} has no summary", dir.display())));
    };
    if dataset.id != id {
        let what = format!("its summary is that of dataset {}", dataset.id);
        return Err(Error::corrupt(dir, what));
    }
    if !dataset.complete {
        return Err(Error::Refused(format!("{} is not complete, its summary says", dataset.name)));
    }
    let flushed = flushed_at(prefix, id);
    let entry = IndexEntry { id, dataset: Some(dataset.clone()), ..IndexEntry::default() };
    let checked = check_files(prefix, &entry, false);
    let name = &dataset.name;
    if let Some(fault) = checked.faults.first() {
        return Err(Error::Refused(format!("{name} cannot be entered: {fault}")));
    }
    if checked.gone {
        let why = checked.remark.unwrap_or_else(|| "its files are gone".into());
        return Err(Error::Refused(format!("{name} cannot be entered: {why}")));
    }
    change_index(prefix, |index| {
        if index.by_id(id).is_some_and(|entry| entry.is_restorable() || entry.is_kept()) {
            return None;
        }
        enter(index, &dataset, flushed);
        enter_replaced(index);
        find_kept(prefix, index);
        index.by_id(id).cloned()
    })
}
