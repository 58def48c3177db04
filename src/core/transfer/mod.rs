//! Between cache and prefix: flush, journaled publish, what the prefix has.
//!
//! | file | job |
//! |---|---|
//! | `stage.rs` | one file: staged beside its target, synced, renamed |
//! | `journal.rs` | what the next start must complete or roll back |
//! | `flush.rs` | a whole dataset, all ranks together |
//! | `background.rs` | a rank's own files on a helper thread, without communication |
//! | `prefix.rs` | index and summaries: what is on the prefix, and whether it is whole |

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cache::Ctx;
use crate::error::Result;
use crate::records::{DatasetKey, FileMeta};

/// What a flush did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlushReport {
    /// Files of all ranks that were copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// Ids of older datasets whose files on the prefix it replaced.
    pub replaced: Vec<u64>,
}

/// Copies the sealed dataset `id` to the prefix: stage, agree, journal, rename, summary, index.
/// Collective. On `Err` the prefix holds no part of it under a final name.
pub fn flush_sync(ctx: &Ctx, id: u64) -> Result<FlushReport> {
    todo!()
}

/// What [`recover_journal`] did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JournalReport {
    /// Datasets whose publish was completed.
    pub completed: Vec<u64>,
    /// Datasets whose staged files were removed.
    pub rolled_back: Vec<u64>,
}

/// Completes or rolls back what an interrupted flush left. Collective, at start.
pub fn recover_journal(ctx: &Ctx) -> Result<JournalReport> {
    todo!()
}

/// Copies one file to its place on the prefix by itself: staged as `.<name>.scr-<epoch>` in the
/// target's directory, synced, renamed. Missing parents are made. Local. With `expected` (of the
/// seal) the content is checked on the way; mode and times follow it, else those of `source`.
pub fn publish_file(
    source: &Path,
    target: &Path,
    epoch: u64,
    expected: Option<&FileMeta>,
) -> Result<FileMeta> {
    todo!()
}

/// One rank's own files of a dataset, flushed by a thread of its own without communication.
pub struct Background {}

/// What a [`Background`] needs.
pub struct BackgroundJob {
    /// Dataset id.
    pub id: u64,
    /// Series, captured id, generation.
    pub key: DatasetKey,
    /// Epoch of the seal.
    pub epoch: u64,
    /// World rank.
    pub rank: usize,
    /// Ranks in the world.
    pub world_size: usize,
    /// Dataset directory on this node.
    pub dir: PathBuf,
    /// The prefix.
    pub prefix: PathBuf,
    /// The rank's files.
    pub files: Vec<FileMeta>,
}

impl Background {
    /// Starts the thread; `on_thread` runs first on it (hooks off, signals blocked).
    pub fn start(
        job: BackgroundJob,
        on_thread: impl FnOnce() + Send + 'static,
    ) -> Result<Background> {
        todo!()
    }
    /// `None` while it runs, then its result (copied files).
    pub fn poll(&self) -> Option<std::result::Result<u64, String>> {
        todo!()
    }
    /// Makes it stop after the file in hand, and waits for that.
    pub fn stop(self) {
        todo!()
    }
}

/// Whether all ranks have marked dataset `id` as published by their [`Background`]; if so its
/// summary and index entry are written. Called by rank 0, local.
pub fn complete_background(prefix: &Path, id: u64, world_size: usize) -> Result<bool> {
    todo!()
}

/// Waits until `path` is there with `size` bytes, at most `deadline`. Local.
pub fn wait_for_file(path: &Path, size: u64, deadline: Duration) -> bool {
    todo!()
}

/// A dataset on the prefix.
#[derive(Debug, Clone, PartialEq)]
pub struct OnPrefix {
    /// Dataset id.
    pub id: u64,
    /// Series, captured id, generation.
    pub key: DatasetKey,
    /// Complete, not failed since, not replaced by a newer one under the same names.
    pub restorable: bool,
    /// Marked as current in the index.
    pub current: bool,
}

/// All datasets that the index knows, newest first; empty without an index. Local: rank 0 reads.
pub fn list_prefix(prefix: &Path) -> Result<Vec<OnPrefix>> {
    todo!()
}

/// The newest restorable one of each series. Pure.
pub fn newest_on_prefix(index: &[OnPrefix]) -> Vec<&OnPrefix> {
    todo!()
}

/// Checks dataset `id` on the prefix against its summary: sizes, with `crc` contents too. A failure
/// is recorded in the index. Returns the names of all its files, and what is wrong with it if
/// anything is, so that the name space can hide them. Collective.
pub fn verify_on_prefix(ctx: &Ctx, id: u64, crc: bool) -> Result<Verified> {
    todo!()
}

/// Outcome of [`verify_on_prefix`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verified {
    /// Names of the dataset's files, relative to the prefix.
    pub names: Vec<String>,
    /// What is wrong, one sentence; `None` if all is well.
    pub fault: Option<String>,
}
