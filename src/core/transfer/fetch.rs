//! A dataset of the prefix into the cache, where it is sealed anew (manual 1.1, section 11.4.7; the
//! program flow, `scr_fetch_sync`).
//!
//! Each rank copies the files that it wrote into a directory that no record names, so that the next
//! start sweeps what a kill leaves. Only when all are right, remains of the dataset in the cache
//! go, and it is sealed with an epoch of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::prefix::findings::is_changed;
use super::prefix::others;
use super::prefix::verify::{note_fault, read_summary};
use super::prefix::wholes::changed_wholes;
use super::publish::about;
use super::publish::kept::find;
use super::publish::options::in_turns;
use crate::cache::agree::agree;
use crate::cache::disk::make_own_dir;
use crate::cache::evict::discard;
use crate::cache::{Ctx, Launches, Offered, SealRequest, commit, prepare};
use crate::comm::words;
use crate::error::{Error, Result};
use crate::files::{CopyOptions, copy_file, join_relative, remove_file_if_there, remove_tree};
use crate::kvtree::KvTree;
use crate::records::{DatasetRecord, FileMeta, RecordKey, Summary};
use crate::redundancy::RedundancySet;
use crate::system::{self, random_u64};

/// What became of a dataset.
#[derive(Debug)]
pub enum Fetched {
    /// It is in the cache, protected.
    Cached(Box<Offered>),
    /// It can only be read where it is, for this reason.
    InPlace(String),
    /// It is not what was flushed, and the index says so from now on.
    Fault(String),
}

/// Why a rank could not copy its files.
enum Trouble {
    /// The file is not what was flushed.
    Wrong(String),
    /// The reason says nothing against the dataset.
    Unable(String),
}

fn unable(error: Error) -> Trouble {
    Trouble::Unable(error.to_string())
}

/// Files with name and place; `differing` ones are not what was flushed.
#[derive(Default)]
struct Copied {
    files: Vec<FileMeta>,
    differing: Vec<FileMeta>,
}

/// Where a fetched dataset goes.
#[derive(Clone, Copy)]
pub struct FetchStore<'a> {
    /// The store's name.
    pub name: &'a str,
    /// The bytes that this rank may take of it.
    pub capacity: u64,
}

/// Copies dataset `id` into `store`, and protects it as `descriptor` says. Collective;
/// the outcome is of the same kind on all ranks.
pub fn fetch(ctx: &Ctx, id: u64, store: FetchStore, descriptor: &KvTree) -> Result<Fetched> {
    let summary = match read_summary(ctx, id)? {
        Ok(summary) => summary,
        Err(fault) => {
            note_fault(ctx, id)?;
            return Ok(Fetched::Fault(fault));
        }
    };
    if let Some(why) = first(ctx, why_not(ctx, &summary))? {
        return Ok(Fetched::InPlace(why));
    }
    let (set, descriptor) = ctx.protection.choose(descriptor)?;
    let need = bytes_needed(ctx, &summary, &set, &descriptor);
    if let Some(why) = first(ctx, why_no_room(ctx, store, need)?)? {
        return Ok(Fetched::InPlace(why));
    }
    let start = Instant::now();
    let changed = changed_wholes(ctx, &summary, ctx.transfer.check_crc)?;
    let from = From { ctx, summary: &summary, store: store.name, changed };
    let files = match from.copy()? {
        Ok(files) => files,
        Err(Trouble::Unable(why)) => return Ok(Fetched::InPlace(why)),
        Err(Trouble::Wrong(fault)) => {
            note_fault(ctx, id)?;
            return Ok(Fetched::Fault(fault));
        }
    };
    match from.seal(files, &set, &descriptor) {
        Ok(mut offered) => {
            offered.seconds = start.elapsed().as_secs_f64();
            Ok(Fetched::Cached(Box::new(offered)))
        }
        Err(error @ Error::Comm(_)) => Err(error),
        Err(error) => {
            from.discard()?;
            Ok(Fetched::InPlace(error.to_string()))
        }
    }
}

fn first(ctx: &Ctx, own: Option<String>) -> Result<Option<String>> {
    let all = ctx.world.all_gather(own.unwrap_or_default().as_bytes())?;
    let first = all.iter().find(|text| !text.is_empty());
    Ok(first.map(|text| String::from_utf8_lossy(text).into_owned()))
}

fn files_of(summary: &Summary, rank: usize) -> &[FileMeta] {
    summary.files.get(&rank).map_or(&[], Vec::as_slice)
}

/// What several nodes have written is read where it is: no node has all who read it.
fn is_copied(file: &&FileMeta) -> bool {
    !file.on_prefix && !file.is_shared
}

fn bytes_of(summary: &Summary, rank: usize) -> u64 {
    let copied = files_of(summary, rank).iter().filter(is_copied);
    copied.fold(0, |sum: u64, file| sum.saturating_add(file.size))
}

fn why_not(ctx: &Ctx, summary: &Summary) -> Option<String> {
    let (ranks, size) = (summary.ranks, ctx.world.size());
    if ranks != size as u64 {
        return Some(format!("{ranks} ranks wrote it, which rank reads what is not known"));
    }
    let mut all = summary.files.values().flatten();
    if all.clone().all(|file| file.on_prefix) {
        return Some("the program itself wrote its files there".into());
    }
    if !all.any(|file| is_copied(&file)) {
        return Some("several nodes have written its files together".into());
    }
    let mut copied = files_of(summary, ctx.world.rank()).iter().filter(is_copied);
    // What a copy would not show to the program as it is.
    let special = copied.find(|file| !is_plain(&ctx.prefix.join(&file.name)))?;
    Some(format!("{} is a link, has several names, or belongs to somebody else", special.name))
}

fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_file() && found.nlink() == 1 && found.uid() == system::user_id()
    })
}

/// An upper bound of what this rank's part takes, redundancy included.
fn bytes_needed(ctx: &Ctx, summary: &Summary, set: &RedundancySet, descriptor: &KvTree) -> u64 {
    let most = set.world_ranks.iter().map(|rank| bytes_of(summary, *rank)).max().unwrap_or(0);
    let (members, losses) = (set.world_ranks.len() as u64, set.failures as u64);
    let redundancy = match descriptor.get_value("TYPE") {
        _ if members < 2 => 0,
        Some("PARTNER") => most.saturating_mul(losses),
        Some("XOR") => most.div_ceil(members - 1),
        Some("RS") => most.saturating_mul(losses).div_ceil(members.saturating_sub(losses).max(1)),
        _ => 0,
    };
    bytes_of(summary, ctx.world.rank()).saturating_add(redundancy)
}

/// The next checkpoint needs as much room beside it, or it would go to the prefix. Collective.
fn why_no_room(ctx: &Ctx, store: FetchStore, need: u64) -> Result<Option<String>> {
    let shared = ctx.sharing.is_shared(ctx.layout.store_index(store.name));
    let of_node = words::all_gather(ctx.node, [need])?;
    let of_world = words::all_gather(ctx.world, [need])?;
    let all = if shared { of_world } else { of_node };
    let bytes = all.into_iter().flatten().fold(0, u64::saturating_add);
    let dir = ctx.layout.cache_dir(store.name);
    let launches = Launches::default().alive(&ctx.layout.control_dir);
    let room = system::room(dir).unwrap_or(0) / launches;
    let (dir, host) = (dir.display(), ctx.host);
    if room / 2 < bytes {
        return Ok(Some(format!("{dir} on {host} has no room for {bytes} bytes")));
    }
    let why = || {
        let rank = ctx.world.rank();
        format!("{need} bytes of rank {rank} are too much for the CAPACITY of {dir} on {host}")
    };
    Ok((store.capacity / 2 < need).then(why))
}

struct From<'a> {
    ctx: &'a Ctx<'a>,
    summary: &'a Summary,
    store: &'a str,
    /// Names of files that several nodes have written and that are not what was flushed.
    changed: BTreeSet<String>,
}

impl From<'_> {
    fn key(&self) -> &RecordKey {
        &self.summary.dataset.key
    }

    /// Whether this rank acts for all that share its store.
    fn leads(&self) -> bool {
        let store = self.ctx.layout.stand_in(self.store);
        self.ctx.led_stores().iter().any(|led| led.name == store)
    }

    fn scratch(&self) -> PathBuf {
        let key = RecordKey { generation: u64::MAX, ..self.key().clone() };
        self.ctx.layout.open_dir(self.store, &key)
    }

    /// Nothing is left of the files if any rank has trouble. Collective.
    fn copy(&self) -> Result<std::result::Result<Vec<FileMeta>, Trouble>> {
        let ctx = self.ctx;
        let width = ctx.transfer.fetch_width;
        let copied = in_turns(ctx.world, width, || Ok(self.copy_own()))?;
        let differing = copied.as_ref().map_or(&[][..], |copied| &copied.differing);
        let names = differing.iter().map(|file| file.name.clone()).collect();
        let id = self.summary.dataset.id;
        let theirs = others::ask(ctx, &names, &|names| others::of_another(ctx.prefix, id, names))?;
        let own = copied.and_then(|copied| self.settle(copied, &theirs));
        let (wrong, unable) = match &own {
            Ok(_) => (None, None),
            Err(Trouble::Wrong(what)) => (Some(what.clone()), None),
            Err(Trouble::Unable(why)) => (None, Some(format!("rank {}: {why}", ctx.world.rank()))),
        };
        let trouble = match (first(ctx, wrong)?, first(ctx, unable)?) {
            (None, None) => return Ok(own),
            (Some(what), _) => Trouble::Wrong(what),
            (None, Some(why)) => Trouble::Unable(why),
        };
        agree(ctx.world, if self.leads() { remove_tree(&self.scratch()) } else { Ok(()) })?;
        Ok(Err(trouble))
    }

    fn copy_own(&self) -> std::result::Result<Copied, Trouble> {
        let mut copied = Copied::default();
        for file in files_of(self.summary, self.ctx.world.rank()) {
            let source = join_relative(self.ctx.prefix, &file.name).map_err(unable)?;
            let is_gone = self.key().is_shared_name(&file.name) && !source.exists();
            let is_copied = is_copied(&file);
            let differs = file.is_shared && self.changed.contains(&file.name)
                || is_copied && (is_gone || !self.copy_file(&source, file)?);
            if differs {
                copied.differing.push(file.clone());
            } else if is_copied || source.exists() {
                // One that the program has deleted before it was flushed is in the list, too.
                let (name, on_prefix) = (file.name.clone(), !is_copied);
                copied.files.push(FileMeta { name, on_prefix, ..FileMeta::default() });
            }
        }
        Ok(copied)
    }

    fn copy_file(&self, source: &Path, file: &FileMeta) -> std::result::Result<bool, Trouble> {
        let target = join_relative(&self.scratch(), &file.name).map_err(unable)?;
        let ready = target.parent().map_or(Ok(()), make_own_dir);
        let how = CopyOptions {
            buffer_bytes: self.ctx.transfer.buffer_bytes,
            crc32: self.ctx.transfer.check_crc,
            sync: false, // The seal does it.
            ..CopyOptions::default()
        };
        let copied = ready.and_then(|()| copy_file(source, &target, how)).map_err(unable)?;
        let unknown = file.crc32.is_none() || copied.crc32.is_none();
        Ok(copied.bytes == file.size && (unknown || copied.crc32 == file.crc32))
    }

    /// Of files that are not what was flushed: if another dataset has the name (`theirs`), the copy
    /// that was kept is cached, if there is one; one that somebody has changed to choose where to
    /// begin is read where it is, and one that was deleted stays so.
    fn settle(
        &self,
        copied: Copied,
        theirs: &BTreeSet<String>,
    ) -> std::result::Result<Vec<FileMeta>, Trouble> {
        let (ctx, id) = (self.ctx, self.summary.dataset.id);
        let Copied { mut files, differing } = copied;
        for file in differing {
            let target = join_relative(&self.scratch(), &file.name).map_err(unable)?;
            let is_theirs = theirs.contains(&file.name);
            let is_there = join_relative(ctx.prefix, &file.name).is_ok_and(|path| path.exists());
            let is_chosen = self.key().is_shared_name(&file.name)
                && (!is_there || is_changed(ctx.prefix, &file));
            let kept = find(ctx.prefix, id, &file).filter(|_| is_theirs);
            match &kept {
                Some(kept) => copy_file(kept, &target, CopyOptions::default()).map(drop),
                None if is_theirs || is_chosen => remove_file_if_there(&target),
                None => {
                    let name = &file.name;
                    let what = format!("{name} has not the content that it was flushed with");
                    return Err(Trouble::Wrong(what));
                }
            }
            .map_err(unable)?;
            if kept.is_some() || is_there {
                let (name, on_prefix) = (file.name, kept.is_none());
                files.push(FileMeta { name, on_prefix, ..FileMeta::default() });
            }
        }
        Ok(files)
    }

    fn discard(&self) -> Result<()> {
        let (id, key) = (self.summary.dataset.id, self.key());
        let chosen = |record: &DatasetRecord| record.dataset_id == id || record.key == *key;
        agree(self.ctx.world, discard(self.ctx, &chosen, &|_| false))
    }

    fn seal(
        &self,
        files: Vec<FileMeta>,
        set: &RedundancySet,
        descriptor: &KvTree,
    ) -> Result<Offered> {
        let (ctx, dataset) = (self.ctx, &self.summary.dataset);
        self.discard()?;
        agree(ctx.world, if self.leads() { self.name_copies() } else { Ok(()) })?;
        let epoch = words::broadcast(ctx.world, random_u64(), 0)?;
        let request = SealRequest {
            key: self.key(),
            id: dataset.id,
            epoch,
            store: self.store,
            files,
            tags: about::tags_of(dataset),
            gone: BTreeMap::new(),
            set,
            descriptor,
        };
        let prepared = prepare(ctx, request, None, &|action| action().map(|()| true))?;
        commit(ctx, &prepared, true)?;
        Ok(Offered {
            id: dataset.id,
            key: prepared.key,
            epoch,
            confirmed: true,
            dir: prepared.sealed_dir,
            store: self.store.to_owned(),
            files: prepared.files,
            left: BTreeSet::new(),
            gone: BTreeMap::new(),
            catalog: prepared.catalog,
            rebuilt: Vec::new(),
            moved: Vec::new(),
            fetched: true,
            reencoded: false,
            unprotected: None,
            redundancy_bytes: prepared.redundancy_bytes,
            scheme: descriptor.get_value("TYPE").unwrap_or_default().to_owned(),
            seconds: 0.0,
        })
    }

    fn name_copies(&self) -> Result<()> {
        let (from, to) = (self.scratch(), self.ctx.layout.open_dir(self.store, self.key()));
        remove_tree(&to)?;
        if !from.exists() {
            return Ok(()); // No rank of this node has files.
        }
        fs::rename(&from, &to).map_err(|e| Error::io("cannot rename", &from, e))
    }
}
