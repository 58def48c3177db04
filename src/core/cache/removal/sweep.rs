//! Removal of what no record names, at the end of a restart.

use std::path::Path;

use super::evict::put_aside;
use crate::cache::node::disk::{files_below, names_in};
use crate::cache::node::names::{OWN_FOLDER, sealed_id};
use crate::cache::sealing::marker::Marker;
use crate::cache::sealing::own_part::protection_of;
use crate::cache::sealing::shared_store::{RECORDS, StorageGroup};
use crate::cache::{Catalog, Ctx, Evicted};
use crate::comm::{Comm, trees};
use crate::error::Result;
use crate::files::{remove_file_if_there, remove_tree};
use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, RecordKey};
use crate::redundancy::Spares;

pub(crate) fn is_dataset_name(name: &str) -> bool {
    sealed_id(name).is_some() || RecordKey::is_directory_name(name)
}

pub(crate) fn goes_with_datasets(name: &str) -> bool {
    is_dataset_name(name) || Spares::is_folder(name) || Evicted::is_folder(name)
}

/// Removes dataset directories that no record of this node's ranks names, and from those of the
/// datasets `offered` also files that none names: an interrupted move or seal left them. Spares are
/// put aside, to be removed later ([`find_evicted`](crate::cache::find_evicted)): they are large,
/// and a start waits for this. Collective over the ranks that share a store.
pub(crate) fn sweep(ctx: &Ctx, offered: &[u64]) -> Result<()> {
    ctx.in_storage_groups(|group| {
        let mut named = KvTree::new();
        for (_, record) in ctx.filemap.held() {
            if !group.stores.contains(&ctx.store_index(&record)) {
                continue;
            }
            let slot = named.child_mut(ctx.layout.data_dir(&record).display());
            if offered.contains(&record.dataset_id) {
                slot.child_mut(OWN_FOLDER);
                name_files(slot, &record);
            }
        }
        let all = merged(group.comm, &named)?;
        if group.leads() { remove_unnamed(ctx, group, &all) } else { Ok(()) }
    })
}

fn merged(comm: &dyn Comm, own: &KvTree) -> Result<KvTree> {
    let mut all = KvTree::new();
    trees::all_gather(comm, own)?.iter().for_each(|named| all.merge(named));
    Ok(all)
}

/// `named` has directories with the names of their files; one without any stays whole.
fn remove_unnamed(ctx: &Ctx, group: &StorageGroup, named: &KvTree) -> Result<()> {
    for store in group.stores.iter().map(|index| &ctx.layout.stores[*index]) {
        for name in names_in(&store.cache_dir)?.iter().filter(|name| goes_with_datasets(name)) {
            let dir = store.cache_dir.join(name);
            match named.get(&dir.display().to_string()) {
                None if Evicted::is_folder(name) => {}
                None if Spares::is_folder(name) => put_aside(&dir)?,
                None if is_theirs(ctx, &dir) => {}
                None => remove_tree(&dir)?,
                Some(files) if files.is_empty() => {}
                Some(files) => remove_unnamed_files(&dir, files)?,
            }
        }
    }
    Ok(())
}

/// Tells whether the C implementation has left it, which has an index in the control directory, and
/// makes no catalog.
fn is_theirs(ctx: &Ctx, dir: &Path) -> bool {
    ctx.layout.control_dir.join("cindex.scrinfo").exists() && !Catalog::path(dir).exists()
}

/// Removes from the sealed dataset `id` on this node what is in no record of its ranks: files that
/// moved away with their owners. Collective over the ranks that share a store.
pub(crate) fn tidy_dataset(ctx: &Ctx, id: u64) -> Result<()> {
    let own = ctx.filemap.get_id(id);
    ctx.in_storage_groups(|group| {
        let mut named = KvTree::new();
        let here = own.iter().filter(|own| group.stores.contains(&ctx.store_index(own)));
        here.for_each(|record| name_files(&mut named, record));
        let all = merged(group.comm, &named)?;
        let stores = group.stores.iter().map(|index| &ctx.layout.stores[*index]);
        let mut dirs = stores.map(|store| ctx.layout.dataset_dir(&store.name, id));
        if group.leads() {
            dirs.try_for_each(|dir| remove_unnamed_files(&dir, &all))
        } else {
            Ok(())
        }
    })
}

fn name_files(named: &mut KvTree, record: &DatasetRecord) {
    let files = record.files.iter().filter(|file| !file.on_prefix);
    for file in files.cloned().chain(protection_of(record)) {
        named.child_mut(file.place());
    }
}

fn remove_unnamed_files(dir: &Path, named: &KvTree) -> Result<()> {
    for relative in files_below(dir)? {
        let known = relative.to_str().is_some_and(|name| named.contains(name));
        let path = dir.join(&relative);
        let marker = Marker::ALL.iter().any(|marker| marker.path(dir) == path);
        let records = path == dir.join(OWN_FOLDER).join(RECORDS);
        if !known && !marker && !records && path != Catalog::path(dir) {
            remove_file_if_there(&path)?;
        }
    }
    Ok(())
}
