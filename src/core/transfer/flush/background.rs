//! One rank's own files of a dataset, flushed by a thread without communication: ranks of other
//! nodes wait for them in mid-run.
//!
//! Each file is published by itself; then the rank's mark
//! `<prefix>/.scr/background/<id>/done.<rank>.scr` tells so. With the marks of all ranks, whoever
//! notices first (rank 0, or the next start) writes summary and index entry.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::async_flush::PublishIf;
use super::sync_flush::{keep_window, part_of};
use crate::cache::disk::names_in;
use crate::cache::{Catalog, CatalogEntry, whole_files};
use crate::error::{Error, Result};
use crate::files::{
    CopyOptions, Together, create_dirs, join_relative, remove_file_if_there, remove_tree,
};
use crate::kvtree::KvTree;
use crate::log;
use crate::records::{DatasetRecord, FileMeta, Summary};
use crate::system;
use crate::transfer::prefix::index::{announce, record_flushed};
use crate::transfer::prefix::paths::{OWN_MODE, folder, is_published, own_folder};
use crate::transfer::prefix::window::Left;
use crate::transfer::publish::about::About;
use crate::transfer::publish::journal::{Journal, Mark};
use crate::transfer::publish::single::publish_as;
use crate::transfer::publish::stage::{Stager, publish_staged_of, remove_staged};
use crate::transfer::publish::staged::staged_path;
use crate::transfer::publish::unfinished::note_half;

const DONE: &str = "done";
const BEGUN: &str = "begun";
const FAILED: &str = "failed";

/// All ranks that wait look at the prefix.
const TURN_PAUSE_MAX: Duration = Duration::from_secs(1);

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

/// Notes on the prefix that the files of `record` begin to come there, and which files of all
/// `ranks` these are: the next start may find a part of them, and no cache. Older datasets with the
/// same names, whose ids are returned, are not restorable any more; their files are kept if the
/// window `keep` (`SCR_PREFIX_SIZE`) has room. Rank 0 calls it before any rank starts a
/// [`Background`].
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
    /// Starts the thread; `on_thread` runs first on it (hooks off). If `publish_if` refuses a file,
    /// the dataset does not enter the index.
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
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end. Returns the number of files copied, or the first error.
    pub fn finish(mut self) -> Result<u64> {
        self.wish.hurry.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            _ => Err(Error::Defect("the flush thread ended by a defect".into())),
        }
    }

    /// Makes it stop within a few megabytes. What it has published stays.
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
    if is_flushed(&job.prefix, job.record.dataset_id, job.record.epoch) {
        return write_mark(job, &job.record, DONE).map(|()| 0);
    }
    let mut first_error = None;
    let (mut copied, mut refused) = (0, false);
    let mut record = job.record.clone();
    for file in record.files.iter_mut().filter(|file| !file.on_prefix) {
        if stop.load(Ordering::Relaxed) {
            return Ok(copied);
        }
        match publish(job, file, stop, publish_if) {
            Ok(true) => copied += 1,
            Ok(false) => refused = true,
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    let has_failed = refused || first_error.is_some();
    let marked = write_mark(job, &record, if has_failed { FAILED } else { DONE });
    // Without the mark of a failure the next rank waits until it is needed.
    first_error.map_or(marked, Err)?;
    if job.record.has_parts() {
        all_marked(&job.prefix, job.record.dataset_id)?
            .map_or(Ok(()), |(_, entries)| name_wholes(&job.prefix, job.record.epoch, &entries))?;
    }
    Ok(copied)
}

/// Tells whether the prefix has dataset `id` as it was sealed with `epoch`, or had it: what is
/// there may have been changed since.
#[must_use]
pub fn is_flushed(prefix: &Path, id: u64, epoch: u64) -> bool {
    let summary = Summary::read_from(&folder(prefix, id));
    summary.is_ok_and(|found| found.is_some_and(|it| it.dataset.epoch == epoch))
}

/// Tells so, too, as soon as all ranks have staged it, and one of them gives it its names.
#[must_use]
pub fn has_come(prefix: &Path, id: u64, epoch: u64) -> bool {
    let of_seal = |marked: Option<(About, _)>| marked.is_some_and(|it| it.0.dataset.epoch == epoch);
    is_flushed(prefix, id, epoch) || all_marked(prefix, id).is_ok_and(of_seal)
}

/// Gives files of which all ranks have staged their parts their names, which who comes next finds
/// done.
fn name_wholes(prefix: &Path, epoch: u64, entries: &[CatalogEntry]) -> Result<()> {
    let mut dirs = BTreeSet::new();
    for entry in whole_files(entries).iter().filter(|entry| entry.meta.is_shared) {
        if !entry.meta.on_prefix {
            dirs.insert(publish_staged_of(prefix, &entry.meta, epoch)?);
        }
    }
    Together::default().finish_with(dirs)
}

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

/// Notes the checksum, if it was not known before.
fn publish(
    job: &BackgroundJob,
    file: &mut FileMeta,
    stop: &AtomicBool,
    publish_if: &PublishIf,
) -> Result<bool> {
    let target = join_relative(&job.prefix, file.whole_name())?;
    if file.part.is_none() && is_published(&target, file) {
        return Ok(true);
    }
    let mut go_on = |_| if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) };
    let source = job.record.dir.join(&file.name);
    let how = CopyOptions { progress: Some(&mut go_on), ..CopyOptions::default() };
    if file.part.is_some() {
        // It gets its name when all parts are there.
        let mut stager = Stager::default();
        let found = stager.stage(&job.record.dir, &job.prefix, job.record.epoch, file, how)?;
        file.note_prefix_checksum(found);
        stager.finish()?;
        return publish_if(file.whole_name(), &mut || Ok(()));
    }
    let wanted = |publish: &mut dyn FnMut() -> Result<()>| publish_if(&file.name, publish);
    let done = publish_as(&job.prefix, &source, &target, job.record.epoch, Some(file), how, wanted);
    match done {
        Ok((found, wanted)) => {
            file.note_prefix_checksum(found.crc32);
            Ok(wanted)
        }
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

fn write_mark(job: &BackgroundJob, record: &DatasetRecord, stem: &str) -> Result<()> {
    let about = About::of_record(&job.record, job.world_size);
    let files = part_of(job.rank, record);
    write_catalog(&job.prefix, &about, files, &mark_name(stem, job.rank))
}

fn write_catalog(prefix: &Path, about: &About, files: Catalog, name: &str) -> Result<()> {
    let mut tree = KvTree::new();
    tree.set("ABOUT", about.to_tree());
    tree.set("FILES", files.to_tree());
    let folder = marks_folder(prefix, about.dataset.id);
    create_dirs(&folder, OWN_MODE)?;
    tree.write_file(folder.join(name))
}

/// Completes dataset `id` once all ranks have marked it as published (`None` before): summary,
/// index entry, and the window of `keep` checkpoints (`SCR_PREFIX_SIZE`). Returns what has left
/// that. Rank 0 calls it.
pub fn complete_background(prefix: &Path, id: u64, keep: u64) -> Result<Option<Left>> {
    let Some((about, entries)) = all_marked(prefix, id)? else { return Ok(None) };
    name_wholes(prefix, about.dataset.epoch, &entries)?;
    let dataset = about.over(&entries);
    record_flushed(prefix, &dataset, about.ranks, &entries)?;
    remove_marks(prefix, &about)?;
    Ok(Some(keep_window(prefix, &dataset, keep)))
}

/// Removes the marks of this seal of the dataset. One that came later may have some: its flush
/// would never end without them.
fn remove_marks(prefix: &Path, about: &About) -> Result<()> {
    let folder = marks_folder(prefix, about.dataset.id);
    for name in names_in(&folder)?.iter().filter(|name| name.ends_with(".scr")) {
        let path = folder.join(name);
        let epoch = read_mark(&path).ok().flatten().map(|(of, _)| of.dataset.epoch);
        if epoch.is_none_or(|epoch| epoch == about.dataset.epoch) {
            remove_file_if_there(&path)?;
        }
    }
    let _ = fs::remove_dir(&folder); // it stays if there are others
    Ok(())
}

/// `None` as long as not all ranks have marked their files as published.
fn all_marked(prefix: &Path, id: u64) -> Result<Option<(About, Vec<CatalogEntry>)>> {
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
    Ok(Some((about, entries)))
}

/// Settles what an earlier launch has left: datasets that all ranks have marked are completed; the
/// marks of all others go, as no thread is left that would go on. Returns what was completed, with
/// what has left the prefix for it. Rank 0 calls it at the start.
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
        remove_parts(prefix, id)?;
        remove_tree(&marks_folder(prefix, id))?;
    }
    Ok(entered)
}

/// Nobody goes on with files of which not all parts have come.
fn remove_parts(prefix: &Path, id: u64) -> Result<()> {
    let folder = marks_folder(prefix, id);
    for name in names_in(&folder)? {
        let Ok(Some((about, files))) = read_mark(&folder.join(name)) else { continue };
        for entry in files.entries.iter().filter(|entry| entry.meta.part.is_some()) {
            let target = join_relative(prefix, entry.meta.whole_name())?;
            remove_staged(&target, about.dataset.epoch)?;
        }
    }
    Ok(())
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

/// `None`: another thread may have completed the dataset since it was listed.
fn read_mark(path: &Path) -> Result<Option<(About, Catalog)>> {
    let Some(tree) = KvTree::read_file(path)? else { return Ok(None) };
    let about = About::from_tree(tree.child("ABOUT"));
    let catalog = Catalog::from_tree(tree.child("FILES"));
    let mark = about.zip(catalog);
    mark.map(Some).ok_or_else(|| Error::corrupt(path, "it is not the mark of a flush"))
}

/// Returns the ids of all datasets with marks.
pub fn background_ids(prefix: &Path) -> Result<Vec<u64>> {
    let names = names_in(&own_folder(prefix).join("background"))?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// How a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The file is there.
    Come,
    /// All that was asked for has come, without the file.
    Answered,
    /// Nothing comes.
    Nothing,
}

/// A file that is waited for, of a dataset that a flush without communication brings.
pub struct Awaited<'a> {
    target: &'a Path,
    epoch: u64,
    journal: Journal,
    /// Size of the staged file at the last look.
    staged_bytes: u64,
}

impl<'a> Awaited<'a> {
    /// Prepares to wait for the file `target` of dataset `id`, sealed with `epoch`.
    pub fn new(prefix: &Path, target: &'a Path, id: u64, epoch: u64) -> Self {
        Awaited { target, epoch, journal: Journal::new(prefix, id), staged_bytes: 0 }
    }

    /// Waits until the published copy of `meta` is there; gives up when nothing has come on for
    /// `patience`, or when the folder `request` has gone, which whoever answers removes when all
    /// has come, or when the name `leads` to something else now.
    pub fn wait(
        &mut self,
        meta: &FileMeta,
        request: Option<&Path>,
        patience: Duration,
        leads: impl Fn() -> bool,
    ) -> Waited {
        let mut since = Instant::now();
        let mut pause = Duration::from_millis(5);
        loop {
            let answered = request.is_some_and(|request| !request.exists()) || leads();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// They went with those of the seal before, whose flush was over.
    #[test]
    fn marks_of_a_newer_seal_stay() {
        let dir = tempfile::tempdir().unwrap();
        let sealed = |epoch| {
            let record = DatasetRecord { dataset_id: 3, epoch, ..DatasetRecord::default() };
            About::of_record(&record, 2)
        };
        let (older, newer) = (sealed(5), sealed(6));
        for (about, name) in [(&older, "done.0.scr"), (&older, "done.1.scr"), (&newer, "begun.scr")]
        {
            write_catalog(dir.path(), about, Catalog::default(), name).unwrap();
        }
        remove_marks(dir.path(), &older).unwrap();
        assert_eq!(names_in(&marks_folder(dir.path(), 3)).unwrap(), ["begun.scr"]);
        remove_marks(dir.path(), &newer).unwrap();
        assert!(!marks_folder(dir.path(), 3).exists());
    }
}
