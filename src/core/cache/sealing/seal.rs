//! The seal: a dataset in progress becomes a sealed one, in two phases (docs/internals/seal.md).
//!
//! After a kill before every rank's Prepared record, some rank is Open or has another epoch, and
//! the next start does not count the dataset. After them it does, whichever names the directories
//! have. What fails is tried again under the same id; a new epoch tells what is old.
//!
//! The CONFIRMED marker is written only after all ranks agreed on the first phase, so one marker on
//! any node proves that every rank was prepared and untouched.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::encoder::{Encoded, encode_now, encode_with};
use super::marker::Marker;
use super::own_part::{SealRequest, member_data, touched};
use super::shared_store::keep_records;
use crate::cache::node::agree::agree;
use crate::cache::node::disk::folders_below;
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::{Catalog, Ctx, NodeCatalog, Store};
use crate::error::{Error, Result};
use crate::files::{Together, sync_dir};
use crate::records::{DatasetRecord, FileMeta, RecordKey};
use crate::redundancy::{Protection, RedundancySet};
use crate::system::{Planted, planted, test_pause};

/// The outcome of the first phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The id it will have: the same on all ranks.
    pub id: u64,
    /// Random, new for every seal: the same on all ranks.
    pub epoch: u64,
    /// Series, captured id, generation: the same on all ranks.
    pub key: RecordKey,
    /// Where the dataset lies on this node until [`commit`].
    pub dir: PathBuf,
    /// Where it lies from then on.
    pub sealed_dir: PathBuf,
    /// This rank's files, complete with size and, unless it is read later, CRC32.
    pub files: Vec<FileMeta>,
    pub(crate) catalog: NodeCatalog,
    pub(crate) redundancy_bytes: u64,
    /// How long this rank took to make its files durable, and to encode them with its set.
    pub own_time: Duration,
}

/// Keeps the program's threads out of a dataset for a moment: runs the action and gives `true` if
/// no file of the dataset was touched since the seal began, else only gives `false`. A touch that
/// comes while the action runs waits for its end.
pub type IfUntouched<'a> = &'a dyn Fn(&mut dyn FnMut() -> Result<()>) -> Result<bool>;

/// Does the first phase: sizes, CRC32, redundancy, catalog, the durable record. A thread may have
/// `encoded` this rank's part for this very request. `if_untouched` is called twice: to write the
/// record, so that a later touch finds and revokes it; and for the last vote, with nothing to do.
/// Collective.
///
/// # Errors
/// On all ranks if any failed or was touched; every record is Open again then.
pub fn prepare(
    ctx: &Ctx,
    request: SealRequest,
    encoded: Option<Result<Encoded>>,
    if_untouched: IfUntouched<'_>,
) -> Result<Prepared> {
    let key = request.key;
    let outcome = prepare_unvoted(ctx, request, encoded, if_untouched);
    if outcome.is_err() {
        // The error that led here is what a person needs; a filemap that cannot be written either
        // leaves a record whose epoch no other rank shares, or whose checksums tell.
        let _ = ctx.filemap.revoke(key);
    }
    outcome
}

fn prepare_unvoted(
    ctx: &Ctx,
    request: SealRequest,
    encoded: Option<Result<Encoded>>,
    if_untouched: IfUntouched<'_>,
) -> Result<Prepared> {
    let still = |action: &mut dyn FnMut() -> Result<()>| match if_untouched(action) {
        Ok(true) => Ok(()),
        Ok(false) => Err(touched()),
        Err(error) => Err(error),
    };
    let sealed_dir = ctx.layout.dataset_dir(request.store, request.id);
    let encoded = encoded.unwrap_or_else(|| encode_now(ctx, &request));
    let recorded = encoded.and_then(|encoded| {
        let Encoded { mut record, protection, checked, own_time } = encoded;
        checked?;
        let dir = record.dir.clone();
        // What the directory is called from the commit on; until then a restart looks under both
        // names.
        record.dir = sealed_dir.clone();
        still(&mut || ctx.filemap.record_prepared(record.clone()))?;
        Ok((record, dir, protection, own_time))
    });
    test_pause("seal.prepared");
    let recorded = match recorded {
        Err(Error::Comm(what)) => return Err(Error::Comm(what)),
        recorded if ctx.sharing.any() => {
            let recorded = agree_on(ctx, recorded)?;
            keep_records(ctx, &recorded.0)?;
            Ok(recorded)
        }
        recorded => recorded,
    };
    // Where a rank has failed, the others learn of it by the vote; no catalog tells of the seal.
    let own = recorded.as_ref().ok().map(|(record, ..)| &record.files[..]);
    let write = |whole: &Catalog| write_catalogs(ctx, whole).and_then(|()| sync_names(ctx, whole));
    let whole = Catalog::gather_on_leaders(ctx, request.id, request.epoch, request.key, own)
        .and_then(|whole| whole.iter().try_for_each(write).map(|()| whole));
    let catalog = NodeCatalog::share_if_any(ctx, whole);
    if let Err(Error::Comm(what)) = catalog {
        return Err(Error::Comm(what));
    }
    let vote = recorded.and_then(|recorded| {
        let catalog = catalog?;
        still(&mut || Ok(())).map(|()| (recorded, catalog))
    });
    let ((record, dir, protection, own_time), catalog) = agree_on(ctx, vote)?;
    let catalog = catalog.ok_or_else(|| Error::Defect("a seal has no catalog".into()))?;
    Ok(Prepared {
        id: request.id,
        epoch: request.epoch,
        key: request.key.clone(),
        dir,
        sealed_dir,
        files: record.files,
        catalog,
        redundancy_bytes: protection.files.iter().map(|file| file.size).sum(),
        own_time,
    })
}

/// Does what [`agree`] does, the sentence names the node, whose storage it is.
pub(super) fn agree_here<T>(ctx: &Ctx, outcome: Result<T>) -> Result<T> {
    let here = |error| match error {
        Error::Comm(_) => error,
        error => Error::Remote(format!("node {}: {error}", ctx.host)),
    };
    agree(ctx.world, outcome.map_err(here))
}

/// As [`agree_here`]; what has failed on some rank has failed on all.
fn agree_on<T>(ctx: &Ctx, outcome: Result<T>) -> Result<T> {
    let outcome = agree_here(ctx, outcome);
    if outcome.is_err() {
        ctx.protection.forget_failed();
    }
    outcome
}

/// Makes the names of all files of the node durable, also of records, the catalog and the directory
/// itself: the fsync of a file does not promise its name. One rank does it for all, after they have
/// synced their files; nothing rests on the names before the last vote.
fn sync_names(ctx: &Ctx, whole: &Catalog) -> Result<()> {
    let mut folders = BTreeSet::from([ctx.layout.control_dir.clone()]);
    // Where other nodes reach it, only the writer's own client can send what it holds.
    for store in ctx.led_stores().into_iter().filter(|store| !is_shared(ctx, store)) {
        for dir in directories_of(ctx, store, whole.id, &whole.key) {
            folders.extend(folders_below(&dir, OWN_FOLDER)?);
            folders.insert(dir.join(OWN_FOLDER));
            folders.insert(store.cache_dir.clone());
        }
    }
    Together::default().finish_with(folders)
}

fn is_shared(ctx: &Ctx, store: &Store) -> bool {
    ctx.sharing.is_shared(ctx.layout.store_index(&store.name))
}

fn directories_of(
    ctx: &Ctx,
    store: &Store,
    id: u64,
    key: &RecordKey,
) -> impl Iterator<Item = PathBuf> {
    let sealed = ctx.layout.dataset_dir(&store.name, id);
    let open = ctx.layout.open_dir(&store.name, key);
    [sealed, open].into_iter().filter(|dir| dir.exists())
}

pub(crate) fn protect(
    ctx: &Ctx,
    set: &RedundancySet,
    record: &DatasetRecord,
) -> Result<Protection> {
    let data = Ok(member_data(record));
    let encoded = ctx
        .scheme_of(record)
        .and_then(|scheme| encode_with(scheme, set, data, planted(Planted::NoRedundancy)));
    agree_on(ctx, encoded)
}

/// Where no other node reaches it, the catalog's name becomes durable with those of the files.
fn write_catalogs(ctx: &Ctx, catalog: &Catalog) -> Result<()> {
    for store in ctx.led_stores() {
        for dir in directories_of(ctx, store, catalog.id, &catalog.key) {
            match is_shared(ctx, store) {
                true => catalog.write(&dir)?,
                false => catalog.write_unnamed(&dir)?,
            }
        }
    }
    Ok(())
}

/// Does the second phase: the directories get their final names, and with `confirmed` the marker.
/// Older datasets may be evicted once it has returned `Ok`. Collective.
///
/// # Errors
/// On all ranks if a directory of any node could not be renamed, or made durable; the next start
/// would still count the dataset.
pub fn commit(ctx: &Ctx, prepared: &Prepared, confirmed: bool) -> Result<()> {
    // A local store's names are durable. A shared store's are not.
    let renamed = rename(ctx, prepared.id, &prepared.key, &|_| true).and_then(|_| {
        let mut shared = ctx.led_stores().into_iter().filter(|store| is_shared(ctx, store));
        shared.try_for_each(|store| sync_dir(&store.cache_dir))
    });
    test_pause("seal.committed");
    let marked = renamed.and_then(|()| match confirmed {
        true => mark(ctx, prepared.id, Marker::Confirmed, Some(prepared.epoch)),
        false => Ok(()),
    });
    agree_here(ctx, marked)
}

/// Gives the dataset's directories on this node their final names, durably, in the stores, by
/// index, in which it `is_here`. One rank acts for all that share a store.
pub(crate) fn rename_sealed(
    ctx: &Ctx,
    id: u64,
    key: &RecordKey,
    is_here: &dyn Fn(usize) -> bool,
) -> Result<()> {
    let renamed = rename(ctx, id, key, is_here)?;
    renamed.iter().try_for_each(|store| sync_dir(&store.cache_dir))
}

/// As [`rename_sealed`], but not durable; returns the stores in which there was something to do.
fn rename<'a>(
    ctx: &'a Ctx,
    id: u64,
    key: &RecordKey,
    is_here: &dyn Fn(usize) -> bool,
) -> Result<Vec<&'a Store>> {
    let index = |store: &&Store| ctx.layout.store_index(&store.name);
    let mut renamed = Vec::new();
    for store in ctx.led_stores().into_iter().filter(|store| is_here(index(store))) {
        let open = ctx.layout.open_dir(&store.name, key);
        let sealed = ctx.layout.dataset_dir(&store.name, id);
        if open.exists() && !sealed.exists() {
            fs::rename(&open, &sealed).map_err(|e| Error::io("cannot rename", &open, e))?;
            renamed.push(store);
        }
    }
    Ok(renamed)
}

/// Marks dataset `id` as complete on every node, durably. Collective.
pub fn confirm(ctx: &Ctx, id: u64) -> Result<()> {
    agree_here(ctx, mark(ctx, id, Marker::Confirmed, None))
}

/// Marks dataset `id` on this node as one that the program has left alone for long; the markers of
/// other nodes are as good.
pub fn trust(ctx: &Ctx, id: u64) -> Result<()> {
    mark(ctx, id, Marker::Trusted, None)
}

/// Marks dataset `id` on this node; one rank writes for all that share a store. `epoch`: that of
/// its catalogs, if it is known.
fn mark(ctx: &Ctx, id: u64, marker: Marker, epoch: Option<u64>) -> Result<()> {
    for store in ctx.led_stores() {
        let dir = ctx.layout.dataset_dir(&store.name, id);
        let epoch = match epoch {
            None => Catalog::read(&dir)?.map(|catalog| catalog.epoch),
            known => known.filter(|_| Catalog::path(&dir).exists()),
        };
        if let Some(epoch) = epoch {
            marker.write(&dir, epoch)?;
        }
    }
    Ok(())
}
