//! The newest checkpoint by name, for programs that have to be told.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::operations::{read_flush_file, read_index};
use crate::records::Location;

/// A checkpoint that a launch would go on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latest {
    /// Its name in index and flush file: `checkpoint.20`.
    pub name: String,
    /// What tells it from the others of its series: `20`.
    pub id: String,
}

impl Latest {
    /// Returns `text` with `{latest}` and `{latest_id}` replaced.
    pub fn fill(this: Option<&Latest>, text: &str) -> String {
        let of = |part: fn(&Latest) -> &str| this.map(part).unwrap_or_default();
        text.replace("{latest}", of(|one| &one.name)).replace("{latest_id}", of(|one| &one.id))
    }

    /// Tells where its files are: the first of `patterns` with an `{id}` (as
    /// `ckpt/step_{id}/rank_{rank}.dat`), up to a wildcard.
    pub fn path(&self, prefix: &Path, patterns: &[String]) -> PathBuf {
        let lists = patterns.iter().flat_map(|list| list.split(','));
        let pattern = lists.map(str::trim).find(|one| one.contains("{id}") && !one.contains("re:"));
        let pattern = pattern.unwrap_or_default().trim_end_matches(":own");
        let filled = pattern.replace("{id}", &self.id);
        let plain = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
        filled.split('/').take_while(plain).fold(prefix.to_owned(), |path, part| path.join(part))
    }
}

/// Finds the newest checkpoint in the caches, else the one that the index offers.
pub fn latest(prefix: &Path) -> Result<Option<Latest>> {
    let flush = read_flush_file(prefix)?;
    let cached = flush.at(Location::Cache).into_iter().rev();
    let cached = cached.filter_map(|id| Some((id, flush.name(id)?.to_owned()))).next();
    let index = read_index(prefix)?;
    let entry = index.current_entry().filter(|entry| entry.is_restorable());
    let on_prefix = entry.and_then(|entry| {
        let dataset = entry.dataset.as_ref().filter(|one| one.checkpoint_id.is_some())?;
        Some((entry.id, dataset.name.clone()))
    });
    let newest = cached.into_iter().chain(on_prefix).max_by_key(|(id, _)| *id);
    Ok(newest.map(|(_, name)| {
        let id = name.split_once('.').map_or("", |(_, id)| id).to_owned();
        Latest { name, id }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Dataset, FlushState, IndexEntry, PrefixIndex, Record as _};

    #[test]
    fn the_newest_of_cache_and_prefix_counts() {
        let prefix = tempfile::tempdir().unwrap();
        let state = prefix.path().join(".scr");
        std::fs::create_dir(&state).unwrap();
        assert_eq!(latest(prefix.path()).unwrap(), None);
        let mut index = PrefixIndex::default();
        let name = "checkpoint.40".to_owned();
        let dataset = Dataset { id: 4, name, checkpoint_id: Some(4), ..Dataset::default() };
        let dir = "scr.dataset.4".to_owned();
        index.insert(IndexEntry {
            id: 4,
            dir: dir.clone(),
            complete: true,
            dataset: Some(dataset),
            ..IndexEntry::default()
        });
        index.set_current(&dir);
        index.write(&state.join(PrefixIndex::NAME)).unwrap();
        assert_eq!(latest(prefix.path()).unwrap().unwrap().id, "40");
        let mut flush = FlushState::default();
        flush.set(5, Location::Cache);
        flush.write(&state.join(FlushState::NAME)).unwrap();
        // In a cache, but nobody knows yet whether it is complete.
        assert_eq!(latest(prefix.path()).unwrap().unwrap().id, "40");
        flush.set_name(5, "checkpoint.50");
        flush.write(&state.join(FlushState::NAME)).unwrap();
        assert_eq!(latest(prefix.path()).unwrap().unwrap().name, "checkpoint.50");
        std::fs::write(state.join(FlushState::NAME), "x").unwrap();
        assert!(latest(prefix.path()).is_err());
    }

    #[test]
    fn words_and_the_path_name_it() {
        let one = Latest { name: "checkpoint.20".into(), id: "20".into() };
        assert_eq!(Latest::fill(Some(&one), "in={latest},{latest_id}"), "in=checkpoint.20,20");
        assert_eq!(Latest::fill(None, "in={latest}"), "in=");
        let path = |pattern: &str| one.path(Path::new("/p"), &[pattern.to_owned()]);
        assert_eq!(path("latest, ck/s_{id}/r_{rank}.d"), Path::new("/p/ck/s_20"));
        assert_eq!(path("restart.{id}:own"), Path::new("/p/restart.20"));
        assert_eq!(path("*.{id}"), Path::new("/p"));
    }
}
