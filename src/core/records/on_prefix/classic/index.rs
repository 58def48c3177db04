//! Its index.

use std::collections::BTreeSet;

use crate::kvtree::KvTree;
use crate::records::record::number;
use crate::records::{Dataset, IndexEntry, PROGRAM, PROGRAM_OUTPUT, RecordKey, Timestamp};

/// What an index of the C implementation lists.
pub struct TheirIndex {
    /// Its datasets.
    pub entries: Vec<IndexEntry>,
    /// Name of the current one.
    pub current: Option<String>,
}

/// Reads its index; `None` if the tree is none.
pub fn index_of(tree: &KvTree) -> Option<std::result::Result<TheirIndex, String>> {
    let is_one = tree.get_u64("VERSION") == Some(1) && tree.contains("DSET");
    is_one.then(|| read_index(tree))
}

fn read_index(tree: &KvTree) -> std::result::Result<TheirIndex, String> {
    let mut entries = Vec::new();
    for (id, copies) in tree.child("DSET") {
        let id = number(id, "a dataset id")?;
        let named = copies.child("NAME").iter().chain(copies.child("DIR"));
        let mut named = named.peekable();
        if named.peek().is_none() {
            return Err(format!("dataset {id} has neither a NAME nor a DIR"));
        }
        for (name, fields) in named {
            entries.push(entry_of(id, name, fields)?);
        }
    }
    Ok(TheirIndex { entries, current: tree.get_value("CURRENT").map(str::to_owned) })
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

/// Reads what its fields tell of a dataset. By them it is one that a program has named.
pub(super) fn dataset_of(id: u64, name: &str, complete: bool, fields: &KvTree) -> Dataset {
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
        key: RecordKey { series: series.into(), id: name.to_owned(), generation: 0 },
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
