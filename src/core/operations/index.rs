//! The index of a prefix, as a person looks at it and changes it (manual 1.1, sections 9.1 and
//! 11.10.4).

use std::path::Path;

use crate::error::{Error, Result};
use crate::operations::prefix::{alone_on_prefix, state_dir};
use crate::records::{Dataset, FlushState, IndexEntry, Nodes, PrefixIndex, Record as _, update};
use crate::transfer::{repair_prefix, set_aside_datasets};

/// Returns the index; an empty one if the prefix has none.
pub fn read_index(prefix: &Path) -> Result<PrefixIndex> {
    Ok(PrefixIndex::read(&state_dir(prefix).join(PrefixIndex::NAME))?.unwrap_or_default())
}

/// Finds a dataset by its id or its name ("checkpoint 50", too); the newest of a name.
pub fn find_dataset(prefix: &Path, wanted: &str) -> Result<IndexEntry> {
    find_entry(&read_index(prefix)?, wanted, prefix)
}

pub(crate) fn find_entry(index: &PrefixIndex, wanted: &str, prefix: &Path) -> Result<IndexEntry> {
    let named = |entry: &&IndexEntry| {
        let is = |one: &Dataset| one.name == wanted || one.key.title() == wanted;
        entry.dir == wanted || entry.dataset.as_ref().is_some_and(is)
    };
    let by_id = wanted.parse().ok().and_then(|id| index.by_id(id));
    let found = by_id.or_else(|| index.newest_first().find(named));
    found.cloned().ok_or_else(|| {
        let path = prefix.display();
        Error::Missing(format!("the index of {path} has no dataset {wanted:?} (scr index list)"))
    })
}

/// Makes a dataset the one that the next run goes on from.
pub fn set_current(prefix: &Path, wanted: &str) -> Result<IndexEntry> {
    let entry = find_dataset(prefix, wanted)?;
    if !entry.is_restorable() && !entry.is_kept() {
        let what = format!("no run can go on from dataset {}: see scr index list", entry.id);
        return Err(Error::Refused(what));
    }
    let path = state_dir(prefix).join(PrefixIndex::NAME);
    update(&path, |index: &mut PrefixIndex| match index.set_current(&entry.dir) {
        true => Ok(entry),
        false => Err(Error::Missing(format!("dataset {} has just left the index", entry.id))),
    })
}

/// Takes a dataset, with `newer` those after it instead, out of the index; their files stay.
/// Returns the ids.
pub fn drop_datasets(prefix: &Path, wanted: &str, newer: bool) -> Result<Vec<u64>> {
    let id = find_dataset(prefix, wanted)?.id;
    let doomed = |one: u64| if newer { one > id } else { one == id };
    let mut ids: Vec<u64> =
        set_aside_datasets(prefix, &doomed)?.into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Makes the index anew from the summaries on the prefix; what it was stays beside it as
/// `index.scr.damaged`.
pub fn build_index(prefix: &Path) -> Result<PrefixIndex> {
    alone_on_prefix(prefix, || {
        let path = state_dir(prefix).join(PrefixIndex::NAME);
        if path.exists() {
            let aside = path.with_extension("scr.damaged");
            std::fs::rename(&path, &aside).map_err(|e| Error::io("cannot rename", &path, e))?;
        }
        repair_prefix(prefix)?;
        read_index(prefix)
    })
}

/// Returns where each dataset is, as the flush file says.
pub fn read_flush_file(prefix: &Path) -> Result<FlushState> {
    Ok(FlushState::read(&state_dir(prefix).join(FlushState::NAME))?.unwrap_or_default())
}

/// Returns how many nodes the last run used.
pub fn read_nodes(prefix: &Path) -> Result<Option<u64>> {
    Ok(read_nodes_file(prefix)?.map(|nodes| nodes.nodes))
}

/// Returns the nodes file, which also tells where the last run's ranks were.
pub fn read_nodes_file(prefix: &Path) -> Result<Option<Nodes>> {
    Nodes::read(&state_dir(prefix).join(Nodes::NAME))
}

/// Removes the nodes file if it is of another job than `job`, and returns that job. The flush file
/// stays: a launch still has to tell what was lost with the caches of that job.
pub fn reset_nodes_file(prefix: &Path, job: &str) -> Result<Option<String>> {
    let former = read_nodes_file(prefix)?.map(|nodes| nodes.job);
    let Some(former) = former.filter(|former| !former.is_empty() && former != job) else {
        return Ok(None);
    };
    let path = state_dir(prefix).join(Nodes::NAME);
    std::fs::remove_file(&path).map_err(|e| Error::io("cannot remove", &path, e))?;
    Ok(Some(former))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Dataset, RecordKey, Summary};

    fn prefix_with(ids: &[u64]) -> tempfile::TempDir {
        let prefix = tempfile::tempdir().unwrap();
        std::fs::create_dir(state_dir(prefix.path())).unwrap();
        let mut index = PrefixIndex::default();
        for &id in ids {
            let key = RecordKey { series: "c".into(), id: id.to_string(), generation: 0 };
            index.insert(IndexEntry {
                id,
                dir: format!("scr.dataset.{id}"),
                complete: id != 4,
                dataset: Some(Dataset {
                    id,
                    name: format!("ckpt.{id}0"),
                    key,
                    ..Dataset::default()
                }),
                ..IndexEntry::default()
            });
        }
        index.write(&state_dir(prefix.path()).join(PrefixIndex::NAME)).unwrap();
        prefix
    }

    fn ids(prefix: &Path) -> Vec<u64> {
        read_index(prefix).unwrap().newest_first().map(|entry| entry.id).collect()
    }

    #[test]
    fn a_dataset_is_found_by_id_and_by_name() {
        let prefix = prefix_with(&[1, 2, 3]);
        for wanted in ["2", "ckpt.20", "scr.dataset.2"] {
            assert_eq!(find_dataset(prefix.path(), wanted).unwrap().id, 2);
        }
        let error = find_dataset(prefix.path(), "ckpt.90").unwrap_err().to_string();
        assert!(error.contains("no dataset \"ckpt.90\""), "{error}");
    }

    #[test]
    fn only_what_a_run_can_go_on_from_becomes_current() {
        let prefix = prefix_with(&[1, 2, 4]);
        set_current(prefix.path(), "1").unwrap();
        assert_eq!(read_index(prefix.path()).unwrap().current(), Some("scr.dataset.1"));
        assert!(set_current(prefix.path(), "4").is_err());
        assert!(set_current(prefix.path(), "9").is_err());
        assert_eq!(read_index(prefix.path()).unwrap().current(), Some("scr.dataset.1"));
    }

    #[test]
    fn an_index_that_is_lost_is_made_anew_from_the_summaries() {
        let prefix = prefix_with(&[7]);
        for id in [3, 5] {
            let name = format!("ckpt.{id}0");
            let key = RecordKey { series: "ckpt".into(), id: format!("{id}0"), generation: 0 };
            let dataset = Dataset { id, name, key, complete: true, ..Dataset::default() };
            let folder = state_dir(prefix.path()).join(format!("scr.dataset.{id}"));
            std::fs::create_dir(&folder).unwrap();
            let summary = Summary { dataset, ranks: 1, ..Summary::default() };
            summary.write_to(&folder).unwrap();
        }
        build_index(prefix.path()).unwrap();
        assert_eq!(ids(prefix.path()), [5, 3]);
        assert!(state_dir(prefix.path()).join("index.scr.damaged").exists());
        std::fs::remove_file(state_dir(prefix.path()).join(PrefixIndex::NAME)).unwrap();
        assert_eq!(build_index(prefix.path()).unwrap().newest_first().count(), 2);
    }

    #[test]
    fn one_is_dropped_or_all_after_it() {
        let prefix = prefix_with(&[1, 2, 3, 4]);
        assert_eq!(drop_datasets(prefix.path(), "3", false).unwrap(), [3]);
        assert_eq!(ids(prefix.path()), [4, 2, 1]);
        assert_eq!(drop_datasets(prefix.path(), "ckpt.10", true).unwrap(), [2, 4]);
        assert_eq!(ids(prefix.path()), [1]);
        assert!(drop_datasets(prefix.path(), "7", true).is_err());
    }

    #[test]
    fn an_index_that_is_missing_is_empty_and_a_damaged_one_is_told() {
        let prefix = prefix_with(&[]);
        let path = state_dir(prefix.path()).join(PrefixIndex::NAME);
        std::fs::write(&path, "x").unwrap();
        assert!(read_index(prefix.path()).is_err());
        assert!(drop_datasets(prefix.path(), "1", false).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"x");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(ids(prefix.path()), []);
        assert_eq!(read_nodes(prefix.path()).unwrap(), None);
        assert_eq!(read_flush_file(prefix.path()).unwrap().dataset_ids().count(), 0);
    }
}
