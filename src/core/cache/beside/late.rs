//! Checksums that a seal has left out. Nothing needs one before somebody reads the file: where the
//! scheme does not read it (SINGLE), the program does not wait for it either. A thread that runs
//! when a processor has nothing else to do reads the file later and puts the checksum into the
//! rank's record. It counts only if nobody has written to the file since the seal, which inode,
//! size and times tell (`untouched.rs`); until then, and without one, a file is not compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use crate::cache::node::untouched;
use crate::cache::{Catalog, CatalogEntry, Ctx, FilemapFile, Prepared};
use crate::error::{Error, Result};
use crate::files::Crc32;
use crate::records::{DatasetRecord, FileContent, FileMeta, RecordedState};
use crate::system::{block_signals, run_when_idle};

/// One rank's checksums that are still to be taken, those of the newest dataset first.
pub struct LateChecksums {
    enter: Enter,
    work: Option<LateWork>,
    /// Epochs of seals that have been looked at.
    done: Vec<u64>,
}

struct LateWork {
    record: DatasetRecord,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<ByName>>,
}

type Enter = Arc<dyn Fn() + Send + Sync>;

/// Checksums by the names of files.
type ByName = Vec<(String, u32)>;

impl LateChecksums {
    /// Begins nothing yet. Each thread calls `enter` first.
    pub fn new(enter: impl Fn() + Send + Sync + 'static) -> Self {
        LateChecksums { enter: Arc::new(enter), work: None, done: Vec::new() }
    }

    /// Records what a thread has found, and starts one if there is work. To be called now and then.
    /// A newer seal ends the work on an older one, which begins anew when there is nothing else.
    ///
    /// # Errors
    /// If the record cannot be written; the files stay without checksums.
    pub fn advance(&mut self, filemap: &FilemapFile) -> Result<()> {
        let newest = filemap.find(|record| {
            let waits = record.files.iter().any(is_unknown) && !self.done.contains(&record.epoch);
            waits && record.state == RecordedState::Prepared
        });
        let Some(newest) = newest else {
            self.work = None;
            return Ok(());
        };
        let work = self.work.take().filter(|work| work.record.epoch == newest.epoch);
        match work {
            Some(work) if !work.is_over() => self.work = Some(work),
            Some(work) => {
                self.note_done(&newest, filemap);
                return work.record_found(filemap);
            }
            // Until the commit the directory has another name.
            None if !newest.dir.exists() => {}
            None => match LateWork::begin(newest.clone(), self.enter.clone()) {
                Some(work) => self.work = Some(work),
                None => self.note_done(&newest, filemap),
            },
        }
        Ok(())
    }

    fn note_done(&mut self, record: &DatasetRecord, filemap: &FilemapFile) {
        self.done.retain(|epoch| filemap.find(|one| one.epoch == *epoch).is_some());
        self.done.push(record.epoch);
    }
}

fn is_unknown(file: &FileMeta) -> bool {
    !file.on_prefix && file.crc32.is_none()
}

impl LateWork {
    fn begin(record: DatasetRecord, enter: Enter) -> Option<LateWork> {
        let stop = Arc::<AtomicBool>::default();
        let (of, stopped) = (record.clone(), stop.clone());
        let body = move || {
            enter();
            block_signals();
            run_when_idle();
            let files = of.files.iter().filter(|file| is_unknown(file));
            let found = |file: &FileMeta| Some((file.name.clone(), read(&of, file, &stopped)?));
            files.filter_map(found).collect()
        };
        let thread = Builder::new().name("scr-checksums".into()).spawn(body).ok()?;
        Some(LateWork { record, stop, thread: Some(thread) })
    }

    fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn record_found(mut self, filemap: &FilemapFile) -> Result<()> {
        let found = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        if found.is_empty() {
            return Ok(());
        }
        filemap.amend(&self.record, |record| {
            for file in record.files.iter_mut().filter(|file| is_unknown(file)) {
                file.crc32 = found.iter().find(|(name, _)| *name == file.name).map(|one| one.1);
            }
        })
    }
}

impl Drop for LateWork {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Returns `None` if the file is not the one that was sealed, or need not be known any more.
fn read(record: &DatasetRecord, file: &FileMeta, stop: &AtomicBool) -> Option<u32> {
    let is_wanted = || {
        let same = untouched::is_untouched(record, &record.dir, file);
        if same && !stop.load(Ordering::Relaxed) { Ok(()) } else { Err(Error::Stopped) }
    };
    is_wanted().ok()?;
    let mut found = Crc32::new();
    let content = FileContent::of(&record.dir, file).ok()?;
    let read = content.pass(|_, bytes| {
        found.update(bytes);
        is_wanted()
    });
    read.ok().map(|()| found.value())
}

/// A file that several ranks have.
pub(crate) struct SharedName {
    pub name: String,
    pub ranks: Vec<usize>,
    /// All have the same content, or may have: ranks of one node wrote to one file.
    pub alike: bool,
}

impl SharedName {
    fn of(writers: &[CatalogEntry]) -> SharedName {
        let content = |writer: &CatalogEntry| Some((writer.meta.size, writer.meta.crc32?));
        let first = content(&writers[0]).filter(|_| writers.iter().all(|one| !one.meta.on_prefix));
        SharedName {
            name: writers[0].meta.name.clone(),
            ranks: writers.iter().map(|writer| writer.rank).collect(),
            alike: first.is_some() && writers.iter().all(|one| content(one) == first),
        }
    }
}

/// Lists the files that several ranks have, by name. Collective.
pub(crate) fn contested(ctx: &Ctx, sealed: &Prepared) -> Result<Vec<SharedName>> {
    let all = measured(ctx, sealed)?;
    Ok(all.chunk_by(|one, next| one.meta.name == next.meta.name).map(SharedName::of).collect())
}

/// Lists them of all their ranks, by name, with checksums as far as they can be read.
fn measured(ctx: &Ctx, sealed: &Prepared) -> Result<Vec<CatalogEntry>> {
    let all: Vec<CatalogEntry> = sealed.catalog.contested().collect();
    if !all.iter().any(|one| is_unknown(&one.meta)) {
        return Ok(all);
    }
    let own = all.into_iter().filter(|one| one.rank == ctx.world.rank());
    let measured = |mut one: CatalogEntry| {
        if is_unknown(&one.meta) {
            // What cannot be read is like nothing else.
            let content = FileContent::of(&sealed.dir, &one.meta);
            one.meta.crc32 = content.and_then(|content| content.crc32()).ok();
        }
        one.meta
    };
    let own: Vec<FileMeta> = own.map(measured).collect();
    let all = Catalog::gather(ctx.world, sealed.id, sealed.epoch, &sealed.key, &own)?;
    let mut all = all.entries;
    all.sort_by(|one, next| one.meta.name.cmp(&next.meta.name));
    Ok(all)
}
