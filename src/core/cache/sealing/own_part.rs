//! A rank's own part of a seal: what it is asked for, and what the rank finds out of its files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::cache::Ctx;
use crate::cache::node::disk::{describe, make_own_dir};
use crate::cache::node::names::OWN_FOLDER;
use crate::cache::node::untouched;
use crate::comm::ranks::ranks_text;
use crate::error::{Error, Result};
use crate::files::{Together, read_own};
use crate::kvtree::KvTree;
use crate::records::{
    DatasetRecord, FileContent, FileMeta, RecordKey, RecordedState, files_from_list, files_to_list,
};
use crate::redundancy::{MemberData, Protection, RedundancySet};

/// What is to be sealed, as this rank sees it; ranks that wrote nothing take part with no files.
pub struct SealRequest<'a> {
    /// The same on all ranks, like `id`, `epoch` and `tags`.
    pub key: &'a RecordKey,
    /// The id it will have. At an amendment, or when a seal is tried again, the one of the seal
    /// before.
    pub id: u64,
    /// Random, new for every seal.
    pub epoch: u64,
    /// Store that this rank's files lie in.
    pub store: &'a str,
    /// Name and `on_prefix` of this rank's files, in index order; the rest is found out here. A
    /// `crc32` is that of the file with this size and time of modification.
    pub files: Vec<FileMeta>,
    /// The tags of [`crate::transfer::about`], for index and summary.
    pub tags: BTreeMap<String, String>,
    /// See [`DatasetRecord::gone`].
    pub gone: BTreeMap<String, u64>,
    /// The redundancy set of [`crate::cache::Protect::choose`].
    pub set: &'a RedundancySet,
    /// The complete descriptor that comes with `set`; its TYPE names the scheme.
    pub descriptor: &'a KvTree,
}

impl SealRequest<'_> {
    /// Makes the rank's record without what is found out about its files. A dataset lies under its
    /// id already if it is amended, or if its last seal failed late.
    pub(super) fn record(&self, ctx: &Ctx) -> DatasetRecord {
        let sealed_dir = ctx.layout.dataset_dir(self.store, self.id);
        let dir = match sealed_dir.exists() {
            true => sealed_dir,
            false => ctx.layout.open_dir(self.store, self.key),
        };
        let mut record = DatasetRecord {
            key: self.key.clone(),
            dataset_id: self.id,
            epoch: self.epoch,
            state: RecordedState::Prepared,
            dir,
            expect: self.files.len() as u64,
            descriptor: self.descriptor.clone(),
            tags: self.tags.clone(),
            gone: self.gone.clone(),
            ..DatasetRecord::default()
        };
        record.descriptor.set_value("STORE", self.store);
        record.descriptor.set_value("MEMBERS", ranks_text(&self.set.world_ranks));
        record
    }
}

pub(super) fn touched() -> Error {
    Error::Refused("the program wrote to the dataset while it was being sealed".into())
}

/// Makes the folder of ours in a dataset's directory; its name becomes durable with those of the
/// files.
pub(super) fn make_own_folder(dir: &Path) -> Result<()> {
    make_own_dir(dir)?;
    let folder = dir.join(OWN_FOLDER);
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if !folder.is_dir() => Err(Error::io("cannot create", &folder, error)),
        _ => Ok(()),
    }
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
        let path = if file.on_prefix { prefix } else { dir }.join(file.place());
        let mut meta = describe(&path, &file.name)?;
        if let Some(part) = &file.part {
            (meta.size, meta.part) = (part.extents.bytes(), file.part.clone());
        }
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

/// Takes the checksums that the scheme has computed on its way. Of the other files, those that are
/// remembered are read later (`late.rs`), what is left is read now. Files on the prefix get none:
/// reading them back would cost what caching is to save.
pub(super) fn fill_checksums(record: &mut DatasetRecord, protection: &Protection) -> Result<()> {
    let known = protection.file_crcs.iter().copied().chain(std::iter::repeat(None));
    let mut files = std::mem::take(&mut record.files);
    let mut own = files.iter_mut().zip(known).filter(|(file, _)| !file.on_prefix);
    let filled = own.try_for_each(|(file, known)| {
        if known.is_some() || untouched::is_untouched(record, &record.dir, file) {
            file.crc32 = known;
            return Ok(());
        }
        let found = FileContent::of(&record.dir, file).and_then(|content| content.crc32());
        file.crc32 = Some(found.map_err(|error| match error {
            Error::Corrupt { .. } => touched(),
            error => error,
        })?);
        Ok(())
    });
    record.files = files;
    filled
}

pub(crate) fn member_data(record: &DatasetRecord) -> MemberData {
    MemberData {
        dir: record.dir.clone(),
        id: record.dataset_id,
        epoch: record.epoch,
        files: record.files.clone(),
        record: record.to_tree(),
    }
}

/// Keeps the redundancy files in the record, so that a restart can check, move and remove them.
pub(crate) fn note_protection(record: &mut DatasetRecord, files: &[FileMeta]) {
    record.descriptor.set("OWN", files_to_list(files));
}

pub(crate) fn protection_of(record: &DatasetRecord) -> Vec<FileMeta> {
    files_from_list(record.descriptor.child("OWN")).unwrap_or_default()
}
