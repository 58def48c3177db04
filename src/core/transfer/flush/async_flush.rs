//! A whole dataset to the prefix while the program goes on: a thread of each rank copies, without
//! communication after the begin.
//!
//! 1. [`AsyncFlush::begin`], collective: journal and transfer file (manual 1.1, section 9.7) say
//!    what each node will stage; WRITTEN counts what is durable.
//! 2. Threads stage their ranks' files. The leader of a node marks in the journal that all are;
//!    then rank 0 commits ([`AsyncFlush::advance`]).
//! 3. Threads give files their names, leaders mark nodes as published, rank 0 writes the index.
//!
//! Only leaders look at the prefix; ranks of a node hear of one another by a [`Sign`]. A start
//! after a crash completes what is committed or staged everywhere, and goes on with what is not.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::leader_sign::{NewChecksums, Sign};
use super::ledger::{self, Ledger, Way};
use super::polling;
use super::sync_flush::{Announced, announce_flush, keep_window};
use super::throttle::Throttle;
use super::turns::{self, Turn};
use super::work::LimitedWork;
use crate::cache::agree::agree;
use crate::cache::{Catalog, CatalogEntry, Ctx};
use crate::error::{Error, Result};
use crate::files::{CopyOptions, Durable, Together, join_relative};
use crate::log::{self, messages};
use crate::records::{DatasetRecord, FileMeta, Record as _, TransferFile};
use crate::system;
use crate::transfer::prefix::index::{announce, record_flushed};
use crate::transfer::prefix::window::Left;
use crate::transfer::publish::about::About;
use crate::transfer::publish::journal::{Journal, Mark};
use crate::transfer::publish::options::{Options, SYNC_BYTES};
use crate::transfer::publish::parts::is_named;
use crate::transfer::publish::stage::{Stager, publish_staged_of, remove_staged};
use crate::transfer::publish::staged::staged_path;
use crate::transfer::publish::unfinished::close_half;

const LOOK: Duration = Duration::from_millis(20);
/// All leaders together look no oftener than 10,000 times a second.
const LOOK_PER_NODE: Duration = Duration::from_micros(100);

/// Publishes a file by calling its argument, unless the program has deleted or replaced it since;
/// says whether it did.
pub type PublishIf = Box<dyn Fn(&str, &mut dyn FnMut() -> Result<()>) -> Result<bool> + Send>;

/// How far a flush has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advance {
    /// Under way.
    Pending,
    /// On the prefix, with summary and index.
    Done,
    /// A file could not be written, for this reason.
    Failed(String),
}

pub struct Under(Arc<FlushJob>);

/// A flush that is under way; one on each rank.
pub struct AsyncFlush {
    job: Arc<FlushJob>,
    thread: Option<JoinHandle<()>>,
    outcome: Option<Advance>,
    /// What has left the prefix for it (`SCR_PREFIX_SIZE`); known to rank 0.
    pub left: Left,
}

struct FlushJob {
    rank: usize,
    record: DatasetRecord,
    /// Of the files of which this rank has a part, those that it gives their names.
    wholes: BTreeSet<String>,
    dir: PathBuf,
    /// World rank of the node's leader, if it is this one.
    leads: Option<usize>,
    writers: Vec<usize>,
    node_files: Vec<Way>,
    about: About,
    prefix: PathBuf,
    transfer_file: PathBuf,
    journal: Journal,
    control: PathBuf,
    /// Pause of a leader between two looks at the prefix.
    look: Duration,
    options: Options,
    turn: Turn,
    stop: AtomicBool,
    /// The program waits: no limits any more.
    hurry: AtomicBool,
    /// All of this rank's files have their final names.
    finished: AtomicBool,
    /// This rank has failed, and its mark that says so cannot be written either.
    unheard: AtomicBool,
}

impl AsyncFlush {
    /// Begins the flush of dataset `id`, which goes after that of `after`, since they may have the
    /// same names. `left_out` is that of [`crate::transfer::flush_sync`]; `on_thread` runs first on
    /// the thread. Collective; on an error nothing is under way.
    pub fn begin(
        ctx: &Ctx,
        id: u64,
        left_out: &dyn Fn(&str) -> bool,
        after: Option<Under>,
        on_thread: impl FnOnce() + Send + 'static,
        publish_if: PublishIf,
    ) -> Result<AsyncFlush> {
        let Announced { record, part, about, journal, wholes, .. } =
            announce_flush(ctx, id, &[], left_out)?;
        let copied = record.files.iter().filter(|file| !file.on_prefix);
        let turn = turns::gather(ctx, copied.map(|file| file.size).sum())?;
        let nodes = ctx.world.size() / ctx.node.size().max(1);
        let dir = ctx.layout.data_dir(&record);
        let (writers, node_files) = node_files(ctx, &part, &dir)?;
        let job = Arc::new(FlushJob {
            rank: ctx.world.rank(),
            dir,
            leads: ctx.is_node_leader().then(|| ctx.world.rank()),
            writers,
            node_files,
            about,
            prefix: ctx.prefix.to_path_buf(),
            transfer_file: ctx.layout.control_dir.join(TransferFile::NAME),
            journal,
            control: ctx.layout.control_dir.clone(),
            look: LOOK.max(LOOK_PER_NODE * nodes as u32),
            options: ctx.transfer,
            turn,
            record,
            wholes,
            stop: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            unheard: AtomicBool::new(false),
        });
        let planned = if ctx.world.rank() == 0 { job.journal.plan(&job.about) } else { Ok(()) };
        let planned = planned.and_then(|()| job.clear_signs());
        let planned = planned.and_then(|()| job.enter());
        let before = after.map(|Under(job)| job);
        let work = job.clone();
        let (go, gate) = mpsc::channel::<()>();
        let body = move || {
            on_thread();
            system::block_signals();
            // It must not go on beside whatever the ranks do instead.
            if gate.recv().is_ok() {
                work.run(before.as_deref(), &publish_if);
            }
        };
        let start = || Builder::new().name("scr-flush".into()).spawn(body);
        let unable = |e| Error::Process(format!("cannot start a thread: {e}"));
        let entered = planned.is_ok();
        match agree(ctx.world, planned.and_then(|()| start().map_err(unable))) {
            Ok(thread) => {
                let _ = go.send(());
                Ok(AsyncFlush { job, thread: Some(thread), outcome: None, left: Left::new() })
            }
            Err(error) => {
                if entered {
                    let _ = job.leave();
                }
                Err(error)
            }
        }
    }

    /// Tells whether it is not known yet how it ends.
    pub fn is_pending(&self) -> bool {
        self.outcome.is_none()
    }

    /// Returns what [`AsyncFlush::advance`] has come to.
    pub fn outcome(&self) -> Advance {
        self.outcome.clone().unwrap_or(Advance::Pending)
    }

    /// Commits what is staged everywhere, records what is published everywhere. Rank 0 calls it.
    pub fn advance(&mut self) -> Advance {
        if !self.is_pending() {
            return self.outcome();
        }
        let found = self.job.advance(&mut self.left);
        let found = found.unwrap_or_else(|error| Advance::Failed(error.to_string()));
        self.outcome = Some(found.clone()).filter(|found| *found != Advance::Pending);
        found
    }

    /// Returns the handle for a flush that has to come after this one.
    pub fn under(&self) -> Under {
        Under(self.job.clone())
    }

    /// Notes that the program waits for it: limits do not hold any more.
    pub fn hurry(&self) {
        self.job.hurry.store(true, Ordering::Relaxed);
    }

    /// Tells whether this rank has failed and rank 0 cannot learn it from the prefix.
    pub fn is_unheard(&self) -> bool {
        self.job.unheard.load(Ordering::Relaxed)
    }

    /// Makes this rank's part stop within a few megabytes. What is staged stays, for a later start.
    pub fn stop(mut self) {
        self.halt_thread();
    }

    fn halt_thread(&mut self) {
        self.job.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Stopped is what was wanted.
            let _ = thread.join();
        }
        // A stale one is cleared by the next flush of the dataset.
        let _ = self.job.clear_signs();
    }

    /// Gives it up after a failure: nothing staged of it is left on the prefix. Collective.
    pub fn abandon(mut self, ctx: &Ctx) -> Result<()> {
        self.halt_thread();
        let job = &self.job;
        let removed = job.own_files().try_for_each(|file| {
            remove_staged(&join_relative(&job.prefix, file.whole_name())?, job.record.epoch)
        });
        let removed = removed.and_then(|()| job.leave());
        match agree(ctx.world, removed) {
            Ok(()) if ctx.world.rank() == 0 => drop(close_half(ctx.prefix, &job.journal)),
            Err(error @ Error::Comm(_)) => return Err(error),
            _ => {} // What cannot be removed now the next start removes.
        }
        Ok(())
    }
}

impl FlushJob {
    fn own_files(&self) -> impl Iterator<Item = &FileMeta> {
        self.record.files.iter().filter(|file| !file.on_prefix)
    }

    fn key(&self, file: &FileMeta) -> String {
        self.dir.join(&file.name).display().to_string()
    }

    /// What an earlier launch has written of the files counts.
    fn enter(&self) -> Result<()> {
        ledger::enter(&self.transfer_file, &self.options, &self.node_files)
    }

    fn leave(&self) -> Result<()> {
        ledger::leave(&self.transfer_file, &self.node_files)
    }

    fn run(&self, before: Option<&FlushJob>, publish_if: &PublishIf) {
        // Rank 0 hears of it by the journal and tells it, unless that is what fails.
        if let Err(error) = self.take_part(before, publish_if)
            && !self.stopped()
            && let Err(why) = self.journal.mark(Mark::Failed, self.rank, &error.to_string())
        {
            self.unheard.store(true, Ordering::Relaxed);
            log::warn_once(
                messages::FLUSH_DELAYED,
                format_args!("rank {}: {error}; {why}", self.rank),
            );
        }
    }

    fn take_part(&self, before: Option<&FlushJob>, publish_if: &PublishIf) -> Result<()> {
        let turn = || Ok(before.is_none_or(|before| before.is_over()));
        if !self.wait(self.options.pause, turn)? {
            return Ok(());
        }
        if self.leads.is_none() && self.own_files().next().is_none() {
            self.finished.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if !self.wait_for_turn()? {
            return Ok(());
        }
        self.stage_own()?;
        self.publish_all(publish_if)
    }

    fn wait_for_turn(&self) -> Result<bool> {
        if let Some(leader) = self.turn.node_before {
            let staged = || self.journal.is_marked(Mark::Staged, leader);
            if !self.wait_for_sign(Sign::Turn, staged)? {
                return Ok(false);
            }
        }
        let Some(rank) = self.turn.rank_before else { return Ok(true) };
        self.wait(LOOK, || self.is_given(Sign::Staged(rank)))
    }

    /// The node's leader looks at the prefix and gives the others its sign; `false` if it was
    /// stopped.
    fn wait_for_sign(&self, sign: Sign, come: impl Fn() -> Result<bool>) -> Result<bool> {
        if self.leads.is_none() {
            return self.wait(LOOK, || self.is_given(sign));
        }
        let given = || self.give(sign).map(|()| true);
        Ok(self.wait(self.look, come)? && self.wait(self.look, given)?)
    }

    fn give(&self, sign: Sign) -> Result<()> {
        sign.give(&self.control, self.record.dataset_id)
    }

    fn is_given(&self, sign: Sign) -> Result<bool> {
        sign.is_given(&self.control, self.record.dataset_id)
    }

    fn wait_for_node(&self, sign: impl Fn(usize) -> Sign) -> Result<bool> {
        let mut came = true;
        for rank in &self.writers {
            came = came && self.wait(self.options.pause, || self.is_given(sign(*rank)))?;
        }
        Ok(came)
    }

    fn clear_signs(&self) -> Result<()> {
        match self.leads {
            Some(_) => Sign::clear(&self.control, self.record.dataset_id),
            None => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.finished.load(Ordering::Relaxed) || self.stopped()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// `false` if it was stopped; an error if the event could never be seen.
    fn wait(&self, pause: Duration, come: impl Fn() -> Result<bool>) -> Result<bool> {
        polling::wait(pause, || self.stopped(), come)
    }

    fn stage_own(&self) -> Result<()> {
        let mut ledger = Ledger::new(&self.transfer_file);
        match self.stage_files(&mut ledger) {
            Ok(found) => {
                let (staged, id) = (Sign::Staged(self.rank), self.record.dataset_id);
                staged.give_with(&self.control, id, &found)
            }
            // Stopped, too: the next launch goes on from there.
            Err(error) => ledger.write().and(Err(error)),
        }
    }

    /// Returns the checksums that were not known before.
    fn stage_files(&self, ledger: &mut Ledger<'_>) -> Result<NewChecksums> {
        let rate = self.options.bytes_per_second as f64 * self.turn.share;
        let mut work = LimitedWork::begin(Throttle::new(rate, self.options.percent));
        let is_limited = || Ok(!self.stopped() && !self.hurry.load(Ordering::Relaxed));
        let known = TransferFile::read(&self.transfer_file)?.unwrap_or_default();
        let (mut stager, mut found) = (Stager::default(), NewChecksums::new());
        for file in self.own_files() {
            let key = self.key(file);
            let written = known.files.get(&key).and_then(|entry| entry.written).unwrap_or(0);
            let buffer_bytes = work.piece(self.options.buffer_bytes);
            let mut progress = |bytes: u64| {
                work.moved(bytes, is_limited)?;
                if self.stopped() { Err(Error::Stopped) } else { Ok(()) }
            };
            let mut durable = |written: u64| ledger.set(&key, written);
            let how = CopyOptions {
                buffer_bytes,
                crc32: self.options.check_crc,
                progress: Some(&mut progress),
                resume_at: written,
                durable: Some(Durable { every_bytes: SYNC_BYTES, note: &mut durable }),
                pace: Some(self.options.flushed),
                ..CopyOptions::default()
            };
            let sum = stager.stage(&self.dir, &self.prefix, self.record.epoch, file, how)?;
            let is_new = file.prefix_checksum().is_none();
            found.extend(sum.filter(|_| is_new).map(|sum| (file.name.clone(), sum)));
            ledger.note(&mut stager)?;
            // The last sync is work, too.
            work.moved(0, is_limited)?;
        }
        stager.finish()?;
        ledger.note(&mut stager)?;
        Ok(found)
    }

    /// Adds to this node's part of the journal the checksums that its ranks have found.
    fn add_checksums(&self, leader: usize) -> Result<()> {
        let mut found = BTreeMap::new();
        for rank in &self.writers {
            let checksums = Sign::Staged(*rank).checksums(&self.control, self.record.dataset_id)?;
            found.extend(checksums.into_iter().map(|(name, crc32)| ((*rank, name), crc32)));
        }
        if found.is_empty() {
            return Ok(());
        }
        let mut part = self.journal.read_part(&Journal::part_name(leader))?;
        for CatalogEntry { rank, meta } in &mut part.entries {
            meta.note_prefix_checksum(found.remove(&(*rank, meta.name.clone())));
        }
        self.journal.write_part(leader, &part, &self.about)
    }

    fn publish_all(&self, publish_if: &PublishIf) -> Result<()> {
        if let Some(leader) = self.leads {
            if !self.wait_for_node(Sign::Staged)? {
                return Ok(());
            }
            ledger::complete(&self.transfer_file, &self.node_files)?;
            self.add_checksums(leader)?;
            self.journal.mark(Mark::Staged, leader, "")?;
        }
        let committed = || Ok(self.journal.committed()?.is_some());
        if !self.wait_for_sign(Sign::Commit, committed)? {
            return Ok(());
        }
        let mut dirs = BTreeSet::new();
        for file in self.own_files().filter(|file| is_named(file, &self.wholes)) {
            let mut publish = || {
                dirs.insert(publish_staged_of(&self.prefix, file, self.record.epoch)?);
                Ok(())
            };
            if !publish_if(file.whole_name(), &mut publish)? {
                let target = join_relative(&self.prefix, file.whole_name())?;
                remove_staged(&target, self.record.epoch)?;
            }
        }
        // Not while the caller of `publish_if` keeps the program waiting.
        Together::default().finish_with(dirs)?;
        self.give(Sign::Named(self.rank))?;
        self.finished.store(true, Ordering::Relaxed);
        if let Some(leader) = self.leads
            && self.wait_for_node(Sign::Named)?
        {
            self.leave()?;
            self.clear_signs()?;
            self.journal.mark(Mark::Published, leader, "")?;
        }
        Ok(())
    }

    fn advance(&self, left: &mut Left) -> Result<Advance> {
        if let Some(why) = self.journal.marks(Mark::Failed)?.into_iter().next() {
            return Ok(Advance::Failed(why));
        }
        let nodes = self.journal.parts()?;
        if self.journal.committed()?.is_none() {
            if self.journal.count(Mark::Staged)? < nodes.len() {
                return Ok(Advance::Pending);
            }
            announce(&self.prefix, &self.about.dataset, self.options.prefix_size)?;
            self.journal.commit(&self.about)?;
        }
        if self.journal.count(Mark::Published)? < nodes.len() {
            return Ok(Advance::Pending);
        }
        let parts = nodes.iter().map(|name| self.journal.read_part(name));
        let parts: Vec<Catalog> = parts.collect::<Result<_>>()?;
        let mut entries: Vec<_> = parts.into_iter().flat_map(|part| part.entries).collect();
        entries.sort_by_key(|entry| entry.rank);
        let dataset = self.about.over(&entries);
        record_flushed(&self.prefix, &dataset, self.about.ranks, &entries)?;
        self.journal.remove()?;
        *left = keep_window(&self.prefix, &dataset, self.options.prefix_size);
        Ok(Advance::Done)
    }
}

/// Ranks of this node that have files to copy, and for its leader these files. Collective over the
/// node.
fn node_files(ctx: &Ctx, part: &Catalog, dir: &Path) -> Result<(Vec<usize>, Vec<Way>)> {
    let dirs = ctx.node.all_gather(dir.as_os_str().as_bytes())?;
    let copied = || part.entries.iter().filter(|entry| !entry.meta.on_prefix);
    let writers: BTreeSet<usize> = copied().map(|entry| entry.rank).collect();
    let mut files = Vec::new();
    for entry in copied().filter(|_| ctx.is_node_leader()) {
        let of = ctx.node_ranks.iter().position(|rank| *rank == entry.rank);
        let dir = of.and_then(|of| dirs.get(of)).map(|dir| Path::new(OsStr::from_bytes(dir)));
        let source = dir.unwrap_or(Path::new("")).join(&entry.meta.name).display().to_string();
        let target = join_relative(ctx.prefix, entry.meta.whole_name())?;
        let staged = staged_path(&target, part.epoch)?;
        files.push((source, staged, entry.meta.size));
    }
    Ok((writers.into_iter().collect(), files))
}
