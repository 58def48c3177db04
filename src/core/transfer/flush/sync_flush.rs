//! A whole dataset to the prefix, all ranks together; and what an interrupted one left.

use std::path::Path;
use std::time::Instant;

use crate::bytes::{Reader, Writer};
use crate::cache::agree::{agree, any, from_root, twice};
use crate::cache::{Catalog, CatalogEntry, Ctx};
use crate::error::{Error, Result};
use crate::files::join_relative;
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
use crate::transfer::publish::single::sweep_staged;
use crate::transfer::publish::stage::Stager;
use crate::transfer::publish::unfinished::note_half_of;

/// What a flush did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlushReport {
    /// Files of all ranks that were copied; known to the leaders of the nodes.
    pub files: u64,
    /// Their bytes; the same.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// Ids of older datasets whose files on the prefix it replaced.
    pub replaced: Vec<u64>,
    /// Those that have left the prefix for it (`SCR_PREFIX_SIZE`); known to rank 0.
    pub left: Left,
}

/// Copies the sealed dataset `id` to the prefix: journal, stage, agree, commit, rename, summary,
/// index. Files that are on the prefix already are only listed. Files of an older dataset with the
/// same names are replaced in place, and its index entry is not restorable any more. A file of this
/// rank that is `left_out`, by name, is only listed, too: on the prefix it is deleted, or newer
/// already. Collective.
///
/// # Errors
/// On all ranks if any failed. Before the commit the prefix holds no part of the dataset under a
/// final name; after it the next start completes the work ([`recover_journal`]).
pub fn flush_sync(ctx: &Ctx, id: u64, left_out: &dyn Fn(&str) -> bool) -> Result<FlushReport> {
    flush_with(ctx, id, &[], left_out, &|_, publish| publish().map(|()| true))
}

/// Does what [`flush_sync`] does; files of older datasets in the cache go `along` (one entry for
/// each, the same ones on all ranks, oldest first): they get their names together with those of
/// dataset `id`, and its summary lists them. Each file is published through `publish_if`, which
/// holds back what the program has deleted or written anew to the prefix since it was staged.
/// Collective.
///
/// # Errors
/// As [`flush_sync`].
pub fn flush_with(
    ctx: &Ctx,
    id: u64,
    along: &[Along],
    left_out: &dyn Fn(&str) -> bool,
    publish_if: Gate,
) -> Result<FlushReport> {
    let start = Instant::now();
    let Announced { record, sources, about, journal, .. } =
        announce_flush(ctx, id, along, left_out)?;
    let own = own_part(ctx, &record);
    if let Err(error) = stage_in_turns(ctx, &record, &sources) {
        undo(ctx, &journal, &own, &error)?;
        return Err(error);
    }
    test_pause("flush.staged");
    let files = Some(&record.files[..]);
    let whole = Catalog::gather_on_leaders(ctx, id, record.epoch, &record.key, files);
    // Rank 0, which leads its node, writes index and summary.
    let entries = agree(ctx.world, whole)?.map_or_else(Vec::new, |whole| whole.entries);
    let parts = (&own, &entries[..]);
    let (replaced, left) = publish_staged_parts(ctx, &journal, &about, parts, publish_if)?;
    let copied = entries.iter().filter(|entry| !entry.meta.on_prefix);
    Ok(FlushReport {
        files: copied.clone().count() as u64,
        bytes: copied.map(|entry| entry.meta.size).sum(),
        seconds: start.elapsed().as_secs_f64(),
        replaced: broadcast_ids(ctx, Ok(replaced))?,
        left,
    })
}

/// Publishes what is staged everywhere: commit, names (`own` are this rank's files, `entries` those
/// of all, on rank 0), summary, index, window. Gives the ids of what it replaces, and, to rank 0,
/// what has left the prefix for it. Collective.
pub(super) fn publish_staged_parts(
    ctx: &Ctx,
    journal: &Journal,
    about: &About,
    (own, entries): (&Catalog, &[CatalogEntry]),
    publish_if: Gate,
) -> Result<(Vec<u64>, Left)> {
    let is_root = ctx.world.rank() == 0;
    let committed = match is_root {
        true => journal
            .commit(about)
            .and_then(|()| announce(ctx.prefix, &about.dataset, ctx.transfer.prefix_size)),
        false => Ok(Vec::new()),
    };
    let replaced = agree(ctx.world, committed)?;
    test_pause("flush.publish");
    let published = publish_part_if(ctx.prefix, own, publish_if);
    agree(ctx.world, published.and_then(|all| all.gone.map_or(Ok(()), Err)))?;
    let recorded = match is_root {
        true => record_flushed(ctx.prefix, &about.over(entries), about.ranks, entries)
            .and_then(|()| journal.remove()),
        false => Ok(()),
    };
    agree(ctx.world, recorded)?;
    let left = match is_root {
        true => keep_window(ctx.prefix, &about.dataset, ctx.transfer.prefix_size),
        false => Left::new(),
    };
    Ok((replaced, left))
}

/// A flush that the journal knows of.
pub(super) struct Announced {
    /// This rank's record, with what goes along; what is left out counts as on the prefix.
    pub record: DatasetRecord,
    /// The directories of what goes along.
    pub sources: Sources,
    /// What the node stages, with world ranks.
    pub part: Catalog,
    pub about: About,
    pub journal: Journal,
}

/// Writes the journal, which says what each node will stage. Collective.
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
    let mut record = agree(ctx.world, cleared.and(found))?;
    leave_as_is(ctx.prefix, &mut record, left_out);
    let sources = take_along(ctx, &mut record, along)?;
    let part = Catalog::gather(ctx.node, id, record.epoch, &record.key, &record.files)?;
    let part = with_world_ranks(ctx, part);
    let about = About::of_record(&record, ctx.world.size());
    let announced = match ctx.is_node_leader() {
        true => journal.write_part(ctx.world.rank(), &part, &about),
        false => Ok(()),
    };
    agree(ctx.world, announced)?;
    Ok(Announced { record, sources, part, about, journal })
}

/// Deletes what `newest` leaves no room for (`SCR_PREFIX_SIZE`), and the records of what the
/// program has deleted itself. The dataset is there; that an
/// older one cannot be deleted is no reason to write it again.
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

/// Turns the ranks of a catalog gathered over the node into world ranks.
fn with_world_ranks(ctx: &Ctx, mut part: Catalog) -> Catalog {
    part.entries.iter_mut().for_each(|entry| entry.rank = ctx.node_ranks[entry.rank]);
    part
}

fn own_part(ctx: &Ctx, record: &DatasetRecord) -> Catalog {
    let rank = ctx.world.rank();
    let entries = record.files.iter().cloned().map(|meta| CatalogEntry { rank, meta }).collect();
    Catalog { id: record.dataset_id, epoch: record.epoch, key: record.key.clone(), entries }
}

fn stage_in_turns(ctx: &Ctx, record: &DatasetRecord, sources: &Sources) -> Result<()> {
    let width = ctx.transfer.flush_width;
    let staged = in_turns(ctx.world, width, || stage_own(ctx, record, sources));
    agree(ctx.world, staged)
}

fn stage_own(ctx: &Ctx, record: &DatasetRecord, sources: &Sources) -> Result<()> {
    let own = ctx.layout.data_dir(record);
    let mut stager = Stager::default();
    for file in record.files.iter().filter(|file| !file.on_prefix) {
        let dir = sources.get(&file.name).unwrap_or(&own);
        let target = join_relative(ctx.prefix, &file.name)?;
        let source = dir.join(&file.name);
        stager.stage(&source, &target, record.epoch, file, ctx.transfer.copy())?;
    }
    stager.finish()
}

/// Removes this rank's staged files, and the journal, after a failure that came before the commit.
/// What cannot be removed now is left to the next start.
pub(super) fn undo(ctx: &Ctx, journal: &Journal, own: &Catalog, why: &Error) -> Result<()> {
    if matches!(why, Error::Comm(_)) {
        return Ok(());
    }
    let removed = agree(ctx.world, unstage_part(ctx.prefix, own));
    match removed {
        Ok(()) if ctx.world.rank() == 0 => drop(journal.remove()),
        Err(Error::Comm(what)) => return Err(Error::Comm(what)),
        _ => {}
    }
    Ok(())
}

/// Gives all ranks the ids that rank 0 knows, in order. Collective.
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
    /// Datasets that cannot be completed, since files were removed by somebody else meanwhile, or
    /// the journal is damaged; the index says that they failed. The other files have their names.
    pub gone: Vec<u64>,
    /// Datasets whose flush in the background was under way: begin it again
    /// ([`crate::transfer::AsyncFlush`]), and it goes on from what is written; or [`roll_back`].
    pub unfinished: Vec<u64>,
    /// Those that have left the prefix for a completed one; known to rank 0.
    pub left: Left,
}

/// Completes or rolls back what an interrupted flush left. Collective, at start.
///
/// # Errors
/// On all ranks if any failed; the journal stays for the next start.
pub fn recover_journal(ctx: &Ctx) -> Result<JournalReport> {
    twice(|| recover_once(ctx))
}

fn recover_once(ctx: &Ctx) -> Result<JournalReport> {
    let is_root = ctx.world.rank() == 0;
    if is_root && let Err(error) = sweep_staged(ctx.prefix) {
        log::message(1, format_args!("something half written stays on the prefix: {error}"));
    }
    let found = if is_root { Journal::ids(ctx.prefix) } else { Ok(Vec::new()) };
    let mut report = JournalReport::default();
    for id in broadcast_ids(ctx, found)? {
        let journal = Journal::new(ctx.prefix, id);
        let mut damaged = None;
        let decided = match is_root {
            true => {
                damaged_apart(decided(ctx.prefix, &journal, ctx.transfer.prefix_size), &mut damaged)
            }
            false => Ok(None),
        };
        let mut commit = agree(ctx.world, decided)?;
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

/// Tells whether a flush of dataset `id` that was under way can go on: what is staged is of the
/// seal with this epoch. Collective.
///
/// # Errors
/// Communication failed.
pub fn can_resume(ctx: &Ctx, id: u64, epoch: u64) -> Result<bool> {
    any(ctx.world, ctx.world.rank() == 0 && Journal::new(ctx.prefix, id).is_of(epoch))
}

/// Removes what is staged of dataset `id`, and its journal. Collective.
///
/// # Errors
/// On all ranks if any failed; the next start tries again.
pub fn roll_back(ctx: &Ctx, id: u64) -> Result<()> {
    let journal = Journal::new(ctx.prefix, id);
    agree(ctx.world, carry_out(ctx, &journal, None))?;
    agree(ctx.world, if ctx.world.rank() == 0 { journal.remove() } else { Ok(()) })
}

/// Decides whether a flush is to be completed: it is committed, or is staged everywhere and gets
/// its commit now; but not if a newer one has taken its names meanwhile, since the run went on
/// after an error, or the program has written them anew. `keep` as in [`announce`].
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

/// Takes the error out of what is damaged.
fn damaged_apart<T>(found: Result<Option<T>>, damaged: &mut Option<Error>) -> Result<Option<T>> {
    match found {
        Err(error @ Error::Corrupt { .. }) => {
            *damaged = Some(error);
            Ok(None)
        }
        other => other,
    }
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

/// Gives the flush up, since no file of the dataset is there any more.
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

/// Ends a flush whose files all have their names: summary, index, window; the journal goes. Without
/// `keep` some are gone: the index says that the dataset failed, and no older one has to go for it.
/// Returns those that went.
pub(super) fn finish_journal(
    prefix: &Path,
    journal: &Journal,
    about: &About,
    mut entries: Vec<CatalogEntry>,
    keep: Option<u64>,
) -> Result<Left> {
    entries.sort_by_key(|entry| entry.rank);
    record_flushed(prefix, &about.over(&entries), about.ranks, &entries)?;
    match keep {
        None => note_failure(prefix, about.dataset.id)
            .and_then(|()| journal.remove())
            .map(|()| Left::new()),
        Some(keep) => {
            journal.remove()?;
            Ok(keep_window(prefix, &about.dataset, keep))
        }
    }
}
