//! How far a rank's files are on the prefix, as the node's transfer file says it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::options::Options;
use crate::error::Result;
use crate::records::{Transfer, TransferCommand, TransferFile, update, update_or_renew};

/// Between two writes of the transfer file by a rank.
const PERIOD: Duration = Duration::from_millis(200);

/// Keeps WRITTEN of this rank's files, without a write of the transfer file for every small one.
pub(super) struct Ledger<'a> {
    transfer_file: &'a Path,
    changed: Vec<(String, u64)>,
    last: Instant,
}

impl<'a> Ledger<'a> {
    pub fn new(transfer_file: &'a Path) -> Self {
        Ledger { transfer_file, changed: Vec::new(), last: Instant::now() }
    }

    /// Notes that `written` bytes of `source` are durable on the prefix.
    pub fn set(&mut self, source: &str, written: u64) -> Result<()> {
        self.changed.push((source.to_owned(), written));
        if self.last.elapsed() < PERIOD { Ok(()) } else { self.write() }
    }

    pub fn write(&mut self) -> Result<()> {
        self.last = Instant::now();
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() {
            return Ok(());
        }
        update(self.transfer_file, |all: &mut TransferFile| {
            for (source, written) in changed {
                if let Some(entry) = all.files.get_mut(&source) {
                    entry.written = Some(written);
                }
            }
            Ok(())
        })
    }
}

/// Enters files that are about to be copied, each with its source, its staged file and its size;
/// what an earlier launch has written of them counts.
///
/// # Errors
/// If the transfer file cannot be changed.
pub(super) fn enter(
    path: &Path,
    options: &Options,
    entries: Vec<(String, PathBuf, u64)>,
) -> Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    update_or_renew(path, |all: &mut TransferFile| {
        all.command = TransferCommand::Run;
        all.percent = options.percent;
        all.bandwidth = options.bytes_per_second as f64;
        for (source, staged, size) in entries {
            let destination = staged.display().to_string();
            let same = |old: &Transfer| old.destination == destination && old.size == size;
            let there = staged.metadata().map_or(0, |found| found.len());
            let old = all.files.get(&source).filter(|old| same(old));
            let written = old.and_then(|old| old.written).map(|written| written.min(there));
            all.files.insert(source, Transfer { destination, size, written });
        }
        Ok(())
    })
}

/// Takes files off again.
///
/// # Errors
/// If the transfer file cannot be changed.
pub(super) fn leave(path: &Path, sources: &[String]) -> Result<()> {
    if sources.is_empty() {
        return Ok(());
    }
    update_or_renew(path, |all: &mut TransferFile| {
        sources.iter().for_each(|source| drop(all.files.remove(source)));
        Ok(())
    })
}
