//! The seal: a dataset in progress becomes a sealed one, in two phases (docs/internals/seal.md).
//!
//! What a kill leaves, by when it comes:
//! * before every rank's Prepared record: some rank is Open or has another epoch, so the next start
//!   does not count it;
//! * after them, before the renames: the next start counts it and renames;
//! * between renames: as above; a directory is found under either name.
//!
//! What fails is tried again in the same way, under the same id: whatever of the steps has been
//! done before, a directory that has its final name included, is found there, and a new epoch tells
//! what is old.
//!
//! The CONFIRMED marker is written only after all ranks agreed on the first phase, so one marker on
//! any node proves that every rank was prepared and untouched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::encoder::{Encoded, encode_now, encode_with};
use super::marker::{Marker, mark};
use super::shared_store::keep_records;
use crate::cache::node::agree::agree;
use crate::cache::node::disk::{describe, folders_below, make_own_dir};
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::{Catalog, Ctx, NodeCatalog, Store};
use crate::error::{Error, Result};
use crate::files::{Together, crc32_of_file, read_own, sync_dir};
use crate::kvtree::KvTree;
use crate::records::{
    DatasetKey, DatasetRecord, FileMeta, RecordedState, files_from_list, files_to_list,
};
use crate::redundancy::{MemberData, Protection, RedundancySet};
use crate::system::{Planted, planted, test_pause};

/// What is to be sealed, as this rank sees it; ranks that wrote nothing take part with no files.
pub struct SealRequest<'a> {
    /// Series, captured id, generation: the same on all ranks.
    pub key: &'a DatasetKey,
    /// The id it will have: the same on all ranks. At an amendment, or when a seal is tried again,
    /// the one of the seal before.
    pub id: u64,
    /// Random, new for every seal: the same on all ranks.
    pub epoch: u64,
    /// Store that this rank's files lie in.
    pub store: &'a str,
    /// Name and `on_prefix` of this rank's files, in index order; the rest is found out here. With
    /// `crc32`, size and time of modification that it is the checksum of.
    pub files: Vec<FileMeta>,
    /// For index and summary: the tags of [`crate::transfer::about`]; the same on all ranks.
    pub tags: BTreeMap<String, String>,
    /// See [`DatasetRecord::gone`].
    pub gone: BTreeMap<String, u64>,
    /// How to protect it: redundancy set and complete descriptor of
    /// [`crate::cache::Protect::choose`].
    pub set: &'a RedundancySet,
    /// See `set`; its TYPE names the scheme.
    pub descriptor: &'a KvTree,
}

/// The outcome of the first phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// Dataset id.
    pub id: u64,
    /// Epoch of the seal.
    pub epoch: u64,
    /// Series, captured id, generation.
    pub key: DatasetKey,
    /// Where the dataset lies on this node until [`commit`].
    pub dir: PathBuf,
    /// Where it lies from then on.
    pub sealed_dir: PathBuf,
    /// This rank's files, complete with size and CRC32.
    pub files: Vec<FileMeta>,
    /// All files of all ranks.
    pub catalog: NodeCatalog,
    /// Bytes of this rank's redundancy files.
    pub redundancy_bytes: u64,
    /// What this rank took for its own part: to make its files durable, and to encode them
    /// together with its redundancy set.
    pub own_time: Duration,
}

/// Keeps the program's threads out of a dataset for a moment: runs the action and gives `true` if
/// no file of the dataset has been touched since the seal began, else only gives `false`. A touch
/// that comes while the action runs waits for its end.
pub type IfUntouched<'a> = &'a dyn Fn(&mut dyn FnMut() -> Result<()>) -> Result<bool>;

/// Does the first phase: sizes, CRC32, redundancy, catalog, the durable record. `if_untouched` is
/// called twice: to write the record, so that a later touch finds and revokes it; and for the last
/// vote, with nothing to do.
///
/// Collective.
///
/// # Errors
/// On all ranks if any failed or was touched; every record is Open again then.
pub fn prepare(ctx: &Ctx, request: SealRequest, if_untouched: IfUntouched<'_>) -> Result<Prepared> {
    prepare_encoded(ctx, request, None, if_untouched)
}

/// Does what [`prepare`] does with what a thread has `encoded` for this very request, if anything
/// was. Collective.
///
/// # Errors
/// As [`prepare`], and if the thread of any rank has failed.
pub fn prepare_encoded(
    ctx: &Ctx,
    request: SealRequest,
    encoded: Option<Result<Encoded>>,
    if_untouched: IfUntouched<'_>,
) -> Result<Prepared> {
    let key = request.key.clone();
    let outcome = prepare_unvoted(ctx, request, encoded, if_untouched);
    if outcome.is_err() {
        // The error that led here is what a person needs; a filemap that cannot be written either
        // leaves a record whose epoch no other rank shares, or whose checksums tell.
        let _ = void(ctx, &key);
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
        still(&mut || ctx.filemap.record_prepared_unnamed(record.clone()))?;
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
    let about = (request.id, request.epoch, request.key);
    let write = |whole: &Catalog| write_catalogs(ctx, whole).and_then(|()| sync_names(ctx, whole));
    let whole = Catalog::gather_if_all(ctx, about, own)
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
    let redundancy_bytes = protection.files.iter().map(|file| file.size).sum();
    let files = record.files;
    Ok(Prepared {
        id: request.id,
        epoch: request.epoch,
        key: request.key.clone(),
        dir,
        sealed_dir,
        files,
        catalog,
        redundancy_bytes,
        own_time,
    })
}

/// Does what [`agree`] does; the sentence names the node, whose storage it is.
pub(super) fn agree_here<T>(ctx: &Ctx, outcome: Result<T>) -> Result<T> {
    let here = |error| match error {
        Error::Comm(_) => error,
        error => Error::Remote(format!("node {}: {error}", ctx.host)),
    };
    agree(ctx.world, outcome.map_err(here))
}

/// Does what [`agree_here`] does. What has failed on some rank has failed on all.
fn agree_on<T>(ctx: &Ctx, outcome: Result<T>) -> Result<T> {
    let outcome = agree_here(ctx, outcome);
    if outcome.is_err() {
        ctx.protection.forget_failed();
    }
    outcome
}

fn touched() -> Error {
    Error::Refused("the program wrote to the dataset while it was being sealed".into())
}

/// Makes the folder of ours in a dataset's directory; its name becomes durable with those of the
/// files ([`sync_names`]).
pub(super) fn make_own_folder(dir: &Path) -> Result<()> {
    make_own_dir(dir)?;
    let folder = dir.join(OWN_FOLDER);
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if !folder.is_dir() => Err(Error::io("cannot create", &folder, error)),
        _ => Ok(()),
    }
}

/// Makes the names of all files of the node durable, of the program's, of redundancy files, records
/// and the catalog, and of the directory itself: a file is not sure to have its name after its own
/// fsync. One rank does it for all, after all have made theirs; nothing rests on them before the
/// last vote.
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

/// The dataset's directories in a store, under either name.
fn directories_of(
    ctx: &Ctx,
    store: &Store,
    id: u64,
    key: &DatasetKey,
) -> impl Iterator<Item = PathBuf> {
    let sealed = ctx.layout.dataset_dir(&store.name, id);
    let open = ctx.layout.open_dir(&store.name, key);
    [sealed, open].into_iter().filter(|dir| dir.exists())
}

/// Finds size, mode and times of each file and makes its content durable, and its name, too, where
/// it lies on the prefix or `dir` `is_shared` by nodes. Checksums follow with the encoding, which
/// reads the files anyway.
pub(super) fn measure(
    dir: &Path,
    is_shared: bool,
    prefix: &Path,
    files: &[FileMeta],
) -> Result<Vec<FileMeta>> {
    let mut together = Together::default();
    let mut measure_one = |file: &FileMeta| {
        let path = if file.on_prefix { prefix } else { dir }.join(&file.name);
        let meta = describe(&path, &file.name)?;
        // Files on the prefix too, on every rank that wrote them: the dataset counts on them, and
        // where the prefix has clients, only the writer's own can send what it still holds.
        let opened = read_own(&path).map_err(|e| Error::io("cannot sync", &path, e))?;
        together.add(opened, &path)?;
        let of = |meta: &FileMeta| (meta.size, meta.mtime_seconds, meta.mtime_nanoseconds);
        let crc32 = file.crc32.filter(|_| of(file) == of(&meta));
        Ok(FileMeta { on_prefix: file.on_prefix, crc32, ..meta })
    };
    let measured = files.iter().map(&mut measure_one).collect::<Result<Vec<_>>>()?;
    let folders = |file: &FileMeta| -> Vec<PathBuf> {
        let top = if file.on_prefix { prefix } else { dir };
        Path::new(&file.name).ancestors().skip(1).map(|folder| top.join(folder)).collect()
    };
    let own = files.iter().filter(|file| file.on_prefix || is_shared);
    let folders: BTreeSet<PathBuf> = own.flat_map(folders).collect();
    together.finish_with(folders)?;
    Ok(measured)
}

/// Takes the checksums that the scheme has computed on its way, and computes the others. Files on
/// the prefix get none: reading them back would cost what caching is to save.
pub(super) fn fill_checksums(record: &mut DatasetRecord, protection: &Protection) -> Result<()> {
    let known = protection.file_crcs.iter().copied().chain(std::iter::repeat(None));
    for (file, known) in record.files.iter_mut().zip(known).filter(|(file, _)| !file.on_prefix) {
        file.crc32 = match known {
            Some(crc32) => Some(crc32),
            None => {
                let (length, crc32) = crc32_of_file(&record.dir.join(&file.name))?;
                if length != file.size {
                    return Err(touched());
                }
                Some(crc32)
            }
        };
    }
    Ok(())
}

/// Encodes; the same outcome on all ranks of the world, not only of the set.
pub(crate) fn protect(
    ctx: &Ctx,
    set: &RedundancySet,
    record: &DatasetRecord,
) -> Result<Protection> {
    agree_on(ctx, encode(ctx, set, record, Ok(member_data(record))))
}

/// Encodes what this rank has of the dataset of `record`, on the ranks of one set; each has its own
/// outcome.
pub(super) fn encode(
    ctx: &Ctx,
    set: &RedundancySet,
    record: &DatasetRecord,
    data: Result<MemberData>,
) -> Result<Protection> {
    let type_name = record.descriptor.get_value("TYPE").unwrap_or_default();
    let scheme = ctx
        .protection
        .scheme(type_name)
        .ok_or_else(|| Error::Missing(format!("no redundancy scheme is called \"{type_name}\"")))?;
    encode_with(scheme, set, data, planted(Planted::NoRedundancy))
}

/// Returns what a scheme sees of a record.
pub(crate) fn member_data(record: &DatasetRecord) -> MemberData {
    MemberData {
        dir: record.dir.clone(),
        id: record.dataset_id,
        epoch: record.epoch,
        files: record.files.clone(),
        record: record.to_tree(),
    }
}

/// Keeps the names of the redundancy files in the record, so that a restart can check, move and
/// remove them.
pub(crate) fn note_protection(record: &mut DatasetRecord, protection: &Protection) {
    record.descriptor.set("OWN", files_to_list(&protection.files));
}

/// Returns the redundancy files that a record names.
pub(crate) fn protection_of(record: &DatasetRecord) -> Vec<FileMeta> {
    files_from_list(record.descriptor.child("OWN")).unwrap_or_default()
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

/// Does the second phase: the directories get their final names; with `confirmed`, the marker too.
/// Older datasets may be evicted once it has returned `Ok`. Collective.
///
/// # Errors
/// On all ranks if a directory of any node could not be renamed, or made durable; the next start
/// would still count the dataset.
pub fn commit(ctx: &Ctx, prepared: &Prepared, confirmed: bool) -> Result<()> {
    // Both names lead to the dataset, and the one before is durable. A shared store's is not.
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
    key: &DatasetKey,
    is_here: &dyn Fn(usize) -> bool,
) -> Result<()> {
    let renamed = rename(ctx, id, key, is_here)?;
    renamed.iter().try_for_each(|store| sync_dir(&store.cache_dir))
}

/// Does what [`rename_sealed`] does, not durably; the stores in which there was something to do.
fn rename<'a>(
    ctx: &'a Ctx,
    id: u64,
    key: &DatasetKey,
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

/// Marks dataset `id` as confirmed on every node, durably. Collective.
///
/// # Errors
/// On all ranks if any node has no marker.
pub fn confirm(ctx: &Ctx, id: u64) -> Result<()> {
    agree_here(ctx, mark(ctx, id, Marker::Confirmed, None))
}

/// Marks dataset `id` as one that the program has left alone for long. Local.
///
/// # Errors
/// If this node has no marker then; those of others are as good.
pub fn trust(ctx: &Ctx, id: u64) -> Result<()> {
    mark(ctx, id, Marker::Trusted, None)
}

/// Takes this rank's Prepared record back (the seal failed, or the dataset is invalid). Local.
pub fn void(ctx: &Ctx, key: &DatasetKey) -> Result<()> {
    match ctx.filemap.get(key) {
        Some(record) if record.state == RecordedState::Prepared => ctx.filemap.revoke(key),
        _ => Ok(()),
    }
}

/// Tells whether this node knows dataset `id` of `store` as confirmed.
#[must_use]
pub fn is_confirmed(ctx: &Ctx, store: &str, id: u64) -> bool {
    let dir = ctx.layout.dataset_dir(store, id);
    let sealed = Catalog::read(&dir).ok().flatten().map(|catalog| catalog.epoch);
    sealed.is_some() && Marker::Confirmed.epoch(&dir) == sealed
}
