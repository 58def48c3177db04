//! Who gets which member's file list in a rebuild, and from whom.
//!
//! A lost member learns what it had from its own parity file, if that is left, else from the copy
//! in the header of the nearest right neighbour that has one. Whoever gets a new parity file needs
//! the lists of its left neighbours, too.

use std::collections::BTreeMap;

use super::part::Parity;
use super::shape::Shape;
use super::state::MemberState;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::redundancy::ring::Ring;
use crate::redundancy::{MemberData, MemberList};

pub type Lists = BTreeMap<usize, MemberList>;

/// Exchanges the lists that are needed. Collective over the set.
pub fn exchange(
    ring: &Ring,
    shape: Shape,
    states: &[MemberState],
    id: u64,
    data: Option<&MemberData>,
    parity: Option<&Parity>,
) -> Result<Lists> {
    let mut out: BTreeMap<usize, KvTree> = BTreeMap::new();
    for (member, of) in needed(shape, states) {
        if provider(shape, states, of) == Some(ring.me)
            && let Some(list) = known(ring, shape, of, data, parity)
        {
            let tree = list.to_tree(id, ring.set.world_size);
            out.entry(member).or_default().set(of, tree);
        }
    }
    let out = out.into_iter().map(|(member, tree)| (member, tree.encode())).collect();
    let mut lists = Lists::new();
    let mut read = |tree: &KvTree| {
        for (member, tree) in tree {
            let member: usize = member.parse().ok()?;
            let list = MemberList::from_tree(tree)?;
            lists.insert(member, list);
        }
        Some(())
    };
    let arrived = ring.comm.sparse_exchange(out)?;
    let parsed = arrived.iter().try_for_each(|(_, bytes)| read(&KvTree::decode(bytes).ok()?));
    let wanted = needed(shape, states).into_iter().filter(|(member, _)| *member == ring.me);
    let missing = wanted.map(|(_, of)| of).find(|of| {
        let rank = ring.world_ranks(&[*of]);
        lists.get(of).is_none_or(|list| rank != format!("rank {}", list.world_rank))
    });
    ring.agree(match (parsed, missing) {
        (Some(()), None) => Ok(lists),
        (_, of) => {
            let rank = ring.world_rank(of.unwrap_or(ring.me));
            let what = format!("the copy of the file list of rank {rank} is damaged");
            Err(Error::Unrecoverable(what))
        }
    })
}

/// All pairs: a member, and whose list it needs.
fn needed(shape: Shape, states: &[MemberState]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (member, state) in states.iter().enumerate() {
        if !state.data {
            pairs.push((member, member));
        }
        if state.chunk_bytes.is_none() {
            let left = |distance| (member + shape.members - distance) % shape.members;
            pairs.extend((1..=shape.parities).map(|distance| (member, left(distance))));
        }
    }
    pairs
}

/// Who gives the list of member `of`: itself, if it has anything left.
fn provider(shape: Shape, states: &[MemberState], of: usize) -> Option<usize> {
    let has_parity = |member: usize| states[member].chunk_bytes.is_some();
    if states[of].data || has_parity(of) {
        return Some(of);
    }
    (1..=shape.parities).map(|distance| (of + distance) % shape.members).find(|&m| has_parity(m))
}

fn known(
    ring: &Ring,
    shape: Shape,
    of: usize,
    data: Option<&MemberData>,
    parity: Option<&Parity>,
) -> Option<MemberList> {
    let distance = (ring.me + shape.members - of) % shape.members;
    match (distance, parity, data) {
        (0, Some(parity), _) => Some(parity.header.current.clone()),
        (0, None, Some(data)) => Some(MemberList::of(ring.set, data)),
        (1.., Some(parity), _) => parity.header.partners.get(distance - 1).cloned(),
        _ => None,
    }
}
