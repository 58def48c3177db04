//! How far a node's files are on the prefix, in its transfer file. That is read and written as a
//! whole by all ranks of the node, so it is not written for every small file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::size_at;
use crate::records::{Transfer, TransferCommand, TransferFile, update, update_or_renew};
use crate::transfer::publish::options::{Options, SYNC_BYTES};
use crate::transfer::publish::stage::Stager;

/// Source, staged file, size.
pub(super) type Way = (String, PathBuf, u64);

pub(super) struct Ledger<'a> {
    transfer_file: &'a Path,
    changed: BTreeMap<String, u64>,
    /// Bytes that the transfer file does not know of.
    unsaid: u64,
}

impl<'a> Ledger<'a> {
    pub fn new(transfer_file: &'a Path) -> Self {
        Ledger { transfer_file, changed: BTreeMap::new(), unsaid: 0 }
    }

    /// Notes that `written` bytes of `source` are durable on the prefix.
    pub fn set(&mut self, source: &str, written: u64) -> Result<()> {
        let before = self.changed.insert(source.to_owned(), written).unwrap_or(0);
        self.unsaid += written.saturating_sub(before);
        if self.unsaid < SYNC_BYTES { Ok(()) } else { self.write() }
    }

    pub fn note(&mut self, stager: &mut Stager) -> Result<()> {
        let mut durable = stager.take_durable().into_iter();
        durable.try_for_each(|(source, bytes)| self.set(&source, bytes))
    }

    pub fn write(&mut self) -> Result<()> {
        self.unsaid = 0;
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

/// Enters files; what an earlier launch has written of them counts.
pub(super) fn enter(path: &Path, options: &Options, files: &[Way]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    update_or_renew(path, |all: &mut TransferFile| {
        all.command = TransferCommand::Run;
        all.percent = options.percent;
        all.bandwidth = options.bytes_per_second as f64;
        for (source, staged, size) in files {
            let destination = staged.display().to_string();
            let same = |old: &&Transfer| old.destination == destination && old.size == *size;
            let old = all.files.get(source).filter(same).and_then(|old| old.written);
            let written = old.map(|written| written.min(size_at(staged)));
            all.files.insert(source.clone(), Transfer { destination, size: *size, written });
        }
        Ok(())
    })
}

pub(super) fn complete(path: &Path, files: &[Way]) -> Result<()> {
    let mut ledger = Ledger::new(path);
    ledger.changed = files.iter().map(|(source, _, size)| (source.clone(), *size)).collect();
    ledger.write()
}

pub(super) fn leave(path: &Path, files: &[Way]) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    update_or_renew(path, |all: &mut TransferFile| {
        files.iter().for_each(|(source, ..)| drop(all.files.remove(source)));
        Ok(())
    })
}
