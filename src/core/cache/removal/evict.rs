//! Removal from the cache. To give pages and blocks back takes a third of the time of writing them,
//! so an evicted dataset's directory only gets a name by which nothing finds it; what it holds is
//! removed later ([`Evicted`]), at the end or by the next start.
//!
//! Data goes first, then its record: a kill in between is like any other loss to the next start.
//! The other way round nothing would name the data.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::node::agree::agree;
use crate::cache::node::disk::names_in;
use crate::cache::node::layout::{Layout, store_of};
use crate::cache::sealing::own_part::protection_of;
use crate::cache::{Ctx, Store};
use crate::comm::trees;
use crate::error::{Result, again};
use crate::files::{join_relative, remove_file_if_there, remove_tree};
use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, FileMeta, RecordKey};
use crate::redundancy::Spares;

const EVICTED_PREFIX: &str = "scr.evicted.";

/// What is left of an evicted dataset in one directory.
#[derive(Debug)]
pub struct Evicted {
    dir: PathBuf,
    files: Vec<String>,
    bytes: u64,
    /// This rank removes the directory with all that is left in it.
    leads: bool,
}

impl Evicted {
    /// Tells whether a name in a cache directory is that of something evicted.
    pub fn is_folder(name: &str) -> bool {
        name.starts_with(EVICTED_PREFIX)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Removes it. Each rank removes its own files, which takes no longer on a node of many.
    pub fn remove(&self) -> Result<()> {
        for file in &self.files {
            let path = join_relative(&self.dir, file)?;
            again(|| remove_file_if_there(&path))?;
        }
        if self.leads { remove(&self.dir) } else { Ok(()) }
    }
}

/// Removes all that was evicted from the store in `cache_dir`, by any rank.
pub fn remove_evicted(cache_dir: &Path) -> Result<()> {
    let names = names_in(cache_dir)?;
    let mut evicted = names.iter().filter(|name| Evicted::is_folder(name));
    evicted.try_for_each(|name| remove_tree(&cache_dir.join(name)))
}

/// Returns what runs before this one, and its start, have put aside in the stores that this rank
/// acts on.
pub fn find_evicted(ctx: &Ctx) -> Vec<Evicted> {
    let in_store = |store: &Store| {
        let names = names_in(&store.cache_dir).unwrap_or_default();
        let dirs = names.into_iter().filter(|name| Evicted::is_folder(name));
        let whole = |name| Evicted {
            dir: store.cache_dir.join(name),
            files: Vec::new(),
            bytes: 0,
            leads: true,
        };
        dirs.map(whole).collect::<Vec<_>>()
    };
    ctx.led_stores().into_iter().flat_map(in_store).collect()
}

/// Removes dataset `id` from the cache. Collective like [`set_aside`].
pub fn evict(ctx: &Ctx, id: u64) -> Result<()> {
    let removed = set_aside(ctx, id)?.iter().try_for_each(Evicted::remove);
    agree(ctx.node, removed)
}

/// Takes dataset `id` out of the cache; each rank is to remove what it gets. Collective over the
/// ranks that share a store.
pub fn set_aside(ctx: &Ctx, id: u64) -> Result<Vec<Evicted>> {
    let own = ctx.filemap.get_id(id);
    let (gone, dirs) = remove_data(ctx, &|record| record.dataset_id == id, &put_aside)?;
    agree(ctx.node, ctx.filemap.forget(&gone))?;
    let files = own.iter().flat_map(|record| {
        let in_cache = record.files.iter().filter(|file| !file.on_prefix).cloned();
        in_cache.chain(protection_of(record)).map(|file| (file.name, file.size))
    });
    let (files, sizes): (Vec<String>, Vec<u64>) = files.unzip();
    let bytes = sizes.iter().sum();
    let dirs = dirs.into_iter().map(|(dir, leads)| (aside(&dir), leads));
    Ok(dirs.map(|(dir, leads)| Evicted { dir, files: files.clone(), bytes, leads }).collect())
}

fn aside(dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    dir.with_file_name(format!("{EVICTED_PREFIX}{name}"))
}

/// Gives the directory the other name, or removes it if that is impossible.
pub(super) fn put_aside(dir: &Path) -> Result<()> {
    let to = aside(dir);
    let rename = || fs::rename(dir, &to).is_ok();
    // The second time with what an earlier one of this name has left out of the way.
    if rename() || (remove_tree(&to).is_ok() && rename()) { Ok(()) } else { remove(dir) }
}

/// Tries again after an error, which may be passing: nobody comes back before the next start.
fn remove(dir: &Path) -> Result<()> {
    again(|| remove_tree(dir))
}

/// Removes a dataset that was never sealed. Collective like [`evict`].
pub fn drop_open(ctx: &Ctx, key: &RecordKey) -> Result<()> {
    discard(ctx, &|record| record.key == *key, &|_| false)
}

/// Keeps this rank's files of dataset `id`, which is about to be evicted, for the next ones to be
/// written over: redundancy files, if they are `protective`, and those of the program that are
/// `wanted`. What cannot be kept goes with the dataset.
pub fn keep_spares(
    ctx: &Ctx,
    id: u64,
    protective: bool,
    wanted: &dyn Fn(&FileMeta) -> bool,
) -> Result<()> {
    let Some(record) = ctx.filemap.get_id(id) else { return Ok(()) };
    let dir = ctx.layout.data_dir(&record);
    let mut files = if protective { protection_of(&record) } else { Vec::new() };
    files.extend(record.files.iter().filter(|file| !file.on_prefix && wanted(file)).cloned());
    Spares::beside(&dir, ctx.world.rank()).keep(&dir, &files)
}

/// Removes the directories that the chosen records of this node's ranks name, unless they are
/// `spared`, then the records. Collective like [`evict`].
pub(crate) fn discard(
    ctx: &Ctx,
    chosen: &dyn Fn(&DatasetRecord) -> bool,
    spared: &dyn Fn(&Path) -> bool,
) -> Result<()> {
    let unless_spared = |dir: &Path| if spared(dir) { Ok(()) } else { remove(dir) };
    let (gone, _) = remove_data(ctx, chosen, &unless_spared)?;
    agree(ctx.node, ctx.filemap.remove_held(&gone))
}

/// Owners and datasets of records, and directories with whether this rank leads there.
type RemovedData = (Vec<(usize, RecordKey)>, Vec<(PathBuf, bool)>);

/// Does [`set_aside`] and [`discard`] to the data. Returns owners and keys of the records, and the
/// directories, with whether this rank leads there.
fn remove_data(
    ctx: &Ctx,
    chosen: &dyn Fn(&DatasetRecord) -> bool,
    remove: &dyn Fn(&Path) -> Result<()>,
) -> Result<RemovedData> {
    let dirs = RefCell::new(Vec::new());
    let held = ctx.filemap.held();
    let mine: Vec<_> = held.iter().filter(|(_, record)| chosen(record)).collect();
    ctx.in_storage_groups(|group| {
        let mut names = KvTree::new();
        let here = mine.iter().filter(|(_, one)| group.stores.contains(&ctx.store_index(one)));
        let named = here.flat_map(|(_, record)| directories(ctx.layout, record));
        // One of both names is that of nothing. Other nodes may see the right one late.
        for dir in named.filter(|dir| group.is_shared || dir.exists()) {
            names.child_mut(dir.display());
        }
        let all = trees::all_gather(group.comm, &names)?;
        let all: BTreeSet<_> = all.iter().flat_map(KvTree::keys).map(PathBuf::from).collect();
        dirs.borrow_mut().extend(all.iter().map(|dir| (dir.clone(), group.leads())));
        let mut doomed = all.iter().filter(|_| group.leads());
        doomed.try_for_each(|dir| remove(dir))
    })?;
    let keys = mine.iter().map(|(owner, record)| (*owner, record.key.clone())).collect();
    Ok((keys, dirs.into_inner()))
}

pub(crate) fn directories(layout: &Layout, record: &DatasetRecord) -> Vec<PathBuf> {
    let store = store_of(record);
    let mut dirs = vec![layout.open_dir(store, &record.key)];
    if record.dataset_id != 0 {
        dirs.push(layout.dataset_dir(store, record.dataset_id));
    }
    dirs
}
