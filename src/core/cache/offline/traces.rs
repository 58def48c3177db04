//! The records of a dataset, put together from its catalog and the lists in its redundancy files,
//! for a copy of a node's cache without its control directory. A directory with an id was sealed,
//! so all ranks had prepared it; what was changed since differs from the lists, and counts as lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::redundancy_files::{Trace, find_redundancy};
use crate::cache::node::disk::matches;
use crate::cache::node::store::Held;
use crate::cache::sealing::catalog::Catalog;
use crate::cache::sealing::own_part::note_protection;
use crate::comm::ranks::{parse_ranks, ranks_text};
use crate::error::{Error, Result};
use crate::records::{DatasetRecord, FileMeta, RecordedState};

#[derive(Debug, Default)]
pub(super) struct Told {
    pub id: u64,
    /// Ranks of the run; 0 if nothing tells.
    pub ranks: usize,
    pub held: Vec<Held>,
}

const STORE: &str = "found";

/// Returns `None` if nothing tells which dataset is in `dir`.
pub(super) fn records_in(dir: &Path) -> Result<Option<Told>> {
    let catalog = match Catalog::read(dir) {
        Err(Error::Corrupt { .. }) => None,
        read => read?,
    };
    let mut traces = find_redundancy(dir)?;
    let seal = catalog.as_ref().map(|catalog| (catalog.id, catalog.epoch));
    let Some(seal) = seal.or_else(|| traces.first().map(|one| (one.id, one.epoch))) else {
        return Ok(None);
    };
    traces.retain(|one| (one.id, one.epoch) == seal);
    let known = Known { dir, catalog: catalog.as_ref(), traces: &traces };
    let ranks = traces.first().map_or(0, |one| one.world_size);
    Ok(Some(Told { id: seal.0, ranks, held: known.records(seal.0, seal.1) }))
}

struct Known<'a> {
    dir: &'a Path,
    catalog: Option<&'a Catalog>,
    traces: &'a [Trace],
}

impl Known<'_> {
    fn records(&self, id: u64, epoch: u64) -> Vec<Held> {
        let Some(base) = self.base(id, epoch) else { return Vec::new() };
        let mut parts: BTreeMap<usize, (Vec<FileMeta>, Vec<FileMeta>)> = BTreeMap::new();
        for trace in self.traces {
            match trace.scheme {
                "PARTNER" => {
                    for keeper in self.keepers(trace) {
                        let own = || (self.files_of(keeper), Vec::new());
                        parts.entry(keeper).or_insert_with(own).1.extend(trace.files.clone());
                    }
                }
                _ => {
                    let own = (self.with_checksums(trace), trace.files.clone());
                    parts.insert(trace.list.world_rank, own);
                }
            }
        }
        let entries = self.catalog.iter().flat_map(|catalog| &catalog.entries);
        let owners: BTreeSet<usize> = entries.map(|entry| entry.rank).collect();
        for rank in owners {
            if !parts.contains_key(&rank) && self.has_files_of(rank) == Some(true) {
                // Its redundancy file is what is lost: one that is nowhere stands for it.
                let lost = FileMeta { name: ".scr/lost".into(), size: 1, ..FileMeta::default() };
                parts.insert(rank, (self.files_of(rank), vec![lost]));
            }
        }
        let record = |(rank, (files, own)): (usize, (Vec<FileMeta>, Vec<FileMeta>))| {
            let mut record = DatasetRecord { expect: files.len() as u64, files, ..base.clone() };
            record.tags = self.tags_of(rank).unwrap_or(record.tags);
            let set = self.set_of(rank).unwrap_or_default();
            record.descriptor.set_value("MEMBERS", ranks_text(&set));
            note_protection(&mut record, &own);
            (rank, record)
        };
        parts.into_iter().map(record).collect()
    }

    /// What all records have in common: the neighbours' copies have series, descriptor and tags.
    fn base(&self, id: u64, epoch: u64) -> Option<DatasetRecord> {
        let copies =
            self.traces.iter().filter_map(|one| DatasetRecord::from_tree(&one.list.record));
        let mut base = copies.into_iter().next().or_else(|| self.bare_base())?;
        if let Some(catalog) = self.catalog {
            base.key = catalog.key.clone();
        }
        (base.dataset_id, base.epoch, base.state) = (id, epoch, RecordedState::Prepared);
        if base.descriptor.get_value("STORE").unwrap_or_default().is_empty() {
            base.descriptor.set_value("STORE", STORE);
        }
        // A protection for another placement was under way: this is of which the files are.
        base.descriptor.remove("BEFORE");
        Some(base)
    }

    /// The tags in the rank's own record, which has the time of its own seal.
    fn tags_of(&self, rank: usize) -> Option<BTreeMap<String, String>> {
        let own = self.traces.iter().find(|trace| trace.list.world_rank == rank)?;
        DatasetRecord::from_tree(&own.list.record).map(|record| record.tags)
    }

    fn bare_base(&self) -> Option<DatasetRecord> {
        let mut base = DatasetRecord { key: self.catalog?.key.clone(), ..DatasetRecord::default() };
        base.descriptor.set_value("TYPE", self.traces.first()?.scheme);
        Some(base)
    }

    /// The files on a parity file's list, with the catalog's checksums where that has none.
    fn with_checksums(&self, trace: &Trace) -> Vec<FileMeta> {
        let known = self.files_of(trace.list.world_rank);
        let with = |file: &FileMeta| {
            let same = known.iter().find(|one| one.name == file.name && file.crc32.is_none());
            let crc32 = file.crc32.or(same.and_then(|one| one.crc32));
            self.placed(FileMeta { crc32, ..file.clone() })
        };
        trace.list.files.iter().map(with).collect()
    }

    fn set_of(&self, rank: usize) -> Option<Vec<usize>> {
        let sets = self.traces.iter().map(set_of_trace);
        sets.into_iter().find(|set| set.contains(&rank))
    }

    fn files_of(&self, rank: usize) -> Vec<FileMeta> {
        let catalog = self.catalog.iter();
        let parts = || self.traces.iter().flat_map(|trace| &trace.own_parts);
        let with_extents = |file: &FileMeta| {
            let same = |one: &&FileMeta| one.name == file.name && file.part.is_some();
            self.placed(parts().find(same).unwrap_or(file).clone())
        };
        catalog.flat_map(|catalog| catalog.files_of_rank(rank)).map(with_extents).collect()
    }

    /// Lists know parts as files of their own; what a node has written lies in the whole file.
    fn placed(&self, mut file: FileMeta) -> FileMeta {
        let is_own_file = file.part.is_none() || self.dir.join(&file.name).exists();
        file.part.iter_mut().for_each(|part| part.live = !is_own_file);
        file
    }

    /// `None` if the rank has no files in the cache.
    fn has_files_of(&self, rank: usize) -> Option<bool> {
        let files = self.files_of(rank);
        let mut cached = files.iter().filter(|file| !file.on_prefix).peekable();
        cached.peek()?;
        // Where the bytes of a part lie may be unknown.
        let is_there = |file: &FileMeta| match &file.part {
            Some(part) if part.live => self.dir.join(&part.of).is_file(),
            _ => matches(self.dir, file, false),
        };
        Some(cached.all(is_there))
    }

    /// The ranks here that keep these copies: right neighbours of the rank whose files they are.
    fn keepers(&self, trace: &Trace) -> Vec<usize> {
        let set = set_of_trace(trace);
        let Some(at) = set.iter().position(|rank| *rank == trace.list.world_rank) else {
            return Vec::new();
        };
        let record = DatasetRecord::from_tree(&trace.list.record);
        let copies = record.and_then(|one| one.descriptor.parse("SET_FAILURES")).unwrap_or(1_usize);
        let near = 1..=copies.min(set.len().saturating_sub(1));
        let right = near.map(|distance| set[(at + distance) % set.len()]);
        // A rank without files leaves no other sign.
        right.filter(|rank| self.has_files_of(*rank) != Some(false)).collect()
    }
}

fn set_of_trace(trace: &Trace) -> Vec<usize> {
    if !trace.group.is_empty() {
        return trace.group.clone();
    }
    let record = DatasetRecord::from_tree(&trace.list.record);
    let members = record.as_ref().and_then(|record| record.descriptor.get_value("MEMBERS"));
    parse_ranks(members.unwrap_or_default())
}
