//! A dataset that version 1.1 has left in a directory of the prefix (000 sections 8 and 10):
//! rebuilt beside it, and entered into the index as it lies there.

use std::path::{Path, PathBuf};

use super::OnlyRebuild;
use super::index::record_flushed;
use crate::cache::disk::describe;
use crate::cache::{CatalogEntry, Flat, redundancy_files_of};
use crate::error::Result;
use crate::records::{Dataset, FileMeta};
use crate::system;

/// Bytes that travel at a time between the threads that stand for ranks.
const PIECE_BYTES: usize = 1 << 20;

/// Threads that read files, besides the members of a set.
const LANES: usize = 8;

/// Files of a rank with their paths.
type Placed = Vec<(FileMeta, PathBuf)>;

/// What a rank has after a rebuild.
#[derive(Debug, Clone)]
pub struct Restored {
    /// World rank.
    pub rank: usize,
    /// The program's files, and where they are.
    pub files: Placed,
    /// Redundancy files, and where they are.
    pub redundancy: Placed,
}

/// Rebuilds what is lost of it below `work`; all ranks' files. The inner error says why that is not
/// possible. Local.
///
/// # Errors
/// If something cannot be read or written.
pub fn restore_flat(
    work: &Path,
    flat: &Flat,
) -> Result<std::result::Result<Vec<Restored>, String>> {
    let protection = OnlyRebuild { piece_bytes: PIECE_BYTES };
    let whole = match flat.restore(work, &protection, (LANES, &|| {}))? {
        Ok(whole) => whole,
        Err(why) => return Ok(Err(why)),
    };
    let restored = whole.records.iter().enumerate().map(|(rank, record)| {
        let place = |file: &FileMeta| (file.clone(), record.dir.join(&file.name));
        let mut redundancy = redundancy_files_of(record);
        // Of a rank that has lost nothing else they are not made anew.
        redundancy.retain(|file| record.dir.join(&file.name).exists());
        Restored {
            rank,
            files: record.files.iter().map(place).collect(),
            redundancy: redundancy.iter().map(place).collect(),
        }
    });
    Ok(Ok(restored.collect()))
}

/// Writes summary and index of a complete one, whose directory is `name` below `prefix`. Its
/// redundancy files are not listed: no restart needs them. Local.
///
/// # Errors
/// If a file cannot be read, or summary or index cannot be written.
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
        epoch: 0,
        user: system::user_name(),
        job_id: String::new(),
        created_seconds: u64::try_from(newest).unwrap_or(0),
        checkpoint_id: Some(flat.id),
        is_output: false,
        files: entries.len() as u64,
        bytes: entries.iter().fold(0, |sum: u64, one| sum.saturating_add(one.meta.size)),
        complete: true,
    };
    record_flushed(prefix, &dataset, flat.ranks, &entries)
}
