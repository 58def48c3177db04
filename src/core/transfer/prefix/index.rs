//! What is on the prefix: summaries and index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::paths::{
    OWN_MODE, change_index, folder, folder_name, index_path, own_folder, read_index,
};
use super::replaced::keep_replaced;
use crate::cache::{CatalogEntry, whole_files};
use crate::error::Result;
use crate::files::{create_dirs, join_relative};
use crate::records::{
    CourseTurn, Dataset, FileMeta, FileNames, FlushState, IndexEntry, Location, PrefixIndex,
    Record, RecordKey, Summary, Timestamp, classic, update,
};
use crate::system::test_pause;

fn flush_path(prefix: &Path) -> PathBuf {
    own_folder(prefix).join(FlushState::NAME)
}

fn read_places(prefix: &Path) -> Result<FlushState> {
    Ok(FlushState::read(&flush_path(prefix))?.unwrap_or_default())
}

fn change_places(prefix: &Path, change: impl FnOnce(&mut FlushState)) -> Result<()> {
    update(&flush_path(prefix), |state| {
        change(state);
        Ok(())
    })
}

/// Writes summary, index and flush file of a dataset whose files are all in place. One of which no
/// file is there is not entered: nobody could restart from it, and the cache may have all of it.
pub(crate) fn record_flushed(
    prefix: &Path,
    dataset: &Dataset,
    ranks: usize,
    entries: &[CatalogEntry],
) -> Result<()> {
    let entries = whole_files(entries);
    let is_there = |entry: &CatalogEntry| {
        join_relative(prefix, &entry.meta.name).is_ok_and(|path| path.symlink_metadata().is_ok())
    };
    if !entries.is_empty() && !entries.iter().any(is_there) {
        return change_places(prefix, |state| state.unset(dataset.id, Location::Flushing));
    }
    let dir = folder(prefix, dataset.id);
    create_dirs(&dir, OWN_MODE)?;
    let mut files: BTreeMap<usize, Vec<FileMeta>> = BTreeMap::new();
    for entry in entries {
        files.entry(entry.rank).or_default().push(entry.meta);
    }
    let summary = Summary { dataset: dataset.clone(), ranks: ranks as u64, files };
    summary.write_to(&dir)?;
    classic::take_over(&index_path(prefix))?;
    change_index(prefix, |index| enter(index, dataset, Timestamp::now()))?;
    change_places(prefix, |state| {
        state.unset(dataset.id, Location::Flushing);
        state.set(dataset.id, Location::Prefix);
    })
}

pub fn record_incomplete(prefix: &Path, id: u64, key: &RecordKey) -> Result<()> {
    let dataset = Dataset { id, name: key.name(), key: key.clone(), ..Dataset::default() };
    let (dir, dataset) = (folder_name(id), Some(dataset));
    let entry = IndexEntry { id, dir, dataset, ..IndexEntry::default() };
    change_index(prefix, |index| {
        if index.by_id(id).is_none() {
            index.insert(entry);
        }
    })
}

/// Makes the flush file say that just `cached` are in cache, with their names if they are complete,
/// and just `flushing` on their way.
pub fn record_places(
    prefix: &Path,
    cached: &BTreeMap<u64, Option<String>>,
    flushing: &BTreeMap<u64, Option<(u64, u64)>>,
) -> Result<()> {
    let in_cache: BTreeSet<u64> = cached.keys().copied().collect();
    let on_its_way: BTreeSet<u64> = flushing.keys().copied().collect();
    let wanted = [(Location::Cache, &in_cache), (Location::Flushing, &on_its_way)];
    let change = |state: &mut FlushState| {
        for (place, ids) in wanted {
            state.at(place).difference(ids).for_each(|id| state.unset(*id, place));
            ids.iter().for_each(|id| state.set(*id, place));
        }
        let named = cached.iter().filter_map(|(id, name)| Some((id, name.as_ref()?)));
        named.for_each(|(id, name)| state.set_name(*id, name));
        let progress = flushing.iter().filter_map(|(id, progress)| Some((id, (*progress)?)));
        progress.for_each(|(id, (done, of))| state.set_progress(*id, done, of));
    };
    let before = read_places(prefix)?;
    let mut after = before.clone();
    change(&mut after);
    if after == before { Ok(()) } else { change_places(prefix, change) }
}

/// Returns id and name of complete datasets that are in the cache and not on the prefix, by the
/// flush file.
pub fn list_in_cache(prefix: &Path) -> Result<Vec<(u64, String)>> {
    let state = read_places(prefix)?;
    Ok(state.unflushed().filter_map(|id| Some((id, state.name(id)?.to_owned()))).collect())
}

pub fn has_datasets(prefix: &Path) -> Result<bool> {
    let index = read_index(prefix)?;
    Ok(index.newest_first().any(|entry| entry.complete) || !list_in_cache(prefix)?.is_empty())
}

/// Notes that files of `dataset` are about to take their names: older datasets with the same names,
/// whose ids are returned, are not restorable from here on. Without ids their files are kept if the
/// window of `keep` checkpoints has room for more than one.
pub(crate) fn announce(prefix: &Path, dataset: &Dataset, keep: u64) -> Result<Vec<u64>> {
    let mut index = read_index(prefix)?;
    let older = replace_older(&mut index, dataset);
    if older.is_empty() {
        return Ok(Vec::new());
    }
    let kept = if keep > 1 { keep_replaced(prefix, &index, &older) } else { Vec::new() };
    test_pause("replaced.linked");
    change_index(prefix, |index| {
        let replaced = replace_older(index, dataset);
        for id in replaced.iter().filter(|id| kept.contains(id)) {
            index.by_id_mut(*id).into_iter().for_each(|entry| entry.kept = true);
        }
        replaced
    })
}

fn replace_older(index: &mut PrefixIndex, dataset: &Dataset) -> Vec<u64> {
    let same_names =
        |old: &RecordKey| (&old.series, &old.id) == (&dataset.key.series, &dataset.key.id);
    let older = index.newest_first().filter(|entry| {
        let key = entry.dataset.as_ref().map(|dataset| &dataset.key);
        entry.id < dataset.id && entry.replaced_by.is_none() && key.is_some_and(same_names)
    });
    let replaced: Vec<u64> = older.map(|entry| entry.id).collect();
    for id in &replaced {
        let entry = index.by_id_mut(*id);
        entry.into_iter().for_each(|entry| entry.replaced_by = Some(dataset.id));
    }
    replaced
}

/// Marks whatever a newer dataset has replaced, after one has come out of order. Pure.
pub(super) fn enter_replaced(index: &mut PrefixIndex) {
    let complete = index.newest_first().filter(|entry| entry.complete);
    let mut datasets: Vec<Dataset> = complete.filter_map(|entry| entry.dataset.clone()).collect();
    datasets.reverse();
    for dataset in &datasets {
        replace_older(index, dataset);
    }
}

pub(super) fn enter(index: &mut PrefixIndex, dataset: &Dataset, now: Timestamp) {
    replace_older(index, dataset);
    let dir = folder_name(dataset.id);
    let before = index.by_id(dataset.id).cloned().unwrap_or_default();
    // Failures of an earlier copy say nothing about this one; a refusal by the program does.
    index.insert(IndexEntry {
        id: dataset.id,
        dir: dir.clone(),
        complete: true,
        flushed: Some(now),
        dataset: Some(dataset.clone()),
        fetched: before.fetched,
        refused: before.refused,
        ..IndexEntry::default()
    });
    let before = index.current_entry().map(|current| current.id).or(index.returned_to());
    let newest = before.is_none_or(|before| before <= dataset.id)
        && !index.turn.is_some_and(|turn| turn.leaves(dataset.id));
    let restarts = dataset.checkpoint_id.is_some() || !dataset.is_output;
    if newest && restarts {
        index.abandon_before(dataset.id);
        index.set_current(&dir);
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ListedDataset {
    pub id: u64,
    pub key: RecordKey,
    /// Complete, not failed since, not replaced by a newer one under the same names.
    pub restorable: bool,
    pub current: bool,
    pub checkpoint_id: Option<u64>,
    pub name: String,
    /// What is kept is there for [`crate::transfer::bring_back`].
    pub file_names: FileNames,
    /// The first dataset that came here after the run went back to before this one.
    pub abandoned_by: Option<u64>,
    pub refused: bool,
}

/// Returns all datasets that the index knows, newest first.
pub fn list_prefix(prefix: &Path) -> Result<Vec<ListedDataset>> {
    let index = read_index(prefix)?;
    let current = index.current_entry().map(|entry| entry.id);
    let none = Dataset::default();
    let describe = |entry: &IndexEntry| ListedDataset {
        id: entry.id,
        key: entry.dataset.as_ref().unwrap_or(&none).key.clone(),
        restorable: entry.is_restorable(),
        current: current == Some(entry.id),
        checkpoint_id: entry.dataset.as_ref().unwrap_or(&none).checkpoint_id,
        name: entry.dataset.as_ref().unwrap_or(&none).name.clone(),
        file_names: entry.file_names(),
        abandoned_by: entry.abandoned_by,
        refused: entry.refused,
    };
    Ok(index.newest_first().map(describe).collect())
}

pub fn note_attempt(prefix: &Path, id: u64) -> Result<()> {
    change_index(prefix, |index| {
        if let Some(entry) = index.by_id_mut(id) {
            entry.fetched.insert(Timestamp::now());
        }
    })
}

/// Notes in the index that a launch restarts from dataset `id`, which becomes the current one.
pub fn note_success(prefix: &Path, id: u64) -> Result<()> {
    change_index(prefix, |index| {
        index.accept(id);
        if let Some(dir) = index.by_id(id).map(|entry| entry.dir.clone()) {
            index.set_current(&dir);
        }
    })
}

/// Notes in the index that a launch went back to dataset `id`, which only the cache has: what comes
/// next follows that one.
pub fn note_return(prefix: &Path, id: u64) -> Result<()> {
    change_index(prefix, |index| {
        index.accept(id);
        index.return_to(id);
    })
}

pub fn returned_to(prefix: &Path) -> Result<Option<u64>> {
    Ok(read_index(prefix)?.returned_to())
}

/// Notes in the index that a launch goes back; `None`: it is where it was before.
pub fn note_turn(prefix: &Path, turn: Option<CourseTurn>) -> Result<()> {
    change_index(prefix, |index| index.turn = turn)
}

pub fn last_turn(prefix: &Path) -> Result<Option<CourseTurn>> {
    Ok(read_index(prefix)?.turn)
}

/// Notes a failure in the index, so that later starts do not offer the dataset.
pub fn note_failure(prefix: &Path, id: u64) -> Result<()> {
    change_index(prefix, |index| {
        let was_current = index.current_entry().is_some_and(|entry| entry.id == id);
        if let Some(entry) = index.by_id_mut(id) {
            entry.failed.insert(Timestamp::now());
        }
        if was_current {
            index.clear_current();
        }
    })
}

/// Notes in the index that the program could not restart from dataset `id`, which may be in the
/// cache only: it is offered no more, until the user chooses it.
pub fn note_refusal(prefix: &Path, id: u64, key: &RecordKey) -> Result<()> {
    record_incomplete(prefix, id, key)?;
    note_failure(prefix, id)?;
    change_index(prefix, |index| {
        index.by_id_mut(id).into_iter().for_each(|entry| entry.refused = true);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(id: u64, series: &str, captured: &str) -> Dataset {
        let key = RecordKey { series: series.into(), id: captured.into(), generation: id };
        Dataset { id, name: format!("{series}.{id}"), key, complete: true, ..Dataset::default() }
    }

    #[test]
    fn a_rewritten_series_leaves_one_restorable_entry() {
        let mut index = PrefixIndex::default();
        let now = Timestamp::from_unix_seconds(5);
        enter(&mut index, &dataset(1, "state", ""), now);
        enter(&mut index, &dataset(2, "ckpt", "10"), now);
        enter(&mut index, &dataset(3, "ckpt", "20"), now);
        assert_eq!(replace_older(&mut index.clone(), &dataset(4, "state", "")), [1]);
        enter(&mut index, &dataset(4, "state", ""), now);
        assert_eq!(index.current(), Some("scr.dataset.4"));
        let restorable = index.newest_first().filter(|entry| entry.is_restorable());
        assert_eq!(restorable.map(|entry| entry.id).collect::<Vec<_>>(), [4, 3, 2]);
        // Output alone is nothing to restart from.
        let output = Dataset { is_output: true, ..dataset(5, "viz", "10") };
        enter(&mut index, &output, now);
        assert_eq!(index.current(), Some("scr.dataset.4"));
        enter(&mut index, &Dataset { id: 6, checkpoint_id: Some(1), ..output }, now);
        assert_eq!(index.current(), Some("scr.dataset.6"));
    }

    #[test]
    fn what_a_run_has_left_is_marked_until_it_is_chosen_again() {
        let (mut index, now) = (PrefixIndex::default(), Timestamp::from_unix_seconds(5));
        let add = |index: &mut PrefixIndex, id: u64| {
            enter(index, &dataset(id, "ckpt", &id.to_string()), now);
        };
        (1..=4).for_each(|id| add(&mut index, id));
        enter(&mut index, &Dataset { is_output: true, ..dataset(5, "viz", "1") }, now);
        let abandoned = |index: &PrefixIndex| {
            let all: Vec<_> = index.newest_first().map(|entry| entry.abandoned_by).collect();
            all.into_iter().rev().collect::<Vec<_>>()
        };
        assert_eq!(abandoned(&index), [None; 5], "a course without a turn");
        index.set_current("scr.dataset.2");
        add(&mut index, 6);
        let turned = [None, None, Some(6), Some(6), None, None];
        assert_eq!(abandoned(&index), turned);
        add(&mut index, 7);
        assert_eq!(abandoned(&index)[..6], turned);
        // Back to what was left, and on from there.
        index.set_current("scr.dataset.3");
        add(&mut index, 8);
        let again = [None, None, None, Some(6), None, Some(8), Some(8), None];
        assert_eq!(abandoned(&index), again);
        assert_eq!(PrefixIndex::from_tree(&index.to_tree()), Ok(index));
    }

    #[test]
    fn what_follows_a_return_to_the_cache_is_current_and_newer_ones_are_left() {
        let (mut index, now) = (PrefixIndex::default(), Timestamp::from_unix_seconds(5));
        let add = |index: &mut PrefixIndex, id: u64| {
            enter(index, &dataset(id, "ckpt", &id.to_string()), now);
        };
        [3, 4].into_iter().for_each(|id| add(&mut index, id));
        index.return_to(2);
        assert_eq!((index.current(), index.returned_to()), (None, Some(2)));
        assert_eq!(PrefixIndex::from_tree(&index.to_tree()), Ok(index.clone()));
        let mut further = index.clone();
        // The dataset itself comes: newer ones stay newer than the current one.
        add(&mut index, 2);
        assert_eq!((index.current(), index.returned_to()), (Some("scr.dataset.2"), None));
        // A later dataset comes first: those between are left.
        add(&mut further, 5);
        assert_eq!((further.current(), further.returned_to()), (Some("scr.dataset.5"), None));
        assert_eq!(further.by_id(3).unwrap().abandoned_by, Some(5));
    }

    #[test]
    fn what_was_left_in_the_cache_does_not_become_current_when_it_comes() {
        let (mut index, now) = (PrefixIndex::default(), Timestamp::from_unix_seconds(5));
        index.turn = Some(CourseTurn { to: 2, from: 4 });
        for (id, current) in [(3, None), (2, Some(2)), (4, Some(2)), (5, Some(5))] {
            enter(&mut index, &dataset(id, "ckpt", &id.to_string()), now);
            assert_eq!(index.current_entry().map(|entry| entry.id), current, "{id}");
        }
        assert_eq!(PrefixIndex::from_tree(&index.to_tree()), Ok(index));
    }

    #[test]
    fn attempts_and_failures_are_noted() {
        let prefix = tempfile::tempdir().unwrap();
        assert!(list_prefix(prefix.path()).unwrap().is_empty());
        for made in [dataset(1, "a", "1"), dataset(2, "b", "1"), dataset(3, "a", "2")] {
            record_flushed(prefix.path(), &made, 2, &[]).unwrap();
        }
        note_failure(prefix.path(), 3).unwrap();
        let listed = list_prefix(prefix.path()).unwrap();
        assert!(listed.iter().all(|dataset| !dataset.current));
        note_attempt(prefix.path(), 2).unwrap();
        assert!(!list_prefix(prefix.path()).unwrap()[1].current);
        note_success(prefix.path(), 2).unwrap();
        assert!(list_prefix(prefix.path()).unwrap()[1].current);
        let restorable = listed.iter().filter(|dataset| dataset.restorable);
        assert_eq!(restorable.map(|one| one.id).collect::<Vec<_>>(), [2, 1]);
    }
}
