//! How far a rank's files are on the prefix, as the node's transfer file says it.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::records::{TransferFile, update};

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

    /// `written` bytes of `source` are durable on the prefix.
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
