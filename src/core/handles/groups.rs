//! Ranks that have opened a file by MPI-IO without the others: each blocking collective call on it
//! is made by all of them in the same order, so that they count alike.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::files::crc32;

/// What a rank has counted.
#[derive(Debug)]
pub struct GroupCalls {
    /// The last call of each group.
    calls: BTreeMap<u32, u32>,
    /// A group is just opening a file; this rank wants its calls on that to be counted, or not.
    pub opening: Option<bool>,
    /// As `Moment::round` has it; the shim reads it as long as the process lives.
    round: &'static AtomicU64,
}

impl Default for GroupCalls {
    fn default() -> Self {
        let round = Box::leak(Box::default());
        GroupCalls { calls: BTreeMap::new(), opening: None, round }
    }
}

impl GroupCalls {
    /// Counts a call that the group is about to make.
    pub fn enter(&mut self, group: u32) {
        let call = self.calls.entry(group).or_default();
        *call = call.saturating_add(1);
        self.round.store(u64::from(group) << 32 | u64::from(*call), Ordering::SeqCst);
    }

    /// Returns where the last call is.
    pub fn round(&self) -> &'static AtomicU64 {
        self.round
    }
}

/// Returns the number of the group of these ranks of the world, which is not 0.
pub fn group_number(ranks: &[usize]) -> u32 {
    let bytes: Vec<u8> = ranks.iter().flat_map(|rank| (*rank as u64).to_le_bytes()).collect();
    crc32(&bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_counts_its_own_calls() {
        let (mut groups, mut seen) = (GroupCalls::default(), Vec::new());
        let [one, other] = [group_number(&[0, 2]), group_number(&[2, 0])];
        assert_ne!(one, other);
        for group in [one, other, one] {
            groups.enter(group);
            let round = groups.round().load(Ordering::SeqCst);
            seen.push((round >> 32 == u64::from(group), round as u32));
        }
        assert_eq!(seen, [(true, 1), (true, 1), (true, 2)]);
    }
}
