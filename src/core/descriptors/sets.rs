//! Redundancy sets: ranks that protect one another, no two of them in one failure group.

use std::collections::BTreeMap;

use crate::kvtree::KvTree;

/// Divides the ranks into sets of at least `set_size` ranks, as equal in size as possible, so that
/// no two ranks of a set share a failure group. `groups` has the group of each rank.
///
/// Sets are smaller where there are not enough groups; a set of one rank is not protected. A rank
/// is without company where one group has more ranks than all others together. Each set is
/// ascending; sets are sorted by first rank.
pub fn choose_sets(groups: &[String], set_size: usize) -> Vec<Vec<usize>> {
    let mut by_group: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (rank, group) in groups.iter().enumerate() {
        by_group.entry(group).or_default().push(rank);
    }
    let Some(largest) = by_group.values().map(Vec::len).max() else { return Vec::new() };
    // Each rank of the largest group needs a set of its own; apart from that, as many as the size
    // permits, since small sets survive more and cost less to rebuild.
    let count = largest.max(groups.len() / set_size.max(2)).max(1);
    let mut members: Vec<Vec<usize>> = by_group.into_values().collect();
    members.sort_by_key(|ranks| ranks[0]);
    let mut sets = vec![Vec::new(); count];
    // Dealt out like cards: the ranks of one group follow one another and are at most `count`, so
    // no set gets two of them; and sizes differ by one at most.
    for (index, rank) in members.into_iter().flatten().enumerate() {
        sets[index % count].push(rank);
    }
    for set in &mut sets {
        set.sort_unstable();
    }
    sets.retain(|set| !set.is_empty());
    sets.sort_by_key(|set| set[0]);
    sets
}

/// Divides a set into rings in which each member's right neighbour is `hops` members of the set
/// further on; several if `hops` and the size have a common divisor.
pub fn rings_by_hops(set: &[usize], hops: usize) -> Vec<Vec<usize>> {
    let mut rings = Vec::new();
    let mut taken = vec![false; set.len()];
    for start in 0..set.len() {
        let (mut at, mut ring) = (start, Vec::new());
        while !taken[at] {
            taken[at] = true;
            ring.push(set[at]);
            at = (at + hops) % set.len();
        }
        rings.push(ring);
    }
    rings.retain(|ring| !ring.is_empty());
    rings
}

/// One rank's place in its redundancy set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// World ranks, in ring order.
    pub members: Vec<usize>,
    /// This rank's place among them.
    pub rank: usize,
    /// The smallest world rank of the set names it.
    pub group_id: usize,
    /// Number of sets.
    pub groups: usize,
}

impl Membership {
    /// Returns `None` if `world_rank` is not among the members.
    pub fn new(members: Vec<usize>, world_rank: usize, groups: usize) -> Option<Membership> {
        let rank = members.iter().position(|member| *member == world_rank)?;
        let group_id = members.iter().copied().min()?;
        Some(Membership { members, rank, group_id, groups })
    }

    /// Writes GROUPS, GROUP_ID, GROUP_SIZE, GROUP_RANK, MEMBERS, as in the descriptor manual.
    pub fn put(&self, tree: &mut KvTree) {
        let members: Vec<String> = self.members.iter().map(ToString::to_string).collect();
        tree.set_value("GROUPS", self.groups);
        tree.set_value("GROUP_ID", self.group_id);
        tree.set_value("GROUP_SIZE", self.members.len());
        tree.set_value("GROUP_RANK", self.rank);
        tree.set_value("MEMBERS", members.join(","));
    }

    /// Returns `None` if a key is missing or they contradict one another.
    pub fn get(tree: &KvTree) -> Option<Membership> {
        let members: Option<Vec<usize>> =
            tree.get_value("MEMBERS")?.split(',').map(|rank| rank.parse().ok()).collect();
        let membership = Membership {
            members: members?,
            rank: tree.parse("GROUP_RANK")?,
            group_id: tree.parse("GROUP_ID")?,
            groups: tree.parse("GROUPS")?,
        };
        let size: usize = tree.parse("GROUP_SIZE")?;
        let smallest = membership.members.iter().min() == Some(&membership.group_id);
        let sound = smallest && size == membership.members.len() && membership.rank < size;
        sound.then_some(membership)
    }
}

pub const NODE: &str = "NODE";

pub const WORLD: &str = "WORLD";
