//! Stores that several nodes reach: who shares which, found out by looking, and what a restart
//! needs to know about datasets in them when a node's control directory is gone.
//!
//! In such a store a dataset is one directory for all nodes. One rank acts for all that share it
//! (renames, markers, catalog, removal), nothing is moved between its nodes, and the records of all
//! ranks lie with the data, since those in the control directories go with their nodes:
//! ```text
//! <dataset>/.scr/records.scr: VERSION / 1, EPOCH / <hex>, RECORDS / <a filemap>
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::agree::agree;
use super::disk::names_in;
use super::layout::{Layout, OWN_FOLDER, sealed_id, store_of};
use super::marker::Marker;
use super::store::{Held, decode_records, encode_records};
use super::{Ctx, Store};
use crate::comm::{Comm, trees};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::records::DatasetRecord;
use crate::records::text::{epoch_text, parse_epoch};

/// First part of the name of a file that a node shows the others.
const PROBE: &str = ".probe.";
/// Name of the records in a dataset's own folder.
pub(super) const RECORDS: &str = "records.scr";

/// Who shares each store of the layout.
pub struct Sharing {
    stores: Vec<Sharers>,
    /// Some ranks share some store; the same on all ranks.
    any: bool,
}

/// The ranks that reach one store's directory.
struct Sharers {
    /// `None` for a store of the node.
    comm: Option<Box<dyn Comm>>,
    /// World ranks, ascending.
    ranks: Vec<usize>,
    /// Of every rank of the world, the first rank among those that it shares the store with.
    groups: Vec<usize>,
}

impl Sharing {
    /// Looks which nodes see one another's files in each store. `leader` is the world rank of this
    /// node's leader, `nonce` a number that all ranks of this launch have and no other one; `meet`
    /// is collective, and nobody comes out of it before all are in. Collective over `world`; the
    /// layouts of all ranks have the same stores.
    ///
    /// # Errors
    /// Communication failed. A store that cannot be written counts as its node's own.
    pub fn observe<T>(
        world: &dyn Comm,
        leader: usize,
        layout: &Layout,
        nonce: u64,
        meet: impl FnOnce() -> Result<T>,
    ) -> Result<(Sharing, T)> {
        let leads = leader == world.rank();
        let start = format!("{PROBE}{nonce:016x}.");
        let dirs: Vec<&Path> = layout.stores.iter().map(|store| &*store.cache_dir).collect();
        if leads {
            for dir in &dirs {
                // Where it cannot be written nobody sees it.
                let _ = fs::write(dir.join(format!("{start}{leader}")), "");
            }
        }
        let met = meet()?;
        let mut seen = KvTree::new();
        seen.set_value("LEADER", leader);
        for (index, dir) in dirs.iter().enumerate().filter(|_| leads) {
            let slot = seen.child_mut("STORE").child_mut(index);
            let names = names_in(dir).unwrap_or_default();
            let others = names.iter().filter_map(|name| name.strip_prefix(&start)?.parse().ok());
            for other in edges(leader, others.collect()) {
                slot.child_mut(other);
            }
        }
        let all = trees::all_gather(world, &seen)?;
        if leads {
            dirs.iter().for_each(|dir| remove_probes(dir, &start, leader));
        }
        let nodes: Vec<usize> = all.iter().filter_map(|tree| tree.parse("LEADER")).collect();
        if nodes.len() != world.size() {
            return Err(Error::Unreadable(
                "a rank's answer about its stores cannot be read".into(),
            ));
        }
        let mut sharing = Sharing { stores: Vec::new(), any: false };
        for (index, store) in layout.stores.iter().enumerate() {
            let groups = components(index, &all, &nodes);
            let is_shared = store.is_shared || groups != nodes;
            sharing.any |= is_shared;
            sharing.stores.push(Sharers::new(world, &groups, is_shared)?);
        }
        Ok((sharing, met))
    }

    /// Returns the world ranks that share store `index` of the layout with this one, itself
    /// included.
    #[must_use]
    pub fn ranks(&self, index: usize) -> &[usize] {
        self.stores.get(index).map_or(&[], |sharers| &sharers.ranks)
    }

    /// Counts the ranks that share each store with this one, itself included.
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        self.stores.iter().map(|sharers| sharers.ranks.len() as u64).collect()
    }

    /// Tells whether other nodes reach this node's store `index`.
    #[must_use]
    pub fn is_shared(&self, index: usize) -> bool {
        self.stores.get(index).is_some_and(|sharers| sharers.comm.is_some())
    }

    /// Returns for every rank of the world the first one that shares store `index` with it.
    #[must_use]
    pub fn groups(&self, index: usize) -> &[usize] {
        self.stores.get(index).map_or(&[], |sharers| &sharers.groups)
    }

    /// Tells whether any ranks share any store between nodes; the same on all ranks.
    #[must_use]
    pub fn any(&self) -> bool {
        self.any
    }

    /// The ranks of store `index`, if they are on several nodes.
    fn comm(&self, index: usize) -> Option<&dyn Comm> {
        self.stores.get(index)?.comm.as_deref()
    }
}

impl Sharers {
    /// `groups` names what each rank belongs to. Without `is_shared` there is nothing to share for
    /// anybody. Collective over `world`.
    fn new(world: &dyn Comm, groups: &[usize], is_shared: bool) -> Result<Sharers> {
        let own = groups[world.rank()];
        let ranks: Vec<usize> = (0..groups.len()).filter(|rank| groups[*rank] == own).collect();
        if !is_shared {
            return Ok(Sharers { comm: None, ranks, groups: groups.to_vec() });
        }
        let comm = world.split(own as i64, world.rank() as i64)?;
        Ok(Sharers { comm, ranks, groups: groups.to_vec() })
    }
}

/// Removes this node's own file, and those that launches before have left.
fn remove_probes(dir: &Path, start: &str, leader: usize) {
    let own = format!("{start}{leader}");
    let gone = |name: &String| *name == own || !name.starts_with(start);
    let names = names_in(dir).unwrap_or_default();
    for name in names.iter().filter(|name| name.starts_with(PROBE)).filter(|name| gone(name)) {
        let _ = fs::remove_file(dir.join(name));
    }
}

/// Of the leaders that one of them `sees`, those whom the world needs to hear of: the least; all if
/// that is itself. So every two that one of them has seen are joined, and the answers of a store
/// that all nodes reach are no more than two for each node.
fn edges(leader: usize, sees: BTreeSet<usize>) -> BTreeSet<usize> {
    match sees.first() {
        Some(least) if *least < leader => BTreeSet::from([*least]),
        _ => sees,
    }
}

/// For each rank the least leader of the nodes that share store `index` with it. `all` is what each
/// rank has seen, `nodes` its node's leader.
fn components(index: usize, all: &[KvTree], nodes: &[usize]) -> Vec<usize> {
    let mut parents: Vec<usize> = nodes.to_vec();
    for (rank, tree) in all.iter().enumerate() {
        let others = tree.child("STORE").child(&index.to_string()).keys();
        // One that sees the other suffices: a directory's listing may be a little old.
        for other in others.filter_map(|other| other.parse::<usize>().ok()) {
            if other >= parents.len() {
                continue;
            }
            let (one, two) = (root(&mut parents, rank), root(&mut parents, other));
            parents[one.max(two)] = one.min(two);
        }
    }
    (0..nodes.len()).map(|rank| root(&mut parents, rank)).collect()
}

/// The least of those that `rank` is joined with.
fn root(parents: &mut [usize], mut rank: usize) -> usize {
    while parents[rank] != rank {
        parents[rank] = parents[parents[rank]];
        rank = parents[rank];
    }
    rank
}

/// Ranks that act together on directories, and which stores they do it for.
pub(super) struct StorageGroup<'a> {
    pub comm: &'a dyn Comm,
    /// Indices into the layout's stores.
    pub stores: Vec<usize>,
    /// They are on several nodes.
    pub is_shared: bool,
}

impl StorageGroup<'_> {
    /// Tells whether this rank acts for the others.
    pub fn leads(&self) -> bool {
        self.comm.rank() == 0
    }
}

impl Ctx<'_> {
    /// Returns the groups: the node with the stores of its own, then those of shared stores. Ranks
    /// of a group see it at the same place of the list, and stores of other groups nowhere.
    pub(super) fn storage_groups(&self) -> Vec<StorageGroup<'_>> {
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

    /// Does the same in every storage group; a failure in one does not keep this rank from the
    /// others, where it is waited for. Collective.
    pub(super) fn in_storage_groups(
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

    /// Returns the stores that this rank acts on for all that share them.
    pub(crate) fn led_stores(&self) -> Vec<&Store> {
        let groups = self.storage_groups();
        let led = groups.iter().filter(|group| group.leads()).flat_map(|group| &group.stores);
        led.map(|index| &self.layout.stores[*index]).collect()
    }

    /// Returns the index of the store that a record's data lies in.
    pub(super) fn store_index(&self, record: &DatasetRecord) -> usize {
        self.layout.store_index(store_of(record))
    }
}

/// Puts the records of dataset `id` beside its data in a shared store. Collective over the world.
pub(super) fn keep_records(ctx: &Ctx, own: &DatasetRecord) -> Result<()> {
    if !ctx.sharing.any {
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

/// `all`: by rank of the group its own record.
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
    let mut tree = KvTree::new();
    tree.set_value("VERSION", 1);
    tree.set_value("EPOCH", epoch_text(epoch));
    tree.set("RECORDS", encode_records(&records));
    tree.write_file(dir.join(OWN_FOLDER).join(RECORDS))
}

/// Records of a dataset in `dir`, if it is known to be complete: others may have been revoked.
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
pub(super) fn bring_records(ctx: &Ctx) -> Result<()> {
    if !ctx.sharing.any {
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

/// Keeps what this rank answers for of the records in a shared store. Local.
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

/// Reads what a shared store's complete datasets say of themselves.
pub(super) fn records_in(store: &Store) -> Result<Vec<Held>> {
    let dir = &store.cache_dir;
    let names = names_in(dir)?;
    let sealed = names.iter().filter(|name| sealed_id(name).is_some());
    Ok(sealed.filter_map(|name| read_records_file(&dir.join(name))).flatten().collect())
}

/// Records of ranks that run elsewhere now go to them, if they reach the data from there.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks 2n and 2n+1 are on node n; `sees` is what each node's leader sees.
    fn joined(sees: &[&[usize]]) -> (Vec<usize>, usize) {
        let nodes: Vec<usize> = (0..2 * sees.len()).map(|rank| rank / 2 * 2).collect();
        let mut count = 0;
        let answer = |rank: usize| {
            let mut tree = KvTree::new();
            let seen = if rank.is_multiple_of(2) { sees[rank / 2] } else { &[] };
            for other in edges(rank, seen.iter().copied().collect()) {
                tree.child_mut("STORE").child_mut(0).child_mut(other);
                count += 1;
            }
            tree
        };
        let all: Vec<KvTree> = (0..nodes.len()).map(answer).collect();
        (components(0, &all, &nodes), count)
    }

    #[test]
    fn nodes_that_see_one_another_are_one_group() {
        assert_eq!(joined(&[&[0], &[2, 4], &[4, 2]]).0, [0, 0, 2, 2, 2, 2]);
        // One has an old listing; another is seen, and does not see.
        assert_eq!(joined(&[&[0, 2, 4], &[2], &[]]).0, [0; 6]);
        assert_eq!(joined(&[&[0], &[2, 4], &[0, 2, 4]]).0, [0; 6]);
    }

    #[test]
    fn what_all_nodes_reach_is_told_once_by_each() {
        let all: Vec<usize> = (0..500).map(|node| 2 * node).collect();
        let sees: Vec<&[usize]> = vec![&all; 500];
        let (groups, count) = joined(&sees);
        assert!(groups.iter().all(|group| *group == 0));
        assert_eq!(count, 999);
    }
}
