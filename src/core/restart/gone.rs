//! What is gone from the prefix: somebody has removed it, or a program that ran without us.
//!
//! When that was is known by the times of directories, which the program changes, too, when it goes
//! on. So a start marks what it finds gone, as a program's own removals are marked: the next one
//! does not take it for somebody's word that is new.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cache::{Offered, RebuildReport};
use crate::kvtree::KvTree;
use crate::namespace::parent;
use crate::patterns::{PROGRAM, PROGRAM_OUTPUT};
use crate::records::{self, FileNames};
use crate::transfer::{
    ListedDataset, is_marked_removed, missing_since, removals, removed_since, sweep_marks,
};

fn counts(one: &ListedDataset) -> bool {
    // What a program that calls SCR deletes by itself nobody has seen.
    let by_pattern = ![PROGRAM, PROGRAM_OUTPUT].contains(&one.key.series.as_str());
    by_pattern && one.file_names == FileNames::Own && one.checkpoint_id.is_some()
}

/// Finds the newest checkpoints of each series, as far as all of them are gone and without a mark.
pub(super) fn checkpoints(prefix: &Path, listed: &[ListedDataset]) -> Vec<records::RecordKey> {
    let all: BTreeSet<&str> = listed.iter().map(|one| one.key.series.as_str()).collect();
    let of = |series| {
        let own = listed.iter().filter(move |one| one.key.series == series && counts(one));
        let is_new = move |one: &&ListedDataset| !is_marked_removed(prefix, series, &one.key.id);
        own.filter(is_new).take_while(|one| removed_since(prefix, one.id).is_some())
    };
    all.into_iter().flat_map(of).map(|one| one.key.clone()).collect()
}

/// Finds what somebody has removed from the prefix of the series that the cache has: of each the
/// newest, and those before it that are gone, too.
pub(super) fn tell(
    prefix: &Path,
    listed: &[ListedDataset],
    report: &RebuildReport,
    tree: &mut KvTree,
) {
    let settled = removals(prefix).unwrap_or_default();
    for (series, turn) in &settled {
        tree.child_mut("REMOVED").set(series, turn.to_tree());
    }
    let by_pattern = |series: &&str| ![PROGRAM, PROGRAM_OUTPUT].contains(series);
    let all = report.offered.iter().map(|one| one.key.series.as_str()).filter(by_pattern);
    let all: BTreeSet<&str> = all.collect();
    for series in all {
        let is_marked = |key: &records::RecordKey| is_marked_removed(prefix, series, &key.id);
        let is_settled = |id: u64| settled.iter().any(|(of, turn)| of == series && turn.leaves(id));
        let of_series = listed.iter().filter(|one| one.key.series == series && counts(one));
        let there = of_series.filter(|one| !is_settled(one.id));
        let gone = there.map_while(|one| {
            let since = (!is_marked(&one.key)).then(|| removed_since(prefix, one.id))?;
            Some((one.id, since?))
        });
        for (id, since) in gone {
            tree.child_mut("ID").child_mut(id).set_value("GONE_SINCE", since);
        }
        let cached = report.offered.iter().rev().filter(|one| one.key.series == series);
        let newest = cached.clone().map(|one| one.id).max().unwrap_or(0);
        // The program may have removed those of one that a newer one had followed.
        if report.withheld.iter().any(|one| one.key.series == series && one.id > newest) {
            continue;
        }
        // A program that has one name for all deletes its file before it makes the next one; that
        // explains no directory that is gone.
        let by_itself = |key: &records::RecordKey| !key.id.is_empty() && is_marked(key);
        let gone = cached.map_while(|one| {
            let since = (!by_itself(&one.key)).then(|| dirs_removed_since(prefix, one))?;
            Some((one.id, since?))
        });
        for (id, since) in gone {
            tree.child_mut("DIRS_REMOVED").set_value(id, since);
        }
    }
}

/// Removes the marks of checkpoints that nothing knows any more.
pub(super) fn sweep(prefix: &Path, listed: &[ListedDataset], report: &RebuildReport) {
    let cached = report.offered.iter().map(|one| &one.key);
    let keys = cached.chain(report.withheld.iter().map(|one| &one.key));
    let keys = keys.chain(listed.iter().map(|one| &one.key));
    if listed.is_empty() {
        return; // or it cannot be read
    }
    sweep_marks(prefix, keys.map(|key| (key.series.as_str(), key.id.as_str())));
}

/// When somebody has removed the directories of a cached checkpoint's files, which were there when
/// it was written.
fn dirs_removed_since(prefix: &Path, one: &Offered) -> Option<u64> {
    let (mut dirs, mut since) = (BTreeSet::new(), 0);
    for entry in one.catalog.entries().filter(|_| !one.is_on_prefix()) {
        let dir = parent(&entry.meta.name);
        if one.key.is_shared_name(&entry.meta.name) || dirs.contains(dir) {
            continue;
        }
        if dir.is_empty() {
            return None;
        }
        since = missing_since(prefix, dir)?.max(since);
        dirs.insert(dir.to_owned());
    }
    (since > 0).then_some(since)
}
