//! The cache of a run with another number of ranks: the ranks present bring together what their
//! nodes hold, one of them rebuilds and publishes it; only then the cache goes. `scr scavenge` goes
//! the same way with what a dead job has left; nodes' names stand for leaders' ranks then.
//!
//! Meanwhile `<prefix>/.scr/takeover/` has (numbers follow from the stores' names):
//! ```text
//! node.<leader's rank>/control/<filemaps>      node.<leader's rank>/store.<number>/<datasets>
//! shared.<number>/<datasets>
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::cache::agree::agree;
use crate::cache::disk::{files_below, make_own_dir, names_in};
use crate::cache::{
    self, Ctx, Layout, Protect, Remains, Share, Store, Withheld, drop_other_size, is_filemap_name,
    spoiled_in,
};
use crate::comm::solo::Solo;
use crate::comm::{Comm, trees};
use crate::error::{Error, Result};
use crate::files::{CopyOptions, copy_file, crc32, remove_tree, sync_dir};
use crate::kvtree::KvTree;
use crate::progress::{self, Total};
use crate::records::RecordKey;
use crate::redundancy::{RedundancySet, Scheme, scheme_by_name};
use crate::system::Lanes;
use crate::transfer::flush::shares::flush_shares;
use crate::transfer::prefix::index::{ListedDataset, last_turn, list_prefix, record_incomplete};
use crate::transfer::prefix::window::Left;
use crate::transfer::publish::about::About;
use crate::transfer::publish::newer::kept_by_newer;
use crate::transfer::publish::parts::lacking_parts;

/// It says whose cache it is.
pub(super) const LAUNCH: &str = "launch.scr";

/// What became of the cache of a run with another number of ranks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherSize {
    /// Its number of ranks.
    pub ranks: usize,
    /// Datasets that have come to the prefix; oldest first.
    pub published: Vec<(u64, RecordKey)>,
    /// What has left the prefix for them (`SCR_PREFIX_SIZE`); known to rank 0.
    pub left: Left,
    /// Why other datasets could not be had: id, key, reason.
    pub withheld: Vec<(u64, RecordKey, String)>,
    /// Names of what was made for another prefix; known to who has read the records.
    pub strange: BTreeSet<String>,
    /// The cache is gone. Else something newer than all on the prefix may be had by another launch.
    pub dropped: bool,
}

/// Publishes what such a cache holds, if there is one on this launch's nodes. Each of rank 0's
/// threads calls `enter` first. Collective; on an error the cache is as it was.
pub fn publish_other_size<E: Fn() + Sync>(
    ctx: &Ctx,
    identity: &str,
    enter: &E,
) -> Result<Option<OtherSize>> {
    let folder = ctx.prefix.join(".scr").join("takeover");
    if ctx.world.rank() == 0 {
        // Of one that a kill has ended; if it cannot be cleared, the next copy says why.
        let _ = remove_tree(&folder);
    }
    let own = cache::other_size(ctx, identity);
    let answers = ctx.world.all_gather(own.as_deref().unwrap_or_default().as_bytes())?;
    let Some(there) = answers.iter().find(|answer| !answer.is_empty()) else { return Ok(None) };
    let there = String::from_utf8_lossy(there).into_owned();
    let ranks = cache::size_in(&there).unwrap_or(0);
    if ranks == 0 {
        return Err(Error::Refused(format!(
            "it is of a run with an unknown number of ranks: {there}"
        )));
    }
    let cleared = if ctx.world.rank() == 0 { remove_tree(&folder) } else { Ok(()) };
    agree(ctx.world, cleared)?;
    let mine = own.as_deref() == Some(&*there);
    let staged = if mine { stage(ctx, &folder) } else { Ok(()) };
    agree(ctx.world, staged)?;
    let done = match ctx.world.rank() {
        0 => {
            let all = &|_: &[cache::Whole], _: usize| true;
            Run { ctx, folder: &folder, identity: &there, ranks, wanted: all, enter }.publish()
        }
        _ => Ok(OtherSize { ranks, ..OtherSize::default() }),
    };
    let done = agree(ctx.world, done)?;
    let done = share(ctx, done)?;
    if done.dropped {
        drop_other_size(ctx, mine)?;
    }
    if ctx.world.rank() == 0 {
        // A later start clears what stays.
        let _ = remove_tree(&folder);
    }
    Ok(Some(done))
}

fn stage(ctx: &Ctx, folder: &Path) -> Result<()> {
    let node = node_folder(folder, &ctx.world.rank().to_string());
    let place = |index: usize, store: &Store| {
        let shared = ctx.sharing.is_shared(index);
        if shared && ctx.sharing.ranks(index).first() != Some(&ctx.world.rank()) {
            return None;
        }
        Some(place_of(folder, &node, &store.name, shared))
    };
    stage_remains(ctx.layout, &node, &place, &|_| true).map(drop)
}

pub(super) fn node_folder(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("node.{name}"))
}

pub(super) fn place_of(folder: &Path, node: &Path, store: &str, shared: bool) -> PathBuf {
    let number = crc32(store.as_bytes());
    match shared {
        true => folder.join(format!("shared.{number:08x}")),
        false => node.join(format!("store.{number:08x}")),
    }
}

/// Copies a node's records and datasets (of sealed ones the `wanted` ids) to `folder`, where
/// [`publish_remains`] finds them. Returns the number of datasets.
pub fn copy_remains(
    layout: &Layout,
    folder: &Path,
    name: &str,
    wanted: &dyn Fn(u64) -> bool,
) -> Result<usize> {
    let node = node_folder(folder, name);
    remove_tree(&node)?;
    let place = |_: usize, store: &Store| Some(place_of(folder, &node, &store.name, false));
    stage_remains(layout, &node, &place, wanted)
}

fn stage_remains(
    layout: &Layout,
    node: &Path,
    place: &dyn Fn(usize, &Store) -> Option<PathBuf>,
    wanted: &dyn Fn(u64) -> bool,
) -> Result<usize> {
    let control = node.join("control");
    make_own_dir(&control)?;
    for name in names_in(&layout.control_dir)?.iter().filter(|name| is_filemap_name(name)) {
        copy(&layout.control_dir.join(name), &control.join(name))?;
    }
    copy(&layout.control_dir.join(LAUNCH), &control.join(LAUNCH))?;
    let strange = cache::strange_ids(layout);
    let wanted = |id: u64| wanted(id) && !strange.contains(&id);
    let (mut found, mut files, mut bytes) = (BTreeSet::new(), Vec::new(), 0);
    for (index, store) in layout.stores.iter().enumerate() {
        let Some(to) = place(index, store) else { continue };
        make_own_dir(&to)?;
        for name in files_below(&store.cache_dir)? {
            let top = name.components().next().map(|part| part.as_os_str().to_string_lossy());
            let Some(top) = top.filter(|top| cache::is_dataset_name(top)) else { continue };
            if cache::sealed_id(&top).is_none_or(&wanted) {
                let from = store.cache_dir.join(&name);
                bytes += from.metadata().map_or(0, |there| there.len());
                files.push((from, to.join(&name)));
                found.insert(top.into_owned());
            }
        }
    }
    let _step = progress::step("copying", Total::Bytes(Some(bytes)));
    files.iter().try_for_each(|(from, to)| copy(from, to))?;
    sync_dir(node)?;
    Ok(found.len())
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.exists() {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        make_own_dir(parent)?;
    }
    let options = CopyOptions { crc32: false, sync: false, ..CopyOptions::default() };
    copy_file(from, to, options).map(drop)
}

struct Run<'a> {
    ctx: &'a Ctx<'a>,
    folder: &'a Path,
    identity: &'a str,
    ranks: usize,
    /// Of all that is whole, whether the one with this index is to come to the prefix.
    wanted: &'a dyn Fn(&[cache::Whole], usize) -> bool,
    enter: &'a (dyn Fn() + Sync),
}

/// Which datasets of a run that is gone come to the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The newest of every series, and all output.
    Newest,
    /// All that can be had.
    All,
    /// The one with this id.
    Id(u64),
}

/// Publishes what [`copy_remains`] or [`crate::transfer::gather_found`] has brought to `folder`;
/// `None` if there is nothing of a run. What cannot be had, and is newer than all else of its
/// series, gets an entry in the index that says so. `ctx` is that of a world of one.
pub fn publish_remains<E: Fn() + Sync>(
    ctx: &Ctx,
    folder: &Path,
    which: Which,
    enter: &E,
) -> Result<Option<OtherSize>> {
    let identity = |name: &String| {
        let path = folder.join(name).join("control").join(LAUNCH);
        Some(cache::identity_in(&KvTree::read_file(path).ok()??)?.to_owned())
    };
    let found = names_in(folder)?.iter().find_map(identity);
    let Some(identity) = found else { return Ok(None) };
    let Some(ranks) = cache::size_in(&identity) else {
        return Err(Error::Refused(format!("a run with an unknown number of ranks: {identity}")));
    };
    let listed = list_prefix(ctx.prefix)?;
    let wanted = &|whole: &[cache::Whole], at: usize| {
        let one = &whole[at];
        match which {
            Which::All => return true,
            Which::Id(id) => return one.id == id,
            Which::Newest => {}
        }
        let is_newer = |there: &&ListedDataset| there.restorable && there.id > one.id;
        let outdated =
            listed.iter().filter(is_newer).any(|there| there.key.series == one.key.series);
        let newer = |other: &cache::Whole| other.key.series == one.key.series && other.id > one.id;
        let is_output =
            one.records.iter().any(|record| About::of_record(record, ranks).dataset.is_output);
        is_output || !(outdated || whole.iter().any(newer))
    };
    let mut done = Run { ctx, folder, identity: &identity, ranks, wanted, enter }.publish()?;
    let listed = list_prefix(ctx.prefix)?;
    done.withheld.retain(|(id, key, _)| {
        let is_meant = !matches!(which, Which::Id(only) if only != *id);
        is_meant && listed.iter().all(|one| one.key.series != key.series || one.id < *id)
    });
    for (id, key, _) in &done.withheld {
        record_incomplete(ctx.prefix, *id, key)?;
    }
    Ok(Some(done))
}

/// Finds the stores that the records in `folder` name.
pub fn stores_of_remains(folder: &Path) -> BTreeSet<String> {
    let of_node = |name| cache::stores_in_records(&folder.join(name).join("control"));
    names_in(folder).unwrap_or_default().into_iter().flat_map(of_node).collect()
}

impl Run<'_> {
    fn publish(&self) -> Result<OtherSize> {
        // The real ranks can still talk to one another, whatever happens here.
        let done = catch_unwind(AssertUnwindSafe(|| self.rebuild_and_publish()));
        let crashed = || Error::Process("the cache of another run could not be rebuilt".into());
        done.unwrap_or_else(|_| Err(crashed()))
    }

    fn rebuild_and_publish(&self) -> Result<OtherSize> {
        let lanes = Lanes { width: self.ctx.transfer.flush_width, enter: self.enter };
        let remains = Remains {
            nodes: self.nodes()?,
            spare: self.layout(&self.folder.join("none")),
            identity: self.identity,
            ranks: self.ranks,
            protection: &OnlyRebuild { piece_bytes: self.ctx.protection.piece_bytes() },
            lanes,
            only: None,
        };
        let step = progress::step("checking and rebuilding", Total::Bytes(None));
        let mut found = remains.rebuild()?;
        drop(step);
        let alone = Solo::new();
        let alone: &dyn Comm = &alone;
        let leaders = Some(alone);
        let ctx = Ctx { world: alone, node: alone, node_ranks: &[0], leaders, ..*self.ctx };
        let mut listed = list_prefix(ctx.prefix)?;
        listed.retain(|one| one.restorable);
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        let (mut published, mut left) = (Vec::new(), Left::new());
        for (id, key) in listed.iter().map(|one| (one.id, &one.key)) {
            let slot = newest.entry(&key.series).or_default();
            *slot = id.max(*slot);
        }
        // What that run had left does not take the names of what it went on from.
        let turn = last_turn(ctx.prefix)?;
        found.whole.sort_by_key(|one| !turn.is_some_and(|turn| turn.leaves(one.id)));
        for (at, cache::Whole { id, key, records }) in found.whole.iter().enumerate() {
            if !(self.wanted)(&found.whole, at) || listed.iter().any(|one| one.id == *id) {
                continue;
            }
            let reason = spoiled_in(ctx.prefix, records).or_else(|| lacking_parts(records));
            if let Some(reason) = reason {
                let key = key.clone();
                let spoiled =
                    Withheld { id: *id, key, reason, spoiled: true, ..Withheld::default() };
                found.withheld.push(spoiled);
                continue;
            }
            let there = listed.iter().map(|one| (one.id, &one.key));
            let Some(kept) = kept_by_newer(&ctx, *id, key, there)? else { continue };
            let of = |(owner, record): (usize, &_)| Share { owner, record: Clone::clone(record) };
            let shares: Vec<Share> = records.iter().enumerate().map(of).collect();
            let is_kept = |name: &str| kept.contains(name);
            left.append(&mut flush_shares(&ctx, &shares, self.ranks, &is_kept, lanes)?);
            published.push((*id, key.clone()));
            let slot = newest.entry(&key.series).or_default();
            *slot = (*id).max(*slot);
        }
        let older = |one: &Withheld| newest.get(&*one.key.series).is_some_and(|id| *id > one.id);
        // What nobody can read may be worth more than all that is told of.
        let dropped = !found.damaged
            && found.strange.is_empty()
            && found.withheld.iter().all(|one| one.id == 0 || one.deleted || older(one));
        let told = found.withheld.into_iter().filter(|one| one.id > 0);
        let withheld = told.map(|one| (one.id, one.key, one.reason)).collect();
        let strange = found.strange;
        Ok(OtherSize { ranks: self.ranks, published, left, withheld, strange, dropped })
    }

    fn nodes(&self) -> Result<Vec<(String, Layout)>> {
        let mut names = names_in(self.folder)?;
        names.retain(|name| name.starts_with("node."));
        let node = |name: String| (name.clone(), self.layout(&self.folder.join(name)));
        Ok(names.into_iter().map(node).collect())
    }

    fn layout(&self, folder: &Path) -> Layout {
        let store = |(index, store): (usize, &Store)| {
            let is_shared = self.ctx.sharing.is_shared(index);
            let cache_dir = place_of(self.folder, folder, &store.name, is_shared);
            Store { cache_dir, usable: true, is_shared, ..store.clone() }
        };
        let stores = self.ctx.layout.stores.iter().enumerate().map(store).collect();
        let owner = self.ctx.layout.owner.clone();
        Layout { control_dir: folder.join("control"), stores, owner }
    }
}

/// What was brought together is published, not kept: it needs no protection.
pub struct OnlyRebuild {
    pub piece_bytes: usize,
}

impl Protect for OnlyRebuild {
    fn scheme(&self, type_name: &str) -> Option<&dyn Scheme> {
        scheme_by_name(type_name).map(|scheme| scheme as &dyn Scheme)
    }

    fn choose(&self, _descriptor: &KvTree) -> Result<(RedundancySet, KvTree)> {
        Err(Error::Missing("nothing is protected anew".to_string()))
    }

    fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    fn is_spread(&self, _descriptor: &KvTree, _world_ranks: &[usize]) -> bool {
        true
    }
}

/// Rank 0's outcome, everywhere. Collective.
fn share(ctx: &Ctx, done: OtherSize) -> Result<OtherSize> {
    let mut tree = KvTree::new();
    tree.set_flag("DROPPED", done.dropped);
    let entries = done.published.iter().map(|(id, key)| (id, key, ""));
    let withheld = done.withheld.iter().map(|(id, key, why)| (id, key, why.as_str()));
    for (id, key, why) in entries.chain(withheld) {
        let entry = tree.child_mut("ID").child_mut(id);
        entry.set("KEY", key.to_tree());
        entry.set_value("WHY", why);
    }
    let tree = trees::from_root(ctx.world, &tree, 0)?;
    let mut shared = OtherSize { published: vec![], withheld: vec![], ..done };
    shared.dropped = tree.get_flag("DROPPED");
    for (id, entry) in tree.child("ID").iter() {
        let (Ok(id), Some(key)) = (id.parse(), RecordKey::from_tree(entry.child("KEY"))) else {
            continue;
        };
        match entry.get_value("WHY").unwrap_or_default() {
            "" => shared.published.push((id, key)),
            why => shared.withheld.push((id, key, why.to_owned())),
        }
    }
    shared.published.sort_by_key(|(id, _)| *id);
    shared.withheld.sort_by_key(|(id, _, _)| *id);
    Ok(shared)
}
