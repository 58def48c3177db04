//! A damaged index, flush file or halt file is set aside and made anew. Left in place it would
//! refuse every later flush, and the newest checkpoint would end with the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::index::enter;
use super::paths::{folder, index_path, own_folder};
use super::replaced::find_kept;
use crate::cache::sealed_id;
use crate::error::{Error, Result};
use crate::files::remove_tree;
use crate::kvtree::KvTree;
use crate::records::{HaltFile, PrefixIndex, Record, SUMMARY_NAME, Summary, Timestamp};

/// What was done about one damaged file.
#[derive(Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The file.
    pub path: PathBuf,
    /// What was wrong with it.
    pub what: String,
    /// What is there instead.
    pub instead: String,
    /// What it was lies beside it, with the suffix `.damaged`.
    pub kept: bool,
}

/// Makes damaged files of `prefix` anew: the index from the summaries, the flush file empty; the
/// halt file goes. A file of a newer version is left alone. Rank 0 calls it at the start.
pub fn repair_prefix(prefix: &Path) -> Result<Vec<Repaired>> {
    let mut repaired = Vec::new();
    let index = index_path(prefix);
    let damaged = set_aside(&index)?;
    let kept = damaged.is_some();
    if damaged.is_some() || !index.exists() {
        let remade = index_from_summaries(prefix);
        let datasets = remade.newest_first().count();
        if kept || datasets > 0 {
            remade.write(&index)?;
            let what = damaged.unwrap_or_else(|| "it is missing".to_string());
            let instead = format!("made anew, with {datasets} datasets from their summaries");
            repaired.push(Repaired { path: index, what, instead, kept });
        }
    }
    let others = [
        ("flush.scr", "begun anew"),
        (HaltFile::NAME, "not replaced: what it asked for has to be entered again"),
    ];
    for (name, instead) in others {
        let path = own_folder(prefix).join(name);
        if let Some(what) = set_aside(&path)? {
            repaired.push(Repaired { path, what, instead: instead.to_string(), kept: true });
        }
    }
    Ok(repaired)
}

fn set_aside(path: &Path) -> Result<Option<String>> {
    let what = match KvTree::read_file(path) {
        Err(Error::Corrupt { what, .. }) => what,
        Err(other) => return Err(other),
        Ok(_) => return Ok(None),
    };
    let aside = path.with_extension("scr.damaged");
    remove_tree(&aside)?;
    fs::rename(path, &aside).map_err(|error| Error::io("cannot rename", path, error))?;
    Ok(Some(what))
}

fn index_from_summaries(prefix: &Path) -> PrefixIndex {
    let mut index = PrefixIndex::default();
    // In the order of their flushes, so that newer ones take the names of older ones.
    for id in ids_with_folder(prefix) {
        if let Ok(Some(summary)) = Summary::read_from(&folder(prefix, id)) {
            enter(&mut index, &summary.dataset, flushed_at(prefix, id));
        }
    }
    find_kept(prefix, &mut index);
    index
}

/// Tells when the dataset came to the prefix: its summary is the last that is written before the
/// index.
pub(super) fn flushed_at(prefix: &Path, id: u64) -> Timestamp {
    let written =
        fs::metadata(folder(prefix, id).join(SUMMARY_NAME)).and_then(|one| one.modified());
    let since = written.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or_else(Timestamp::now, |since| Timestamp::from_unix_seconds(since.as_secs()))
}

/// Returns the ids of the datasets that have a folder on the prefix, oldest first.
pub fn ids_with_folder(prefix: &Path) -> Vec<u64> {
    let entries = fs::read_dir(own_folder(prefix)).into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| sealed_id(entry.file_name().to_str()?));
    let mut ids: Vec<u64> = ids.collect();
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Dataset, RecordKey};
    use crate::transfer::list_prefix;
    use crate::transfer::prefix::index::record_flushed;

    fn flushed(prefix: &Path, id: u64, captured: &str) {
        let key = RecordKey { series: "ckpt".into(), id: captured.into(), generation: 0 };
        let dataset =
            Dataset { id, name: captured.into(), key, complete: true, ..Dataset::default() };
        record_flushed(prefix, &dataset, 2, &[]).unwrap();
    }

    #[test]
    fn a_damaged_index_is_made_anew_from_the_summaries() {
        let dir = tempfile::tempdir().unwrap();
        flushed(dir.path(), 1, "10");
        flushed(dir.path(), 2, "20");
        let before = list_prefix(dir.path()).unwrap();
        assert_eq!(repair_prefix(dir.path()).unwrap(), []);
        fs::write(index_path(dir.path()), b"not an index").unwrap();
        assert!(list_prefix(dir.path()).is_err());
        let repaired = repair_prefix(dir.path()).unwrap();
        assert!(repaired.len() == 1 && repaired[0].instead.contains("2 datasets"), "{repaired:?}");
        assert_eq!(list_prefix(dir.path()).unwrap(), before);
        assert_eq!(
            fs::read(own_folder(dir.path()).join("index.scr.damaged")).unwrap(),
            b"not an index"
        );
    }

    #[test]
    fn the_time_of_a_flush_is_that_of_its_summary() {
        let dir = tempfile::tempdir().unwrap();
        flushed(dir.path(), 1, "10");
        let summary = folder(dir.path(), 1).join(SUMMARY_NAME);
        let long_ago = UNIX_EPOCH + std::time::Duration::from_secs(1_298_896_656);
        let file = fs::File::options().write(true).open(summary).unwrap();
        file.set_modified(long_ago).unwrap();
        fs::remove_file(index_path(dir.path())).unwrap();
        repair_prefix(dir.path()).unwrap();
        let index = PrefixIndex::read(&index_path(dir.path())).unwrap().unwrap();
        let told = index.by_id(1).unwrap().flushed.unwrap().to_string();
        assert_eq!(told, "2011-02-28T12:37:36");
    }

    #[test]
    fn damaged_summaries_and_flush_files_do_not_stop_the_next_flush() {
        let dir = tempfile::tempdir().unwrap();
        flushed(dir.path(), 1, "10");
        flushed(dir.path(), 2, "20");
        fs::write(index_path(dir.path()), b"").unwrap();
        fs::write(own_folder(dir.path()).join("flush.scr"), [0xff; 40]).unwrap();
        fs::write(folder(dir.path(), 2).join("summary.scr"), [0xff; 40]).unwrap();
        fs::write(own_folder(dir.path()).join("halt.scr"), [0xff; 40]).unwrap();
        assert_eq!(repair_prefix(dir.path()).unwrap().len(), 3);
        assert_eq!(HaltFile::read(&own_folder(dir.path()).join("halt.scr")).unwrap(), None);
        flushed(dir.path(), 3, "30");
        let ids: Vec<u64> = list_prefix(dir.path()).unwrap().iter().map(|one| one.id).collect();
        assert_eq!(ids, [3, 1]);
    }
}
