//! Removal of what no record names, at the end of a restart.

use std::path::Path;

use super::agree::agree;
use super::disk::{files_below, names_in};
use super::layout::{OWN_FOLDER, sealed_id};
use super::seal::protection_of;
use super::{Catalog, Ctx, seal};
use crate::error::Result;
use crate::files::{remove_file_if_there, remove_tree};
use crate::kvtree::KvTree;
use crate::records::{DatasetKey, DatasetRecord};

/// Whether a name in a cache directory is that of a dataset, sealed or not.
pub(super) fn is_dataset_name(name: &str) -> bool {
    sealed_id(name).is_some() || DatasetKey::from_directory_name(name).is_some()
}

/// Removes dataset directories that no record of this node's ranks names, and in those of the
/// datasets `offered` also the files that none names: an interrupted move, or a seal that did not
/// come to its end, left them. Files of other datasets stay as they are. Collective over the node.
pub(super) fn sweep(ctx: &Ctx, offered: &[u64]) -> Result<()> {
    let mut named = KvTree::new();
    for (_, record) in ctx.filemap.held() {
        let slot = named.child_mut(ctx.layout.data_dir(&record).display());
        if offered.contains(&record.dataset_id) {
            slot.child_mut(OWN_FOLDER);
            name_files(slot, &record);
        }
    }
    let mut all = KvTree::new();
    for bytes in ctx.node.all_gather(&named.encode())? {
        all.merge(&KvTree::decode(&bytes)?);
    }
    let swept = if ctx.is_node_leader() { remove_unnamed(ctx, &all) } else { Ok(()) };
    agree(ctx.node, swept)
}

/// `named`: directory, then the names of its files; no names at all means that it stays whole.
fn remove_unnamed(ctx: &Ctx, named: &KvTree) -> Result<()> {
    for store in &ctx.layout.stores {
        for name in names_in(&store.cache_dir)?.iter().filter(|name| is_dataset_name(name)) {
            let dir = store.cache_dir.join(name);
            match named.get(&dir.display().to_string()) {
                None => remove_tree(&dir)?,
                Some(files) if files.is_empty() => {}
                Some(files) => remove_unnamed_files(&dir, files)?,
            }
        }
    }
    Ok(())
}

/// Removes from the sealed dataset `id` on this node what no rank of the node has in its own
/// record: files that moved away with their owners. Collective over the node.
pub(super) fn tidy_dataset(ctx: &Ctx, id: u64) -> Result<()> {
    let mut named = KvTree::new();
    if let Some(record) = ctx.filemap.get_id(id) {
        name_files(&mut named, &record);
    }
    let mut all = KvTree::new();
    for bytes in ctx.node.all_gather(&named.encode())? {
        all.merge(&KvTree::decode(&bytes)?);
    }
    let mut dirs = ctx.layout.stores.iter().map(|store| ctx.layout.dataset_dir(&store.name, id));
    let tidied = if ctx.is_node_leader() {
        dirs.try_for_each(|dir| remove_unnamed_files(&dir, &all))
    } else {
        Ok(())
    };
    agree(ctx.node, tidied)
}

fn name_files(named: &mut KvTree, record: &DatasetRecord) {
    let files = record.files.iter().filter(|file| !file.on_prefix);
    for file in files.cloned().chain(protection_of(record)) {
        named.child_mut(&file.name);
    }
}

fn remove_unnamed_files(dir: &Path, named: &KvTree) -> Result<()> {
    for relative in files_below(dir)? {
        let known = relative.to_str().is_some_and(|name| named.contains(name));
        let path = dir.join(&relative);
        let marker = seal::Marker::ALL.iter().any(|marker| marker.path(dir) == path);
        if !known && !marker && path != Catalog::path(dir) {
            remove_file_if_there(&path)?;
        }
    }
    Ok(())
}
