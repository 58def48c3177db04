//! A flush by threads whose program has gone, ended by one process on each node from its transfer
//! file and cache (manual 1.1, section 9.7, `scr_transfer`). Whoever finds the marks of all nodes
//! in the journal, [`complete`]s.
//!
//! With more nodes than `SCR_FLUSH_WIDTH` they share so many lanes. Nodes may come in any order, so
//! whoever has the lock of a lane copies.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use super::ledger::Ledger;
use super::sync_flush::{decided, finish_journal, give_up};
use super::throttle::Throttle;
use super::work::LimitedWork;
use crate::cache::{Catalog, CatalogEntry, files_in_records};
use crate::error::{Error, Result};
use crate::files::{CopyOptions, Durable, FileLock, join_relative};
use crate::progress::{self, Total};
use crate::records::{
    FileMeta, Record, Transfer, TransferCommand, TransferFile, update, update_or_renew,
};
use crate::transfer::prefix::paths::own_folder;
use crate::transfer::publish::journal::{Journal, Mark, Published, publish_part};
use crate::transfer::publish::newer::{Decided, leave_to_newer};
use crate::transfer::publish::options::{Options, SYNC_BYTES};
use crate::transfer::publish::stage::Stager;
use crate::transfer::publish::staged::staged_path;

const LOOK: Duration = Duration::from_millis(200);

/// What [`stage_node`] did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Staged {
    /// Files that were copied.
    pub files: u64,
    /// It was asked to stop (COMMAND STOP or EXIT), as a new launch does.
    pub stopped: bool,
    /// What could not be copied, a sentence for each dataset.
    pub troubles: Vec<String>,
}

/// What [`complete`] found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Completed {
    /// Names of datasets that are on the prefix now, with summary and index entry.
    pub done: Vec<String>,
    /// Names of datasets of which so many nodes have files to copy.
    pub waiting: Vec<(String, usize)>,
    /// Damaged journals, a sentence for each; the next start settles them.
    pub troubles: Vec<String>,
}

/// Asks a process that does [`stage_node`] on this node to leave the files to the caller.
pub fn ask_to_stop(control_dir: &Path) -> Result<()> {
    set_transfer_command(control_dir, TransferCommand::Stop).map(drop)
}

/// Tells a process that does [`stage_node`] on this node what to do; false without a transfer file.
pub fn set_transfer_command(control_dir: &Path, command: TransferCommand) -> Result<bool> {
    let path = control_dir.join(TransferFile::NAME);
    if !path.exists() {
        return Ok(false);
    }
    let change = |all: &mut TransferFile| {
        all.command = command;
        Ok(())
    };
    update_or_renew(&path, change).map(|()| true)
}

/// Copies what this node has on its way to `prefix`, going on from what is written; with `limited`
/// within the limits of the transfer file. No rank of the node may be alive.
pub fn stage_node(
    prefix: &Path,
    control_dir: &Path,
    options: &Options,
    limited: bool,
) -> Result<Staged> {
    let path = control_dir.join(TransferFile::NAME);
    let mut staged = Staged::default();
    let mut known = TransferFile::read(&path)?.unwrap_or_default();
    staged.stopped = !known.files.is_empty() && known.command != TransferCommand::Run;
    if known.files.is_empty() || staged.stopped {
        return Ok(staged);
    }
    if !limited {
        (known.bandwidth, known.percent) = (0.0, 0.0);
    }
    for id in Journal::ids(prefix)? {
        let journal = Journal::new(prefix, id);
        let parts = journal.parts()?;
        let rate = known.bandwidth / parts.len().max(1) as f64;
        let mut node = NodeStager { prefix, path: &path, options, looked: None };
        for (index, name) in parts.iter().enumerate() {
            let mut part = match journal.read_part(name) {
                // Its node's files are not known; the next start gives the flush up.
                Err(error @ Error::Corrupt { .. }) => {
                    staged.troubles.push(format!("dataset {id}: {error}"));
                    continue;
                }
                read => read?,
            };
            let Some(files) = node.own_files(&part, &known)? else { continue };
            let _turn = node.wait_for_turn(index, parts.len())?;
            let work = LimitedWork::begin(Throttle::new(rate, known.percent));
            match node.copy(&mut part, files, work) {
                Ok(count) => staged.files += count,
                Err(_) if node.is_stopped() => {
                    staged.stopped = true;
                    return Ok(staged);
                }
                Err(error) => {
                    staged.troubles.push(format!("dataset {id}: {error}"));
                    continue;
                }
            }
            let leader = name.strip_prefix("part.").and_then(|rest| rest.strip_suffix(".scr"));
            if let Some(leader) = leader.and_then(|rank| rank.parse().ok()) {
                // Checksums that were not known before are in it now.
                journal
                    .planned()?
                    .map_or(Ok(()), |plan| journal.write_part(leader, &part, &plan))?;
                journal.mark(Mark::Staged, leader, "")?;
            }
        }
    }
    Ok(staged)
}

type OnItsWay = (FileMeta, String, Transfer);

struct NodeStager<'a> {
    prefix: &'a Path,
    path: &'a Path,
    options: &'a Options,
    /// When the transfer file was last read, and whether COMMAND was not RUN.
    looked: Option<(Instant, bool)>,
}

impl NodeStager<'_> {
    /// `None` if the part is another node's: all files of this one's are in the transfer file. A
    /// node that has nothing to copy is anybody's.
    fn own_files(&self, part: &Catalog, known: &TransferFile) -> Result<Option<Vec<OnItsWay>>> {
        let mut files = Vec::new();
        let copied = part.entries.iter().filter(|entry| !entry.meta.on_prefix);
        // Several parts go to one staged file.
        let mut by_destination: HashMap<&str, Vec<_>> = HashMap::new();
        for entry in &known.files {
            by_destination.entry(&entry.1.destination).or_default().push(entry);
        }
        for (entry, destination) in copied.zip(destinations(self.prefix, part)?) {
            let mut found = by_destination.get(&*destination).into_iter().flatten();
            let found = found.find(|(source, _)| Path::new(source).ends_with(&entry.meta.name));
            let Some((source, transfer)) = found else { return Ok(None) };
            let meta = self.with_places(part, entry)?;
            files.push((meta, (*source).clone(), (*transfer).clone()));
        }
        Ok(Some(files))
    }

    /// The journal does not say which bytes a part has, the record does.
    fn with_places(&self, part: &Catalog, entry: &CatalogEntry) -> Result<FileMeta> {
        let mut meta = entry.meta.clone();
        if meta.part.is_some() {
            let control_dir = self.path.parent().unwrap_or(Path::new(""));
            let files = files_in_records(control_dir, part.id, part.epoch, entry.rank);
            let known = files.into_iter().find(|file| file.name == meta.name);
            let lost = || Error::Missing(format!("the record of {} is lost", meta.name));
            meta.part = known.ok_or_else(lost)?.part;
        }
        Ok(meta)
    }

    /// Without a lock if no other node copies in this one's lane, or it is stopped.
    fn wait_for_turn(&mut self, index: usize, nodes: usize) -> Result<Option<FileLock>> {
        let lanes = self.options.flush_width;
        if nodes <= lanes {
            return Ok(None);
        }
        let lane = own_folder(self.prefix).join(format!("transfer.{}", index % lanes));
        while !self.is_stopped() {
            match FileLock::acquire(&lane, Duration::ZERO) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::TimedOut => {
                    std::thread::sleep(LOOK);
                }
                taken => return taken.map(Some),
            }
        }
        Ok(None)
    }

    fn copy(
        &mut self,
        part: &mut Catalog,
        files: Vec<OnItsWay>,
        mut work: LimitedWork,
    ) -> Result<u64> {
        let mut ledger = Ledger::new(self.path);
        let copied = self.copy_files(part, files, &mut work, &mut ledger);
        // Stopped, too: whoever is next goes on from there.
        let noted = ledger.write();
        copied.and_then(|count| noted.map(|()| count))
    }

    fn copy_files(
        &mut self,
        part: &mut Catalog,
        files: Vec<OnItsWay>,
        work: &mut LimitedWork,
        ledger: &mut Ledger<'_>,
    ) -> Result<u64> {
        let (mut count, mut stager) = (0, Stager::default());
        let bytes = files.iter().map(|(meta, ..)| meta.size).sum();
        let _step = progress::step("copying to the prefix", Total::Bytes(Some(bytes)));
        let prefix = self.prefix;
        let entries = part.entries.iter_mut().filter(|entry| !entry.meta.on_prefix);
        for (entry, (meta, source, transfer)) in entries.zip(files) {
            self.heed_stop()?;
            let there = Path::new(&transfer.destination).metadata().ok().map(|one| one.len());
            // Of a part nobody knows whether it is in the file that others may have made anew.
            if transfer.is_complete() && there == Some(meta.size) && meta.part.is_none() {
                progress::add_bytes(meta.size);
                continue;
            }
            let dir = source.strip_suffix(&meta.name).unwrap_or_default();
            let buffer_bytes = work.piece(self.options.buffer_bytes);
            let crc32 = self.options.check_crc;
            let mut progress = |bytes: u64| work.moved(bytes, || self.heed_stop().map(|()| true));
            let mut note = |bytes: u64| ledger.set(&source, bytes);
            let how = CopyOptions {
                buffer_bytes,
                crc32,
                progress: Some(&mut progress),
                resume_at: transfer.written.unwrap_or(0).min(there.unwrap_or(0)),
                durable: Some(Durable { every_bytes: SYNC_BYTES, note: &mut note }),
                ..CopyOptions::default()
            };
            let found = stager.stage(Path::new(dir), prefix, part.epoch, &meta, how)?;
            entry.meta.note_prefix_checksum(found);
            ledger.note(&mut stager)?;
            work.moved(0, || self.heed_stop().map(|()| true))?;
            count += 1;
        }
        stager.finish()?;
        ledger.note(&mut stager)?;
        Ok(count)
    }

    fn heed_stop(&mut self) -> Result<()> {
        if self.is_stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    fn is_stopped(&mut self) -> bool {
        match self.looked {
            Some((when, stop)) if stop || when.elapsed() < LOOK => stop,
            _ => {
                let known = TransferFile::read(self.path).ok().flatten();
                let stop = known.is_some_and(|known| known.command != TransferCommand::Run);
                self.looked = Some((Instant::now(), stop));
                stop
            }
        }
    }
}

/// Publishes and records what all nodes have staged, and takes off this node's transfer file what
/// no journal knows any more. The caller holds the prefix.
pub fn complete(prefix: &Path, control_dir: &Path, options: &Options) -> Result<Completed> {
    let mut completed = Completed::default();
    let mut wanted = BTreeSet::new();
    for id in Journal::ids(prefix)? {
        match complete_one(prefix, id, options, &mut completed) {
            Ok(destinations) => wanted.extend(destinations),
            Err(error @ Error::Corrupt { .. }) => {
                completed.troubles.push(format!("dataset {id}: {error}"));
            }
            Err(other) => return Err(other),
        }
    }
    let path = control_dir.join(TransferFile::NAME);
    if path.exists() && completed.troubles.is_empty() {
        update(&path, |all: &mut TransferFile| {
            all.files.retain(|_, one| wanted.contains(&one.destination));
            Ok(())
        })?;
    }
    Ok(completed)
}

fn complete_one(
    prefix: &Path,
    id: u64,
    options: &Options,
    completed: &mut Completed,
) -> Result<Vec<String>> {
    let journal = Journal::new(prefix, id);
    let names = journal.parts()?;
    let parts: Vec<Catalog> =
        names.iter().map(|name| journal.read_part(name)).collect::<Result<_>>()?;
    let Some(Decided { about, taken }) = decided(prefix, &journal, options.prefix_size)? else {
        if let Some(plan) = journal.planned()? {
            let missing = parts.len().saturating_sub(journal.count(Mark::Staged)?);
            completed.waiting.push((plan.dataset.name, missing));
        }
        let destinations: Vec<Vec<String>> =
            parts.iter().map(|part| destinations(prefix, part)).collect::<Result<_>>()?;
        return Ok(destinations.concat());
    };
    if let Some(error) = journal.missing_parts(&about, parts.len()) {
        return Err(error);
    }
    let mut of_seal = parts;
    of_seal.retain(|part| part.epoch == about.dataset.epoch);
    let mut published = Published::default();
    for part in &mut of_seal {
        leave_to_newer(prefix, part, &taken)?;
        published = published.and(publish_part(prefix, part)?);
    }
    if published.there == 0 && published.gone.is_some() {
        give_up(prefix, &journal, id)?;
        return Ok(Vec::new());
    }
    let entries = of_seal.into_iter().flat_map(|part| part.entries).collect();
    let keep = published.gone.is_none().then_some(options.prefix_size);
    finish_journal(prefix, &journal, &about, entries, keep)?;
    if keep.is_some() {
        completed.done.push(about.dataset.name);
    }
    Ok(Vec::new())
}

fn destinations(prefix: &Path, part: &Catalog) -> Result<Vec<String>> {
    let copied = part.entries.iter().filter(|entry| !entry.meta.on_prefix);
    let destination = |entry: &CatalogEntry| {
        let target = join_relative(prefix, entry.meta.whole_name())?;
        Ok(staged_path(&target, part.epoch)?.display().to_string())
    };
    copied.map(destination).collect()
}
