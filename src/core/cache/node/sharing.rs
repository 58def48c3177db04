//! Stores that several nodes reach: who shares which, found out by looking.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::disk::names_in;
use super::layout::Layout;
use crate::comm::{Comm, trees};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;

const PROBE: &str = ".probe.";

/// Who shares each store of the layout.
pub struct Sharing {
    stores: Vec<Sharers>,
    any: bool,
}

struct Sharers {
    comm: Option<Box<dyn Comm>>,
    ranks: Vec<usize>,
    /// For every rank of the world, the first rank that it shares the store with.
    groups: Vec<usize>,
}

impl Sharing {
    /// Looks which nodes see one another's files in each store. `nonce` is a number that all ranks
    /// of this launch have and no other one; nobody comes out of the collective `meet` before all
    /// are in. Collective over `world`; the layouts of all ranks have the same stores.
    ///
    /// # Errors
    /// If communication fails. A store that cannot be written counts as its node's own.
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
    pub fn ranks(&self, index: usize) -> &[usize] {
        self.stores.get(index).map_or(&[], |sharers| &sharers.ranks)
    }

    pub(crate) fn counts(&self) -> Vec<u64> {
        self.stores.iter().map(|sharers| sharers.ranks.len() as u64).collect()
    }

    pub(crate) fn is_shared(&self, index: usize) -> bool {
        self.stores.get(index).is_some_and(|sharers| sharers.comm.is_some())
    }

    /// Returns for every rank of the world, the first one that shares store `index` with it.
    pub fn groups(&self, index: usize) -> &[usize] {
        self.stores.get(index).map_or(&[], |sharers| &sharers.groups)
    }

    /// Tells whether several nodes share any store; the same on all ranks.
    pub fn any(&self) -> bool {
        self.any
    }

    pub(crate) fn comm(&self, index: usize) -> Option<&dyn Comm> {
        self.stores.get(index)?.comm.as_deref()
    }
}

impl Sharers {
    /// `groups` names what each rank belongs to. Collective over `world`.
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

fn remove_probes(dir: &Path, start: &str, leader: usize) {
    let own = format!("{start}{leader}");
    let gone = |name: &String| *name == own || !name.starts_with(start);
    let names = names_in(dir).unwrap_or_default();
    for name in names.iter().filter(|name| name.starts_with(PROBE)).filter(|name| gone(name)) {
        let _ = fs::remove_file(dir.join(name));
    }
}

/// Reduces what a leader `sees` to the least one, unless that is itself. Every two that one leader
/// has seen are still joined, and the answers about a store that all nodes reach are at most two a
/// node.
fn edges(leader: usize, sees: BTreeSet<usize>) -> BTreeSet<usize> {
    match sees.first() {
        Some(least) if *least < leader => BTreeSet::from([*least]),
        _ => sees,
    }
}

/// For each rank the least leader of the nodes that share store `index` with it. `all` is what each
/// rank has seen, `nodes` the leader of its node.
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

fn root(parents: &mut [usize], mut rank: usize) -> usize {
    while parents[rank] != rank {
        parents[rank] = parents[parents[rank]];
        rank = parents[rank];
    }
    rank
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
        // One node has an old listing; another one is seen, and does not see.
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
