//! A dataset of version 1.1 in a directory of the prefix (manual 1.1, sections 8 and 10): rebuilt
//! beside it, and entered into the index as it lies there. On a prefix of the C implementation our
//! index begins beside its own.

use std::path::{Path, PathBuf};

use crate::cache::disk::describe;
use crate::cache::{CatalogEntry, Flat, redundancy_files_of};
use crate::error::Result;
use crate::files::modified;
use crate::records::{
    Dataset, DatasetRecord, FileMeta, PROGRAM, PrefixIndex, Record as _, RecordKey, SUMMARY_NAME,
    Summary, classic, update,
};
use crate::system::{self, Lanes};
use crate::transfer::OnlyRebuild;
use crate::transfer::prefix::index::record_flushed;
use crate::transfer::prefix::paths::{folder, index_path};

const PIECE_BYTES: usize = 1 << 20;

const LANES: usize = 8;

type PlacedFiles = Vec<(FileMeta, PathBuf)>;

#[derive(Debug, Clone)]
pub struct Restored {
    pub rank: usize,
    pub files: PlacedFiles,
    pub redundancy: PlacedFiles,
}

pub fn restore_flat(
    work: &Path,
    flat: &Flat,
) -> Result<std::result::Result<Vec<Restored>, String>> {
    let protection = OnlyRebuild { piece_bytes: PIECE_BYTES };
    let restored = flat.restore(work, &protection, Lanes::of(LANES))?;
    let of_rank = |(rank, record): (usize, &DatasetRecord)| {
        let place = |file: &FileMeta| (file.clone(), record.dir.join(&file.name));
        let mut redundancy = redundancy_files_of(record);
        // Of a rank that has lost nothing else they are not made anew.
        redundancy.retain(|file| record.dir.join(&file.name).exists());
        Restored {
            rank,
            files: record.files.iter().map(place).collect(),
            redundancy: redundancy.iter().map(place).collect(),
        }
    };
    Ok(restored.map(|whole| whole.records.iter().enumerate().map(of_rank).collect()))
}

/// Writes summary and index of a complete one, whose directory is `name` below `prefix`, without
/// its redundancy files: no restart needs them.
pub fn enter_flat(prefix: &Path, name: &str, flat: &Flat) -> Result<()> {
    let mut entries = Vec::new();
    for (rank, file) in &flat.files {
        let known = describe(&flat.dir.join(&file.name), &format!("{name}/{}", file.name))?;
        let meta = FileMeta { crc32: file.crc32, ..known };
        entries.push(CatalogEntry { rank: *rank, meta });
    }
    let newest = entries.iter().map(|entry| entry.meta.mtime_seconds).max().unwrap_or(0);
    let dataset = Dataset {
        id: flat.id,
        name: flat.key.name(),
        key: flat.key.clone(),
        user: system::user_name(),
        created_seconds: u64::try_from(newest).unwrap_or(0),
        checkpoint_id: Some(flat.id),
        files: entries.len() as u64,
        bytes: entries.iter().fold(0, |sum: u64, one| sum.saturating_add(one.meta.size)),
        complete: true,
        ..Dataset::default()
    };
    record_flushed(prefix, &dataset, flat.ranks, &entries)
}

/// Writes our index beside that of the C implementation, if the prefix is still one of it; a
/// checkpoint all of whose files `key_of` knows by one key is of that series from now on. Returns
/// id and name of those that only caches of the C implementation have. Rank 0 calls it at the
/// start.
pub fn begin_beside(
    prefix: &Path,
    key_of: impl Fn(&str) -> Option<RecordKey>,
) -> Result<Vec<(u64, String)>> {
    let path = index_path(prefix);
    if !PrefixIndex::read(&path)?.is_some_and(|index| index.is_beside) {
        return Ok(Vec::new());
    }
    update(&path, |index: &mut PrefixIndex| {
        let ids: Vec<u64> = index.newest_first().map(|entry| entry.id).collect();
        for id in ids {
            let Some(dataset) = index.by_id_mut(id).and_then(|entry| entry.dataset.as_mut()) else {
                continue;
            };
            let named = (dataset.epoch == 0 && dataset.key.series == PROGRAM)
                .then(|| Summary::read_from(&folder(prefix, id)).ok().flatten());
            let files = named.flatten().map(|summary| summary.files).unwrap_or_default();
            let mut keys = files.values().flatten().map(|file| key_of(&file.name));
            if let Some(Some(key)) = keys.next()
                && keys.all(|other| other.as_ref() == Some(&key))
            {
                dataset.key = key;
            }
        }
        Ok(())
    })?;
    // The flush file is only a help.
    Ok(classic::cached_elsewhere(&path).unwrap_or_default())
}

/// Returns names of files of what the C implementation calls incomplete and nobody has written
/// since: a program that looks for its newest checkpoint would take them for one.
pub fn incomplete_files(prefix: &Path) -> Vec<String> {
    let index = PrefixIndex::read(&index_path(prefix)).ok().flatten().unwrap_or_default();
    let theirs = index.newest_first().filter(|entry| {
        let is_theirs = entry.dataset.as_ref().is_some_and(|dataset| dataset.epoch == 0);
        is_theirs && !entry.complete && entry.replaced_by.is_none()
    });
    let files = theirs.flat_map(|entry| {
        let dir = folder(prefix, entry.id);
        let summary = Summary::read_from(&dir).ok().flatten().unwrap_or_default();
        let written = dir.join(SUMMARY_NAME).metadata().map_or((0, 0), |one| modified(&one));
        let files = summary.files.into_values().flatten();
        files.filter(move |file| (file.mtime_seconds, file.mtime_nanoseconds) <= written)
    });
    files.map(|file| file.name).collect()
}
