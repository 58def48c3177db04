//! Datasets leave the prefix: those outside the window (`SCR_PREFIX_SIZE`), and by explicit purge.

use std::collections::BTreeSet;
use std::path::Path;

use super::index::{folder, index_path};
use crate::error::Result;
use crate::files::{join_relative, remove_file_if_there, remove_tree};
use crate::records::{Dataset, IndexEntry, PrefixIndex, Record, Summary, update};

/// Keeps the newest `keep` checkpoints of the series of `newest`, which was just written; output is
/// never deleted. Returns the ids of those that went. Local: rank 0 does it.
pub(super) fn trim(prefix: &Path, newest: &Dataset, keep: u64) -> Result<Vec<u64>> {
    if keep == 0 || newest.is_output {
        return Ok(Vec::new());
    }
    let index = PrefixIndex::read(&index_path(prefix))?.unwrap_or_default();
    let current = index.current_entry().map(|entry| entry.id);
    let same_series = |entry: &&IndexEntry| {
        let dataset = entry.dataset.as_ref();
        dataset.is_some_and(|one| one.key.series == newest.key.series && !one.is_output)
    };
    let of_series = index.newest_first().filter(same_series).filter(|one| one.id <= newest.id);
    // Those that cannot be restored take no place of one that can.
    let mut kept = 0;
    let outside = of_series.filter(|entry| {
        let full = kept >= keep;
        kept += u64::from(entry.is_restorable());
        full && entry.id != newest.id && Some(entry.id) != current
    });
    let doomed: Vec<u64> = outside.map(|entry| entry.id).collect();
    delete(prefix, &doomed)?;
    Ok(doomed)
}

/// Deletes all datasets that the index knows, with their files. Returns how many. Local: rank 0
/// does it.
///
/// # Errors
/// If the index cannot be changed or a file cannot be deleted.
pub fn purge_prefix(prefix: &Path) -> Result<usize> {
    let index = PrefixIndex::read(&index_path(prefix))?.unwrap_or_default();
    let ids: Vec<u64> = index.newest_first().map(|entry| entry.id).collect();
    delete(prefix, &ids)?;
    Ok(ids.len())
}

/// Takes datasets with a larger id than `limit` out of the index; their files stay. Returns their
/// ids. Local: rank 0 does it.
///
/// # Errors
/// If the index cannot be changed.
pub fn forget_newer(prefix: &Path, limit: u64) -> Result<Vec<u64>> {
    let newer = update(&index_path(prefix), |index: &mut PrefixIndex| {
        let newer: Vec<u64> =
            index.newest_first().map(|entry| entry.id).filter(|id| *id > limit).collect();
        newer.iter().for_each(|id| index.remove(*id));
        Ok(newer)
    })?;
    // Or a damaged index would be made anew with them.
    newer.iter().try_for_each(|id| remove_tree(&folder(prefix, *id)))?;
    Ok(newer)
}

/// The index first, so that it never promises what is half deleted; the summaries last.
fn delete(prefix: &Path, ids: &[u64]) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let index = update(&index_path(prefix), |index: &mut PrefixIndex| {
        ids.iter().for_each(|id| index.remove(*id));
        Ok(index.clone())
    })?;
    let names = |id: u64| {
        let summary = Summary::read_from(&folder(prefix, id)).ok().flatten().unwrap_or_default();
        summary.files.into_values().flatten().map(|file| file.name).collect::<BTreeSet<String>>()
    };
    let kept: BTreeSet<String> = index.newest_first().flat_map(|entry| names(entry.id)).collect();
    for id in ids {
        for name in names(*id).difference(&kept) {
            remove_file_if_there(&join_relative(prefix, name)?)?;
            remove_empty_parents(prefix, name);
        }
        remove_tree(&folder(prefix, *id))?;
    }
    Ok(())
}

fn remove_empty_parents(prefix: &Path, name: &str) {
    let parents = Path::new(name).ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty());
    for dir in parents {
        // One that still has something in it stays, and so do those above it.
        if std::fs::remove_dir(prefix.join(dir)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CatalogEntry;
    use crate::records::{DatasetKey, FileMeta};
    use crate::transfer::index::record_flushed;
    use std::fs;

    fn flushed(prefix: &Path, id: u64, output: bool) -> Dataset {
        let series = if output { "viz" } else { "ckpt" };
        let key = DatasetKey { series: series.into(), id: id.to_string(), generation: 0 };
        let dataset = Dataset {
            id,
            key,
            complete: true,
            is_output: output,
            checkpoint_id: (!output).then_some(id),
            ..Dataset::default()
        };
        let own = format!("{series}/{id}/data");
        fs::create_dir_all(prefix.join(&own).parent().unwrap()).unwrap();
        let entries = [own, "latest".to_owned()].map(|name| {
            fs::write(prefix.join(&name), "x").unwrap();
            let meta = FileMeta { name, size: 1, ..FileMeta::default() };
            CatalogEntry { rank: 0, meta }
        });
        record_flushed(prefix, &dataset, 1, &entries).unwrap();
        dataset
    }

    #[test]
    fn the_window_slides_and_takes_neither_output_nor_shared_files() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        flushed(prefix, 1, true);
        for id in 2..=5 {
            let newest = flushed(prefix, id, false);
            let gone = trim(prefix, &newest, 2).unwrap();
            assert_eq!(gone, if id < 4 { vec![] } else { vec![id - 2] });
        }
        let there = |id: u64| prefix.join(format!("ckpt/{id}")).exists();
        assert_eq!((2..=5).map(there).collect::<Vec<_>>(), [false, false, true, true]);
        assert!(prefix.join("viz/1/data").exists() && prefix.join("latest").exists());
        assert!(!folder(prefix, 2).exists() && folder(prefix, 4).exists());
        assert_eq!(purge_prefix(prefix).unwrap(), 3);
        assert!(!prefix.join("ckpt").exists() && !prefix.join("latest").exists());
    }

    #[test]
    fn one_that_cannot_be_restored_takes_no_place_in_the_window() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path();
        flushed(prefix, 1, false);
        flushed(prefix, 2, false);
        crate::transfer::index::mark_failed(prefix, 2).unwrap();
        let newest = flushed(prefix, 3, false);
        assert_eq!(trim(prefix, &newest, 2).unwrap(), []);
        assert_eq!(trim(prefix, &newest, 1).unwrap(), [2, 1]);
    }

    #[test]
    fn newer_ones_are_forgotten_and_their_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        (1..=3).for_each(|id| drop(flushed(dir.path(), id, false)));
        assert_eq!(forget_newer(dir.path(), 1).unwrap(), [3, 2]);
        let index = PrefixIndex::read(&index_path(dir.path())).unwrap().unwrap();
        assert_eq!(index.newest_first().map(|entry| entry.id).collect::<Vec<_>>(), [1]);
        assert!(dir.path().join("ckpt/3/data").exists());
    }
}
