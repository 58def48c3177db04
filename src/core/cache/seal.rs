//! The seal: a dataset in progress becomes a sealed one, in two phases (DESIGN 4).

use std::path::PathBuf;

use super::{Catalog, Ctx};
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::records::{DatasetKey, FileMeta};
use crate::redundancy::RedundancySet;

/// What is to be sealed, as this rank sees it; ranks that wrote nothing take part with no files.
pub struct SealRequest<'a> {
    /// Series, captured id, generation: the same on all ranks.
    pub key: &'a DatasetKey,
    /// The id it will have: the same on all ranks. At an amendment the id it has.
    pub id: u64,
    /// Random, new for every seal: the same on all ranks.
    pub epoch: u64,
    /// Store that this rank's files lie in.
    pub store: &'a str,
    /// Name and `on_prefix` of this rank's files, in index order; the rest is found out here.
    pub files: Vec<FileMeta>,
    /// How to protect it: redundancy set and complete descriptor of [`super::Protection::choose`].
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
    pub catalog: Catalog,
    /// Bytes of this rank's redundancy files.
    pub redundancy_bytes: u64,
}

/// First phase: sizes, CRC32, redundancy, catalog, the durable record. `untouched` is asked last:
/// false if the program has touched a file of the dataset since the seal began.
///
/// Collective. `Err` on all ranks if any failed or was touched; every record is Open again then.
pub fn prepare(ctx: &Ctx, request: SealRequest, untouched: &dyn Fn() -> bool) -> Result<Prepared> {
    todo!()
}

/// Second phase: the directories get their final names; with `confirmed`, the marker too. Older
/// datasets may be evicted once it has returned `Ok`. Collective.
pub fn commit(ctx: &Ctx, prepared: &Prepared, confirmed: bool) -> Result<()> {
    todo!()
}

/// Marks dataset `id` as confirmed on this node, durably. Each node's leader writes; others return.
pub fn confirm(ctx: &Ctx, id: u64) -> Result<()> {
    todo!()
}

/// Whether this node knows dataset `id` (of `store`) as confirmed.
pub fn is_confirmed(ctx: &Ctx, store: &str, id: u64) -> bool {
    todo!()
}

/// Takes this rank's Prepared record back (the seal failed, or the dataset is invalid). Local.
pub fn void(ctx: &Ctx, key: &DatasetKey) -> Result<()> {
    todo!()
}
