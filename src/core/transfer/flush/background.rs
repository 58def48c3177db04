//! One rank's own files of a dataset, flushed by a thread without communication: files that ranks
//! of other nodes wait for in mid-run.
//!
//! Each file is published by itself. When all are, the rank's mark tells so:
//! `<prefix>/.scr/background/<id>/done.<rank>.scr`. Once every rank's mark is there, whoever
//! notices first (rank 0, or the next start) writes summary and index entry.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::async_flush::PublishIf;
use super::sync_flush::keep_window;
use crate::cache::disk::names_in;
use crate::cache::{Catalog, CatalogEntry};
use crate::error::{Error, Result};
use crate::files::{CopyOptions, create_dirs, join_relative, remove_tree};
use crate::kvtree::KvTree;
use crate::log;
use crate::records::{DatasetRecord, FileMeta};
use crate::system;
use crate::transfer::prefix::index::{announce, record_flushed};
use crate::transfer::prefix::paths::{OWN_MODE, is_published, own_folder};
use crate::transfer::prefix::window::Left;
use crate::transfer::publish::about::About;
use crate::transfer::publish::journal::{Journal, Mark};
use crate::transfer::publish::single::publish_as;
use crate::transfer::publish::stage::staged_path;
use crate::transfer::publish::unfinished::note_half;

/// First part of the name of a rank's mark: all of its files are published.
const DONE: &str = "done";
/// What all ranks are about to publish.
const BEGUN: &str = "begun";
/// A file of the rank could not be.
const FAILED: &str = "failed";

/// Between two looks at whether it is a rank's turn, at most: all that wait look at the prefix.
const TURN_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Between two looks at whether a file is there, at most.
const LOOK_MAX: Duration = Duration::from_millis(250);

/// What a [`Background`] flushes.
#[derive(Debug, Clone)]
pub struct BackgroundJob {
    /// The rank's record of the dataset.
    pub record: DatasetRecord,
    /// World rank.
    pub rank: usize,
    /// Ranks in the world.
    pub world_size: usize,
    /// The prefix.
    pub prefix: PathBuf,
    /// Ranks that flush at the same time.
    pub width: usize,
}

/// Notes on the prefix that the files of `record` begin to come there. To be called by rank 0
/// before any rank starts a [`Background`] for this dataset: an older one whose files have the same
/// names (a series without ids) is not restorable any more, since the new files take their names
/// one by one. Of a series without ids its files are kept if `keep` (`SCR_PREFIX_SIZE`) is more
/// than one. The next start learns which files these are, those of all `ranks`: it may find a part
/// of them, and no cache. Local.
///
/// # Errors
/// If the index cannot be read or written; then no flush should begin.
pub fn announce_background(
    prefix: &Path,
    record: &DatasetRecord,
    ranks: usize,
    keep: u64,
) -> Result<Vec<u64>> {
    let about = About::of_record(record, ranks);
    let replaced = announce(prefix, &about.dataset, keep)?;
    // That a catalog is damaged must not keep the files from whoever waits for them.
    if let Some(all) = Catalog::read(&record.dir).ok().flatten() {
        write_catalog(prefix, &about, all, &format!("{BEGUN}.scr"))?;
    }
    Ok(replaced)
}

/// What the rank wants of its thread.
#[derive(Debug, Default)]
struct Wish {
    stop: AtomicBool,
    /// The rank waits for it: no turns any more.
    hurry: AtomicBool,
}

/// A flush that is under way.
#[derive(Debug)]
pub struct Background {
    wish: Arc<Wish>,
    thread: Option<JoinHandle<Result<u64>>>,
}

impl Background {
    /// Starts the thread; `on_thread` runs first on it (hooks off). A file that `publish_if`
    /// refuses stays as it is on the prefix, and the dataset does not enter the index.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        job: BackgroundJob,
        on_thread: impl FnOnce() + Send + 'static,
        publish_if: PublishIf,
    ) -> Result<Background> {
        let wish = Arc::new(Wish::default());
        let seen = wish.clone();
        let work = move || {
            on_thread();
            system::block_signals();
            flush(&job, &seen, &publish_if)
        };
        let thread = Builder::new()
            .name("scr-flush".into())
            .spawn(work)
            .map_err(|e| Error::Process(format!("cannot start the flush thread: {e}")))?;
        Ok(Background { wish, thread: Some(thread) })
    }

    /// Tells whether it has come to its end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end. Gives the number of files copied.
    ///
    /// # Errors
    /// The first file that could not be published; the others are.
    pub fn finish(mut self) -> Result<u64> {
        self.wish.hurry.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            _ => Err(Error::Defect("the flush thread ended by a defect".into())),
        }
    }

    /// Makes it stop within a few megabytes, and waits for that. What it has published stays.
    pub fn stop(mut self) {
        self.wish.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Stopped is what was wanted; how far it came is told by its mark.
            let _ = thread.join();
        }
    }
}

fn flush(job: &BackgroundJob, wish: &Wish, publish_if: &PublishIf) -> Result<u64> {
    let stop = &wish.stop;
    wait_for_turn(job, wish);
    let mut first_error = None;
    let (mut copied, mut refused) = (0, false);
    for file in job.record.files.iter().filter(|file| !file.on_prefix) {
        if stop.load(Ordering::Relaxed) {
            return Ok(copied);
        }
        match publish(job, file, stop, publish_if) {
            Ok(true) => copied += 1,
            Ok(false) => refused = true,
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    match first_error {
        Some(error) => {
            // Without it the next rank waits until it is needed; nothing else depends on it.
            let _ = write_mark(job, FAILED);
            Err(error)
        }
        None if refused => write_mark(job, FAILED).map(|()| copied),
        None => write_mark(job, DONE).map(|()| copied),
    }
}

/// Waits until so many ranks before have come to their end that no more than the width are at work.
fn wait_for_turn(job: &BackgroundJob, wish: &Wish) {
    let Some(before) = job.rank.checked_sub(job.width) else { return };
    let folder = marks_folder(&job.prefix, job.record.dataset_id);
    let marks = [DONE, FAILED].map(|stem| folder.join(mark_name(stem, before)));
    let mut pause = Duration::from_millis(20);
    while !marks.iter().any(|mark| mark.exists()) {
        if wish.stop.load(Ordering::Relaxed) || wish.hurry.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(TURN_PAUSE_MAX);
    }
}

/// Whether the prefix has the file now.
fn publish(
    job: &BackgroundJob,
    file: &FileMeta,
    stop: &AtomicBool,
    publish_if: &PublishIf,
) -> Result<bool> {
    let target = join_relative(&job.prefix, &file.name)?;
    if is_published(&target, file) {
        return Ok(true);
    }
    let mut go_on = |_| match stop.load(Ordering::Relaxed) {
        true => Err(Error::Stopped),
        false => Ok(()),
    };
    let source = job.record.dir.join(&file.name);
    let how = CopyOptions { progress: Some(&mut go_on), ..CopyOptions::default() };
    let wanted = |publish: &mut dyn FnMut() -> Result<()>| publish_if(&file.name, publish);
    let done = publish_as(&job.prefix, &source, &target, job.record.epoch, Some(file), how, wanted);
    match done {
        Ok((_, wanted)) => Ok(wanted),
        // The program may have moved the directory away meanwhile: the file is not wanted any more.
        Err(error) => {
            let mut error = Some(error);
            publish_if(&file.name, &mut || error.take().map_or(Ok(()), Err))
        }
    }
}

fn marks_folder(prefix: &Path, id: u64) -> PathBuf {
    own_folder(prefix).join("background").join(id.to_string())
}

fn mark_name(stem: &str, rank: usize) -> String {
    format!("{stem}.{rank}.scr")
}

fn write_mark(job: &BackgroundJob, stem: &str) -> Result<()> {
    let about = About::of_record(&job.record, job.world_size);
    let rank = job.rank;
    let files = job.record.files.iter().cloned();
    let entries = files.map(|meta| CatalogEntry { rank, meta }).collect();
    let catalog = Catalog {
        id: about.dataset.id,
        epoch: about.dataset.epoch,
        key: about.dataset.key.clone(),
        entries,
    };
    write_catalog(&job.prefix, &about, catalog, &mark_name(stem, rank))
}

fn write_catalog(prefix: &Path, about: &About, files: Catalog, name: &str) -> Result<()> {
    let mut tree = KvTree::new();
    tree.set("ABOUT", about.to_tree());
    tree.set("FILES", files.to_tree());
    let folder = marks_folder(prefix, about.dataset.id);
    create_dirs(&folder, OWN_MODE)?;
    tree.write_file(folder.join(name))
}

/// Completes dataset `id` once all ranks have marked it as published by their [`Background`], and
/// gives `None` before: its summary and index entry are written, the marks removed, and of its
/// series the newest `keep` stay on the prefix (`SCR_PREFIX_SIZE`). Gives those that went. Called
/// by rank 0, local.
///
/// # Errors
/// If a mark is damaged, or summary or index cannot be written.
pub fn complete_background(prefix: &Path, id: u64, keep: u64) -> Result<Option<Left>> {
    let folder = marks_folder(prefix, id);
    let mut names = names_in(&folder)?;
    names.retain(|name| name.starts_with("done.") && name.ends_with(".scr"));
    let Some(first) = names.first() else { return Ok(None) };
    let Some((about, _)) = read_mark(&folder.join(first))? else { return Ok(None) };
    if names.len() < about.ranks {
        return Ok(None);
    }
    let mut entries = Vec::new();
    for name in &names {
        let Some((theirs, catalog)) = read_mark(&folder.join(name))? else { return Ok(None) };
        if theirs.dataset.epoch != about.dataset.epoch {
            // Marks of an earlier seal: the ranks concerned have not written theirs anew yet.
            return Ok(None);
        }
        entries.extend(catalog.entries);
    }
    entries.sort_by_key(|entry| entry.rank);
    let dataset = about.over(&entries);
    record_flushed(prefix, &dataset, about.ranks, &entries)?;
    remove_tree(&folder)?;
    Ok(Some(keep_window(prefix, &dataset, keep)))
}

/// Settles what an earlier launch has left: datasets that all ranks have marked get summary and
/// index entry; the marks of all others go, damaged ones among them, as no thread is left that
/// would go on, and the next flush of such a dataset finds the files that are there. Returns those
/// that were entered, with what has left the prefix for each. Called by rank 0 at the start, local.
///
/// # Errors
/// If the marks cannot be listed or removed, or summary or index cannot be written.
pub fn settle_background(prefix: &Path, keep: u64) -> Result<Vec<(u64, Left)>> {
    let mut entered = Vec::new();
    for id in background_ids(prefix)? {
        match complete_background(prefix, id, keep) {
            Ok(Some(left)) => entered.push((id, left)),
            Ok(None) => note_begun(prefix, id)?,
            Err(error @ Error::Corrupt { .. }) => {
                log::message(1, format_args!("dataset {id}: {error}; its flush begins anew"));
            }
            Err(other) => return Err(other),
        }
        remove_tree(&marks_folder(prefix, id))?;
    }
    Ok(entered)
}

/// A part of the files may be there, and no rank goes on.
fn note_begun(prefix: &Path, id: u64) -> Result<()> {
    let path = marks_folder(prefix, id).join(format!("{BEGUN}.scr"));
    match read_mark(&path) {
        Ok(Some((about, all))) => note_half(prefix, &about, &all.entries),
        Ok(None) | Err(Error::Corrupt { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// `None`: it is not there, since another thread may have completed the dataset since it was
/// listed.
fn read_mark(path: &Path) -> Result<Option<(About, Catalog)>> {
    let Some(tree) = KvTree::read_file(path)? else { return Ok(None) };
    let about = About::from_tree(tree.child("ABOUT"));
    let catalog = Catalog::from_tree(tree.child("FILES"));
    let mark = about.zip(catalog);
    mark.map(Some).ok_or_else(|| Error::corrupt(path, "it is not the mark of a flush"))
}

/// Returns the ids of all datasets with marks: what the next start, or rank 0, may be able to
/// complete. Local.
///
/// # Errors
/// If the folder is there and cannot be read.
pub fn background_ids(prefix: &Path) -> Result<Vec<u64>> {
    let names = names_in(&own_folder(prefix).join("background"))?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// How a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The file is there.
    Come,
    /// All that was asked for has come; the file is not among it.
    Answered,
    /// Nothing comes.
    Nothing,
}

/// A file that is waited for, of a dataset that some flush without communication brings.
pub struct Awaited<'a> {
    target: &'a Path,
    epoch: u64,
    journal: Journal,
    /// Size of the staged file at the last look.
    staged_bytes: u64,
}

impl<'a> Awaited<'a> {
    /// Prepares to wait for the file `target` of dataset `id`, sealed with `epoch`.
    #[must_use]
    pub fn new(prefix: &Path, target: &'a Path, id: u64, epoch: u64) -> Self {
        Awaited { target, epoch, journal: Journal::new(prefix, id), staged_bytes: 0 }
    }

    /// Waits until the published copy of `meta` is there; gives up when nothing has come on for
    /// `patience`, or when the folder `request` has gone, which whoever answers removes when all
    /// has come. A flush that is under way comes on, however long it takes. Local.
    #[must_use]
    pub fn wait(&mut self, meta: &FileMeta, request: Option<&Path>, patience: Duration) -> Waited {
        let mut since = Instant::now();
        let mut pause = Duration::from_millis(5);
        loop {
            let answered = request.is_some_and(|request| !request.exists());
            if is_published(self.target, meta) {
                return Waited::Come;
            }
            if answered {
                return Waited::Answered;
            }
            if since.elapsed() >= patience {
                if !self.comes_on() {
                    return Waited::Nothing;
                }
                since = Instant::now();
            }
            std::thread::sleep(pause);
            // All ranks may wait for one file.
            pause = (pause * 2).min(LOOK_MAX);
        }
    }

    fn comes_on(&mut self) -> bool {
        let staged = staged_path(self.target, self.epoch);
        let bytes = staged.ok().and_then(|path| Some(path.metadata().ok()?.len())).unwrap_or(0);
        let grows = bytes > std::mem::replace(&mut self.staged_bytes, bytes);
        let well = || self.journal.marks(Mark::Failed).is_ok_and(|failed| failed.is_empty());
        grows || (self.journal.has_plan() && well())
    }
}
