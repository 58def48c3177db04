//! Who acts in which store. In one that several nodes reach a dataset is one directory: one rank
//! acts for all that share it (renames, markers, catalog, removal), and the records of all ranks
//! lie with the data, since those in the control directories go with their nodes:
//!
//! ```text
//! <dataset>/.scr/records.scr: VERSION / 1, EPOCH / <hex>, RECORDS / <a filemap>
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use super::marker::Marker;
use crate::cache::node::agree::agree;
use crate::cache::node::context::Ctx;
use crate::cache::node::disk::names_in;
use crate::cache::node::layout::{Store, store_of};
use crate::cache::node::names::{LAUNCH, OWN_FOLDER, sealed_id};
use crate::cache::node::owner::note_parts;
use crate::cache::node::store::{Held, decode_records, encode_records};
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::records::DatasetRecord;
use crate::records::text::{epoch_text, parse_epoch};

pub(crate) const RECORDS: &str = "records.scr";

pub(crate) struct StorageGroup<'a> {
    pub comm: &'a dyn Comm,
    pub stores: Vec<usize>,
    pub is_shared: bool,
}

impl StorageGroup<'_> {
    pub fn leads(&self) -> bool {
        self.comm.rank() == 0
    }
}

impl Ctx<'_> {
    /// Returns the node with the stores of its own, then the groups of shared stores. Ranks of a
    /// group see it at the same place of the list, and stores of other groups nowhere.
    pub(crate) fn storage_groups(&self) -> Vec<StorageGroup<'_>> {
        let all = 0..self.layout.stores.len();
        let (shared, own) = all.partition(|index| self.sharing.is_shared(*index));
        let shared: Vec<usize> = shared;
        let mut groups = vec![StorageGroup { comm: self.node, stores: own, is_shared: false }];
        groups.extend(shared.into_iter().filter_map(|index| {
            let comm = self.sharing.comm(index)?;
            Some(StorageGroup { comm, stores: vec![index], is_shared: true })
        }));
        groups
    }

    /// Does the same in every storage group; after a failure in one, this rank still comes to the
    /// others, where it is waited for. Collective.
    pub(crate) fn in_storage_groups(
        &self,
        mut body: impl FnMut(&StorageGroup) -> Result<()>,
    ) -> Result<()> {
        let mut first = Ok(());
        for group in self.storage_groups() {
            match agree(group.comm, body(&group)) {
                Err(Error::Comm(what)) => return Err(Error::Comm(what)),
                outcome => first = first.and(outcome),
            }
        }
        first
    }

    pub(crate) fn led_stores(&self) -> Vec<&Store> {
        let groups = self.storage_groups();
        let led = groups.iter().filter(|group| group.leads()).flat_map(|group| &group.stores);
        led.map(|index| &self.layout.stores[*index]).collect()
    }

    pub(crate) fn store_index(&self, record: &DatasetRecord) -> usize {
        self.layout.store_index(store_of(record))
    }
}

/// Puts the records of dataset `id` beside its data in a shared store. Collective over the world.
pub(crate) fn keep_records(ctx: &Ctx, own: &DatasetRecord) -> Result<()> {
    if !ctx.sharing.any() {
        return Ok(());
    }
    let (id, index) = (own.dataset_id, ctx.store_index(own));
    let mut result = Ok(());
    for group in ctx.storage_groups().iter().skip(1) {
        let here = group.stores.contains(&index);
        let mine: Vec<Held> = if here { vec![(ctx.world.rank(), own.clone())] } else { vec![] };
        // Nobody but the leader needs them.
        let out = vec![(0, encode_records(&mine).encode())];
        let all = group.comm.sparse_exchange(out)?;
        if group.leads() && result.is_ok() {
            result = write_records_file(ctx, group.stores[0], id, own.epoch, &all);
        }
    }
    agree(ctx.world, result)
}

/// `all` has, by rank of the group, its own record.
fn write_records_file(
    ctx: &Ctx,
    index: usize,
    id: u64,
    epoch: u64,
    all: &[(usize, Vec<u8>)],
) -> Result<()> {
    let mut records = Vec::new();
    for (_, bytes) in all {
        records.extend(decode_records(&KvTree::decode(bytes)?)?);
    }
    let Some((_, first)) = records.first() else { return Ok(()) };
    let store = &ctx.layout.stores[index];
    let sealed = ctx.layout.dataset_dir(&store.name, id);
    let open = ctx.layout.open_dir(&store.name, &first.key);
    let dir = if sealed.exists() { sealed } else { open };
    if records.iter().any(|(_, record)| record.has_parts()) {
        note_parts(&store.cache_dir.join(LAUNCH))?;
    }
    let mut tree = KvTree::new();
    tree.set_value("VERSION", 1);
    tree.set_value("EPOCH", epoch_text(epoch));
    tree.set("RECORDS", encode_records(&records));
    tree.write_file(dir.join(OWN_FOLDER).join(RECORDS))
}

/// The records of a dataset that is known to be complete: others may have been revoked.
fn read_records_file(dir: &Path) -> Option<Vec<Held>> {
    let tree = KvTree::read_file(dir.join(OWN_FOLDER).join(RECORDS)).ok()??;
    let epoch = parse_epoch(tree.get_value("EPOCH")?)?;
    let complete = Marker::FINAL.iter().any(|marker| marker.epoch(dir) == Some(epoch));
    let records = decode_records(tree.get("RECORDS")?).ok()?;
    let sound = records.iter().all(|(_, record)| record.epoch == epoch);
    (complete && sound).then_some(records)
}

/// Gives every rank the records of its own files in shared stores, wherever it runs now: nothing of
/// them needs to move, and a lost node has not taken them along. Collective over the world.
pub(crate) fn bring_records(ctx: &Ctx) -> Result<()> {
    if !ctx.sharing.any() {
        return Ok(());
    }
    let mut outcome = Ok(());
    for group in ctx.storage_groups().iter().skip(1) {
        let found = if group.leads() {
            records_in(&ctx.layout.stores[group.stores[0]])
        } else {
            Ok(Vec::new())
        };
        let mut bytes = encode_records(found.as_deref().unwrap_or_default()).encode();
        // The others wait for it, whatever could be read.
        group.comm.broadcast(&mut bytes, 0)?;
        outcome = outcome.and(found.and_then(|_| take_records(ctx, group, &bytes)));
    }
    agree(ctx.world, outcome)?;
    hand_over(ctx)
}

fn take_records(ctx: &Ctx, group: &StorageGroup, bytes: &[u8]) -> Result<()> {
    let me = ctx.world.rank();
    let here: BTreeSet<usize> = ctx.sharing.ranks(group.stores[0]).iter().copied().collect();
    for (owner, record) in decode_records(&KvTree::decode(bytes)?)? {
        let mine = owner == me || (group.leads() && !here.contains(&owner));
        let same = |held: &Held| {
            held.0 == owner && held.1.key == record.key && held.1.epoch == record.epoch
        };
        if mine && !ctx.filemap.held().iter().any(same) {
            ctx.filemap.put_held(owner, record)?;
        }
    }
    Ok(())
}

pub(crate) fn records_in(store: &Store) -> Result<Vec<Held>> {
    let dir = &store.cache_dir;
    let names = names_in(dir)?;
    let sealed = names.iter().filter(|name| sealed_id(name).is_some());
    Ok(sealed.filter_map(|name| read_records_file(&dir.join(name))).flatten().collect())
}

/// Sends records of ranks that run elsewhere now to them, if they reach the data from there.
fn hand_over(ctx: &Ctx) -> Result<()> {
    let me = ctx.world.rank();
    let held = ctx.filemap.held();
    let reaches = |(owner, record): &&Held| {
        let index = ctx.store_index(record);
        *owner != me && ctx.sharing.is_shared(index) && ctx.sharing.ranks(index).contains(owner)
    };
    let leaving: Vec<&Held> = held.iter().filter(reaches).collect();
    let message = |entry: &&Held| (entry.0, encode_records(std::slice::from_ref(*entry)).encode());
    let arrived = ctx.world.sparse_exchange(leaving.iter().map(message).collect())?;
    let keep = |bytes: &[u8]| {
        for (owner, record) in decode_records(&KvTree::decode(bytes)?)? {
            let known = ctx.filemap.get(&record.key);
            if owner == me && known.is_none() {
                ctx.filemap.put_held(me, record)?;
            }
        }
        Ok(())
    };
    agree(ctx.world, arrived.iter().try_for_each(|(_, bytes)| keep(bytes)))?;
    let gone: Vec<_> = leaving.iter().map(|(owner, record)| (*owner, record.key.clone())).collect();
    agree(ctx.world, ctx.filemap.remove_held(&gone))
}
