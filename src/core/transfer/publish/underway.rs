//! How far the flushes under way have come, as the prefix shows it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::journal::{Journal, Mark};
use super::staged::staged_path;
use crate::cache::{Catalog, CatalogEntry};
use crate::error::Result;
use crate::files::join_relative;
use crate::records::FlushState;
use crate::transfer::prefix::paths::is_published;

/// Of more files of a flush, so many evenly chosen ones are looked at.
const LOOKS: usize = 10_000;

/// A run looks again and again.
const LOOKS_OF_RUN: usize = 64;

/// How far a flush has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Nodes that have all their files of it on the prefix.
    pub nodes_done: usize,
    /// Nodes that take part.
    pub nodes: usize,
    /// Bytes that lie on the prefix; about, where there are very many files.
    pub bytes_done: u64,
    /// Bytes of all its files.
    pub bytes: u64,
}

/// Returns how far each flush under way has come; the bytes as the run has `told` them, else by a
/// look at the files. What cannot be read counts as not there.
pub fn flushes_under_way(prefix: &Path, told: &FlushState) -> BTreeMap<u64, Progress> {
    let ids = Journal::ids(prefix).unwrap_or_default().into_iter();
    let progress = |id| progress_of(prefix, &Journal::new(prefix, id), told.progress(id)).ok();
    ids.filter_map(|id| Some((id, progress(id)?))).collect()
}

fn progress_of(prefix: &Path, journal: &Journal, told: Option<(u64, u64)>) -> Result<Progress> {
    let nodes = journal.parts()?.len();
    let nodes_done = journal.count(Mark::Staged)?.min(nodes);
    let look = || Watch::on(journal, LOOKS).map(|watch| (watch.bytes_done(prefix), watch.bytes));
    let (bytes_done, bytes) = told.map_or_else(look, Ok)?;
    Ok(Progress { nodes_done, nodes, bytes_done, bytes })
}

/// Files of a flush whose bytes on the prefix are looked at.
#[derive(Debug)]
pub struct Watch {
    files: Vec<(u64, CatalogEntry)>,
    /// Bytes of all files of the flush.
    pub bytes: u64,
}

impl Watch {
    /// Makes one for the flush of dataset `id`, which looks at few files.
    pub fn new(prefix: &Path, id: u64) -> Result<Watch> {
        Watch::on(&Journal::new(prefix, id), LOOKS_OF_RUN)
    }

    fn on(journal: &Journal, looks: usize) -> Result<Watch> {
        let parts = journal.parts()?;
        let catalogs: Vec<_> =
            parts.iter().filter_map(|name| journal.read_part(name).ok()).collect();
        let coming = || catalogs.iter().flat_map(coming_files);
        let every = coming().count().div_ceil(looks).max(1);
        let files = coming().step_by(every).map(|(epoch, entry)| (epoch, entry.clone()));
        Ok(Watch {
            files: files.collect(),
            bytes: coming().map(|(_, entry)| entry.meta.size).sum(),
        })
    }

    /// Returns how many bytes lie on the prefix; about, where not all files are looked at.
    pub fn bytes_done(&self, prefix: &Path) -> u64 {
        let (mut seen, mut done) = (0_u64, 0_u64);
        for (epoch, entry) in &self.files {
            seen += entry.meta.size;
            done += bytes_there(prefix, *epoch, entry);
        }
        match seen {
            seen if seen == self.bytes => done,
            0 => 0,
            seen => (done as f64 / seen as f64 * self.bytes as f64) as u64,
        }
    }
}

fn coming_files(catalog: &Catalog) -> impl Iterator<Item = (u64, &CatalogEntry)> {
    let coming = catalog.entries.iter().filter(|entry| !entry.meta.on_prefix);
    coming.map(|entry| (catalog.epoch, entry))
}

fn bytes_there(prefix: &Path, epoch: u64, entry: &CatalogEntry) -> u64 {
    let (size, whole) = (entry.meta.size, entry.meta.as_whole());
    let Ok(target) = join_relative(prefix, &whole.name) else { return 0 };
    let staged = staged_path(&target, epoch).map(|staged| staged.metadata().ok());
    match staged {
        // It has its length from the begin; the blocks tell how much of all parts is there.
        Ok(Some(found)) if whole.is_shared => {
            let there = found.blocks().saturating_mul(512).min(whole.size) as f64;
            (size as f64 * there / whole.size.max(1) as f64) as u64
        }
        Ok(Some(found)) => found.len().min(size),
        _ if is_published(&target, &whole) => size,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::records::{Dataset, FileMeta, Location, RecordKey};
    use crate::transfer::publish::about::About;

    #[test]
    fn a_flush_is_as_far_as_its_bytes_on_the_prefix() {
        let prefix = tempfile::tempdir().unwrap();
        let file = |name: &str, size, on_prefix| CatalogEntry {
            rank: 0,
            meta: FileMeta { name: name.into(), size, on_prefix, ..FileMeta::default() },
        };
        let entries = vec![file("a", 100, false), file("b", 300, false), file("c", 7, true)];
        let part = Catalog { id: 5, epoch: 9, key: RecordKey::default(), entries };
        let journal = Journal::new(prefix.path(), 5);
        let about = About { dataset: Dataset::default(), ranks: 1, parts: 1 };
        journal.write_part(0, &part, &about).unwrap();
        let mut told = FlushState::default();
        let far = || flushes_under_way(prefix.path(), &FlushState::default())[&5];
        let begun = Progress { nodes: 1, bytes: 400, ..Progress::default() };
        assert_eq!(far(), begun);
        let staged = |name| staged_path(&prefix.path().join(name), 9).unwrap();
        fs::write(staged("a"), [0; 100]).unwrap();
        fs::write(staged("b"), [0; 50]).unwrap();
        assert_eq!(far(), Progress { bytes_done: 150, ..begun });
        journal.mark(Mark::Staged, 0, "").unwrap();
        assert_eq!(far(), Progress { bytes_done: 150, nodes_done: 1, ..begun });
        told.set(5, Location::Flushing);
        told.set_progress(5, 399, 400);
        let as_told = flushes_under_way(prefix.path(), &told)[&5];
        assert_eq!(as_told, Progress { bytes_done: 399, ..far() });
        let one_of_two = Watch::on(&journal, 1).unwrap();
        assert_eq!((one_of_two.bytes, one_of_two.bytes_done(prefix.path())), (400, 400));
    }
}
