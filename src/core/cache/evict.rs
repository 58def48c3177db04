//! Removal from the cache: data first, record after.
//!
//! A kill in between leaves records of data that is gone, which the next start treats like any
//! other loss; the other way round it would leave data that nothing names. A record that a newer
//! dataset of its series outdates waits for the next one to be written ([`super::FilemapFile`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Ctx;
use super::agree::agree;
use super::layout::{Layout, store_of};
use super::seal::protection_of;
use crate::comm::trees;
use crate::error::{Result, again};
use crate::files::remove_tree;
use crate::kvtree::KvTree;
use crate::records::{DatasetKey, DatasetRecord};
use crate::redundancy::Spares;

/// Removes dataset `id` from the cache. Collective over the ranks that share a store, which is the
/// node as a rule: others need not be waited for.
pub fn evict(ctx: &Ctx, id: u64) -> Result<()> {
    let gone = remove_data(ctx, &|record| record.dataset_id == id, &|_| false)?;
    agree(ctx.node, ctx.filemap.forget(&gone))
}

/// Removes a dataset that was never sealed from the cache. Collective like [`evict`].
pub fn drop_open(ctx: &Ctx, key: &DatasetKey) -> Result<()> {
    discard(ctx, &|record| record.key == *key, &|_| false)
}

/// Keeps this rank's redundancy files of the sealed dataset `id`, which is about to be evicted, for
/// its next ones to be written over. Local.
///
/// # Errors
/// If one could not be: it goes with the dataset.
pub fn keep_spares(ctx: &Ctx, id: u64) -> Result<()> {
    let Some(record) = ctx.filemap.get_id(id) else { return Ok(()) };
    let dir = ctx.layout.data_dir(&record);
    Spares::beside(&dir, ctx.world.rank()).keep(&dir, &protection_of(&record))
}

/// Removes everything that the chosen records of this node's ranks name, but for directories that
/// are `spared`, then the records. Collective like [`evict`].
pub(crate) fn discard(
    ctx: &Ctx,
    chosen: &dyn Fn(&DatasetRecord) -> bool,
    spared: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    let gone = remove_data(ctx, chosen, spared)?;
    agree(ctx.node, ctx.filemap.remove_held(&gone))
}

/// The data of [`discard`]; gives owner and key of the records that are left.
fn remove_data(
    ctx: &Ctx,
    chosen: &dyn Fn(&DatasetRecord) -> bool,
    spared: &dyn Fn(&Path) -> bool,
) -> Result<Vec<(usize, DatasetKey)>> {
    let held = ctx.filemap.held();
    let mine: Vec<_> = held.iter().filter(|(_, record)| chosen(record)).collect();
    ctx.in_storage_groups(|group| {
        let mut names = KvTree::new();
        let here = mine.iter().filter(|(_, one)| group.stores.contains(&ctx.store_index(one)));
        for dir in here.flat_map(|(_, record)| directories(ctx.layout, record)) {
            names.child_mut(dir.display());
        }
        let all = trees::all_gather(&*group.comm, &names)?;
        let all: BTreeSet<_> = all.iter().flat_map(KvTree::keys).map(PathBuf::from).collect();
        let mut doomed = all.iter().filter(|dir| group.leads() && !spared(dir));
        // Again after a passing error: nobody comes back to what is left before the next start.
        doomed.try_for_each(|dir| again(|| remove_tree(dir)))
    })?;
    Ok(mine.iter().map(|(owner, record)| (*owner, record.key.clone())).collect())
}

/// Returns every name that the data of `record` may have on this node.
pub(super) fn directories(layout: &Layout, record: &DatasetRecord) -> Vec<PathBuf> {
    let store = store_of(record);
    let mut dirs = vec![layout.open_dir(store, &record.key)];
    if record.dataset_id != 0 {
        dirs.push(layout.dataset_dir(store, record.dataset_id));
    }
    dirs
}
