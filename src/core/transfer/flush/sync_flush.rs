//! A whole dataset to the prefix, all ranks together; and what an interrupted one left.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use super::leader_sign::Sign;
use crate::bytes::{Reader, Writer};
use crate::cache::agree::{agree, agree_and_ask, any, from_root, twice};
use crate::cache::{Catalog, CatalogEntry, Ctx, count_files};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::log::{self, messages};
use crate::records::{Dataset, DatasetRecord};
use crate::system::test_pause;
use crate::transfer::prefix::index::{announce, note_failure, record_flushed};
use crate::transfer::prefix::window::{Left, forget_deleted, trim};
use crate::transfer::publish::about::About;
use crate::transfer::publish::companions::{Along, Sources, take_along};
use crate::transfer::publish::journal::{
    Gate, Journal, Published, publish_part, publish_part_if, unstage_part,
};
use crate::transfer::publish::newer::{
    Decided, is_written_anew, leave_as_is, leave_to_newer, taken_by_newer,
};
use crate::transfer::publish::options::in_turns;
use crate::transfer::publish::parts::{agree_on_wholes, is_named};
use crate::transfer::publish::single::sweep_staged;
use crate::transfer::publish::stage::Stager;
use crate::transfer::publish::unfinished::note_half_of;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlushReport {
    /// Files of all ranks that were copied; known to the leaders of the nodes.
    pub files: u64,
    pub bytes: u64,
    pub seconds: f64,
    pub replaced: Vec<u64>,
    /// Those that have left the prefix for it (`SCR_PREFIX_SIZE`); known to rank 0.
    pub left: Left,
}

/// Copies the sealed dataset `id` to the prefix: journal, stage, agree, commit, rename, summary,
/// index. A file of this rank that is `left_out`, by name, is only listed, like those that are
/// there already; older datasets with the same names are not restorable any more. Collective; on an
/// error before the commit the prefix has no file of it, after it the next start completes the
/// work.
pub fn flush_sync(ctx: &Ctx, id: u64, left_out: &dyn Fn(&str) -> bool) -> Result<FlushReport> {
    flush_with(ctx, id, &[], left_out, &|_, publish| publish().map(|()| true))
}

/// Does what [`flush_sync`] does, with files of older datasets in the cache (`along`: the same
/// datasets on all ranks, oldest first), which get their names together with those of `id`.
/// `publish_if` holds back what the program has deleted or written anew since it was staged.
/// Collective.
pub fn flush_with(
    ctx: &Ctx,
    id: u64,
    along: &[Along],
    left_out: &dyn Fn(&str) -> bool,
    publish_if: Gate,
) -> Result<FlushReport> {
    let start = Instant::now();
    let Announced { mut record, sources, about, journal, wholes, .. } =
        announce_flush(ctx, id, along, left_out)?;
    let mut own = part_of(ctx.world.rank(), &record);
    let staged =
        in_turns(ctx.world, ctx.transfer.flush_width, || stage(ctx, &mut record, &sources));
    if let Err(error) = agree(ctx.world, staged) {
        undo(ctx, &journal, &own, &error)?;
        return Err(error);
    }
    test_pause("flush.staged");
    let files = Some(&record.files[..]);
    let whole = Catalog::gather_on_leaders(ctx, id, record.epoch, &record.key, files);
    // Rank 0, which leads its node, writes index and summary.
    let entries = agree(ctx.world, whole)?.map_or_else(Vec::new, |whole| whole.entries);
    own.entries.retain(|entry| is_named(&entry.meta, &wholes));
    let (replaced, left) = publish_staged_parts(ctx, &journal, &about, &own, &entries, publish_if)?;
    let copied: Vec<_> = entries.into_iter().filter(|entry| !entry.meta.on_prefix).collect();
    let (files, bytes) = count_files(&copied);
    Ok(FlushReport {
        files,
        bytes,
        seconds: start.elapsed().as_secs_f64(),
        replaced: broadcast_ids(ctx, Ok(replaced))?,
        left,
    })
}

/// Publishes what is staged everywhere (`own`: this rank's files; `entries`: all files, on rank 0).
/// Returns the ids of what it replaces, and, on rank 0, what has left the prefix for it.
/// Collective.
pub(super) fn publish_staged_parts(
    ctx: &Ctx,
    journal: &Journal,
    about: &About,
    own: &Catalog,
    entries: &[CatalogEntry],
    publish_if: Gate,
) -> Result<(Vec<u64>, Left)> {
    let is_root = ctx.world.rank() == 0;
    let keep = ctx.transfer.prefix_size;
    let commit = || journal.commit(about).and_then(|()| announce(ctx.prefix, &about.dataset, keep));
    let replaced = agree(ctx.world, if is_root { commit() } else { Ok(Vec::new()) })?;
    test_pause("flush.publish");
    let published = publish_part_if(ctx.prefix, own, publish_if);
    agree(ctx.world, published.and_then(|all| all.gone.map_or(Ok(()), Err)))?;
    let record = || {
        record_flushed(ctx.prefix, &about.over(entries), about.ranks, entries)?;
        journal.remove()
    };
    agree(ctx.world, if is_root { record() } else { Ok(()) })?;
    let left = if is_root { keep_window(ctx.prefix, &about.dataset, keep) } else { Left::new() };
    Ok((replaced, left))
}

pub(super) struct Announced {
    /// What goes along is in it; what is left out counts as on the prefix.
    pub record: DatasetRecord,
    pub sources: Sources,
    pub part: Catalog,
    pub about: About,
    pub journal: Journal,
    /// Of the files of which this rank has a part, those that it gives their names.
    pub wholes: BTreeSet<String>,
}

/// Writes the journal. Collective.
pub(super) fn announce_flush(
    ctx: &Ctx,
    id: u64,
    along: &[Along],
    left_out: &dyn Fn(&str) -> bool,
) -> Result<Announced> {
    let unknown = || Error::Missing(format!("dataset {id} is not in the cache"));
    let journal = Journal::new(ctx.prefix, id);
    let clear = || note_half_of(ctx.prefix, &journal).and_then(|()| journal.clear());
    let cleared = if ctx.world.rank() == 0 { clear() } else { Ok(()) };
    let found = ctx.filemap.get_id(id).ok_or_else(unknown);
    let (mut record, parts) =
        agree_and_ask(ctx.world, cleared.and(found), DatasetRecord::has_parts)?;
    leave_as_is(ctx.prefix, &mut record, left_out);
    let sources = take_along(ctx, &mut record, along)?;
    let wholes = match parts || !along.is_empty() {
        true => agree_on_wholes(ctx, record.files.iter_mut(), left_out)?,
        false => BTreeSet::new(),
    };
    let mut part = Catalog::gather(ctx.node, id, record.epoch, &record.key, &record.files)?;
    part.entries.iter_mut().for_each(|entry| entry.rank = ctx.node_ranks[entry.rank]);
    let about = About::of_record(&record, ctx.world.size());
    announce_part(ctx, &journal, &part, &about)?;
    Ok(Announced { record, sources, part, about, journal, wholes })
}

/// Deletes what `newest` leaves no room for (`SCR_PREFIX_SIZE`), and records of what the program
/// has deleted. An older dataset that cannot be deleted is no reason to write `newest` again.
pub(super) fn keep_window(prefix: &Path, newest: &Dataset, keep: u64) -> Left {
    if let Err(error) = forget_deleted(prefix, newest) {
        log::message(1, format_args!("{error}"));
    }
    trim(prefix, newest, keep).unwrap_or_else(|error| {
        log::warn_once(
            messages::WINDOW_EXCEEDED,
            format_args!("{error}; SCR_PREFIX_SIZE is exceeded"),
        );
        Left::new()
    })
}

/// Writes what the node stages into the journal. Collective.
pub(super) fn announce_part(
    ctx: &Ctx,
    journal: &Journal,
    part: &Catalog,
    about: &About,
) -> Result<()> {
    let write = || journal.write_part(ctx.world.rank(), part, about);
    agree(ctx.world, if ctx.is_node_leader() { write() } else { Ok(()) })
}

/// Lists the files of one rank.
pub(super) fn part_of(rank: usize, record: &DatasetRecord) -> Catalog {
    let entries = record.files.iter().cloned().map(|meta| CatalogEntry { rank, meta }).collect();
    Catalog { id: record.dataset_id, epoch: record.epoch, key: record.key.clone(), entries }
}

/// Notes checksums that were not known before.
fn stage(ctx: &Ctx, record: &mut DatasetRecord, sources: &Sources) -> Result<()> {
    let own = ctx.layout.data_dir(record);
    let mut stager = Stager::default();
    for file in record.files.iter_mut().filter(|file| !file.on_prefix) {
        let dir = sources.get(&file.name).unwrap_or(&own);
        let found = stager.stage(dir, ctx.prefix, record.epoch, file, ctx.transfer.copy())?;
        file.note_prefix_checksum(found);
    }
    stager.finish()
}

/// Removes staged files and the journal after a failure before the commit. What cannot be removed
/// now is left to the next start.
pub(super) fn undo(ctx: &Ctx, journal: &Journal, own: &Catalog, why: &Error) -> Result<()> {
    if matches!(why, Error::Comm(_)) {
        return Ok(());
    }
    match agree(ctx.world, unstage_part(ctx.prefix, own)) {
        Ok(()) if ctx.world.rank() == 0 => drop(journal.remove()),
        Err(error @ Error::Comm(_)) => return Err(error),
        _ => {}
    }
    Ok(())
}

/// Collective.
fn broadcast_ids(ctx: &Ctx, ids: Result<Vec<u64>>) -> Result<Vec<u64>> {
    let put = |mut ids: Vec<u64>| {
        ids.sort_unstable();
        Writer::new().list(&ids, |out, id| _ = out.word(*id)).take()
    };
    let bytes = from_root(ctx.world, ids.map(put))?;
    let ids = Reader::new(&bytes).list(Reader::word);
    ids.ok_or_else(|| Error::Comm("what rank 0 sent are no ids".to_string()))
}

/// What [`recover_journal`] did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JournalReport {
    /// Datasets whose publish was completed.
    pub completed: Vec<u64>,
    /// Datasets whose staged files were removed.
    pub rolled_back: Vec<u64>,
    /// Datasets of which files or the journal are lost; the index says that they failed.
    pub gone: Vec<u64>,
    /// Datasets whose flush by threads was under way: begin it again
    /// ([`crate::transfer::AsyncFlush`]), or [`roll_back`].
    pub unfinished: Vec<u64>,
    /// Those that have left the prefix for a completed one; known to rank 0.
    pub left: Left,
}

/// Completes or rolls back what an interrupted flush left. Collective, at the start; on an error
/// the journal stays for the next one.
pub fn recover_journal(ctx: &Ctx) -> Result<JournalReport> {
    twice(|| recover_once(ctx))
}

fn recover_once(ctx: &Ctx) -> Result<JournalReport> {
    let is_root = ctx.world.rank() == 0;
    let sweeps: &[fn(&Path) -> Result<()>] = &[Journal::sweep, sweep_staged];
    for sweep in sweeps.iter().filter(|_| is_root) {
        if let Err(error) = sweep(ctx.prefix) {
            log::message(1, format_args!("something half written stays on the prefix: {error}"));
        }
    }
    if ctx.node.rank() == 0 {
        let _ = Sign::clear_all(&ctx.layout.control_dir); // a flush removes its own when it begins
    }
    let found = if is_root { Journal::ids(ctx.prefix) } else { Ok(Vec::new()) };
    let mut report = JournalReport::default();
    for id in broadcast_ids(ctx, found)? {
        let journal = Journal::new(ctx.prefix, id);
        let mut damaged = None;
        let mut decide = || match decided(ctx.prefix, &journal, ctx.transfer.prefix_size) {
            Err(error @ Error::Corrupt { .. }) => {
                damaged = Some(error);
                Ok(None)
            }
            found => found,
        };
        let mut commit = agree(ctx.world, if is_root { decide() } else { Ok(None) })?;
        if any(ctx.world, damaged.is_some())? {
            agree(ctx.world, carry_out(ctx, &journal, None))?;
            agree(ctx.world, if is_root { give_up(ctx.prefix, &journal, id) } else { Ok(()) })?;
            damaged.iter().for_each(|error| tell_damaged(id, error));
            report.gone.push(id);
            continue;
        }
        let mut answer = commit.as_ref().map(|it| it.to_tree().encode()).unwrap_or_default();
        ctx.world.broadcast(&mut answer, 0)?;
        if !answer.is_empty() {
            commit = Decided::from_tree(&KvTree::decode(&answer)?);
        }
        if commit.is_none() && any(ctx.world, is_root && journal.has_plan())? {
            report.unfinished.push(id);
            continue;
        }
        let (entries, published) = agree(ctx.world, carry_out(ctx, &journal, commit.as_ref()))?;
        let partly = any(ctx.world, published.gone.is_some())?;
        if let (Some(error @ Error::Corrupt { .. }), true) = (&published.gone, is_root) {
            tell_damaged(id, error);
        }
        let gone = partly && !any(ctx.world, published.there > 0)?;
        let keep = (!partly).then_some(ctx.transfer.prefix_size);
        let finished = match (&commit, is_root) {
            (Some(_), true) if gone => give_up(ctx.prefix, &journal, id),
            (Some(it), true) => finish_journal(ctx.prefix, &journal, &it.about, entries, keep)
                .map(|mut left| report.left.append(&mut left)),
            (None, true) => journal.remove(),
            _ => Ok(()),
        };
        agree(ctx.world, finished)?;
        match commit {
            Some(_) if partly => report.gone.push(id),
            Some(_) => report.completed.push(id),
            None => report.rolled_back.push(id),
        }
    }
    Ok(report)
}

/// Tells whether what is staged of dataset `id` is of the seal with this epoch. Collective.
pub fn can_resume(ctx: &Ctx, id: u64, epoch: u64) -> Result<bool> {
    any(ctx.world, ctx.world.rank() == 0 && Journal::new(ctx.prefix, id).is_of(epoch))
}

/// Removes what is staged of dataset `id`, and its journal. Collective.
pub fn roll_back(ctx: &Ctx, id: u64) -> Result<()> {
    let journal = Journal::new(ctx.prefix, id);
    agree(ctx.world, carry_out(ctx, &journal, None))?;
    agree(ctx.world, if ctx.world.rank() == 0 { journal.remove() } else { Ok(()) })
}

/// Decides whether a flush is completed: one that is committed or staged everywhere, unless a newer
/// one has taken its names or the program has written them anew. `keep` as in [`announce`].
pub(super) fn decided(prefix: &Path, journal: &Journal, keep: u64) -> Result<Option<Decided>> {
    let committed = journal.committed()?;
    let is_committed = committed.is_some();
    let staged = if is_committed { None } else { journal.staged_plan()? };
    let Some(about) = committed.or(staged) else { return Ok(None) };
    let taken = match is_written_anew(prefix, journal, &about.dataset)? {
        true => note_half_of(prefix, journal).map(|()| None)?,
        false => taken_by_newer(prefix, &about.dataset)?,
    };
    let Some(taken) = taken else {
        journal.revoke()?;
        return Ok(None);
    };
    // The commit may have been the last that its writer did.
    announce(prefix, &about.dataset, keep)?;
    if !is_committed {
        journal.commit(&about)?;
    }
    Ok(Some(Decided { about, taken }))
}

fn tell_damaged(id: u64, error: &Error) {
    log::warn(
        messages::FLUSH_DAMAGED,
        format_args!(
            "dataset {id}: {error}; its interrupted flush cannot be completed, and the cache's \
             copy is used, or an older dataset"
        ),
    );
}

/// Publishes or removes the staged files of this rank's share of the parts. What a damaged part
/// names stays staged, for the next flush of the dataset.
fn carry_out(
    ctx: &Ctx,
    journal: &Journal,
    commit: Option<&Decided>,
) -> Result<(Vec<CatalogEntry>, Published)> {
    let same_seal = |part: &Catalog| commit.is_some_and(|c| c.about.dataset.epoch == part.epoch);
    let (mut entries, mut published) = (Vec::new(), Published::default());
    let names = journal.parts()?;
    published.gone = commit.and_then(|it| journal.missing_parts(&it.about, names.len()));
    for (index, name) in names.iter().enumerate() {
        let mut part = match journal.read_part(name) {
            Ok(part) => part,
            Err(error @ Error::Corrupt { .. }) => {
                published.gone = published.gone.or(commit.map(|_| error));
                continue;
            }
            Err(other) => return Err(other),
        };
        if let Some(it) = commit.filter(|_| same_seal(&part)) {
            leave_to_newer(ctx.prefix, &mut part, &it.taken)?;
        }
        if index % ctx.world.size() == ctx.world.rank() {
            match same_seal(&part) {
                true => published = published.and(publish_part(ctx.prefix, &part)?),
                false => unstage_part(ctx.prefix, &part)?,
            }
        }
        if same_seal(&part) && ctx.world.rank() == 0 {
            entries.extend(part.entries);
        }
    }
    Ok((entries, published))
}

pub(super) fn give_up(prefix: &Path, journal: &Journal, id: u64) -> Result<()> {
    note_failure(prefix, id)?;
    // What was staged under another seal, too.
    for name in journal.parts()? {
        if let Ok(part) = journal.read_part(&name) {
            unstage_part(prefix, &part)?;
        }
    }
    journal.remove()
}

/// Ends a flush whose files all have their names. Without `keep` some are gone: the index says that
/// the dataset failed, and no older one has to go for it. Returns what has left the prefix.
pub(super) fn finish_journal(
    prefix: &Path,
    journal: &Journal,
    about: &About,
    mut entries: Vec<CatalogEntry>,
    keep: Option<u64>,
) -> Result<Left> {
    entries.sort_by_key(|entry| entry.rank);
    record_flushed(prefix, &about.over(&entries), about.ranks, &entries)?;
    if keep.is_none() {
        note_failure(prefix, about.dataset.id)?;
    }
    journal.remove()?;
    Ok(keep.map_or_else(Left::new, |keep| keep_window(prefix, &about.dataset, keep)))
}
