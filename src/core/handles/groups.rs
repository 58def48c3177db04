//! Ranks that have opened a file by themselves, without the others: each blocking collective call
//! on it is made by all of them in the same order, so that they count alike.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a rank has counted.
#[derive(Debug)]
pub struct Groups {
    /// The last call of each group.
    calls: BTreeMap<u32, u32>,
    /// The group whose file is just being opened.
    opening: Option<u32>,
    /// As `Moment::round` has it; the shim reads it as long as the process lives.
    round: &'static AtomicU64,
}

impl Default for Groups {
    fn default() -> Self {
        let round = Box::leak(Box::default());
        Groups { calls: BTreeMap::new(), opening: None, round }
    }
}

impl Groups {
    /// Counts a call that the group is about to make; its file is being opened, or is open.
    pub fn enter(&mut self, group: u32, opens: bool) {
        let call = self.calls.entry(group).or_default();
        *call = call.saturating_add(1);
        self.opening = opens.then_some(group);
        self.round.store(u64::from(group) << 32 | u64::from(*call), Ordering::SeqCst);
    }

    /// Returns the group whose file has been opened, or could not be.
    pub fn opened(&mut self) -> Option<u32> {
        self.opening.take()
    }

    /// Holds the last call.
    pub fn round(&self) -> &'static AtomicU64 {
        self.round
    }
}

/// Returns the number of the group of these ranks of the world, which is not 0.
pub fn group_number(ranks: &[usize]) -> u32 {
    let bytes: Vec<u8> = ranks.iter().flat_map(|rank| (*rank as u64).to_le_bytes()).collect();
    crc32fast::hash(&bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_counts_its_own_calls() {
        let (mut groups, mut seen) = (Groups::default(), Vec::new());
        let [one, other] = [group_number(&[0, 2]), group_number(&[2, 0])];
        assert_ne!(one, other);
        for (group, opens) in [(one, true), (other, true), (one, false)] {
            groups.enter(group, opens);
            let round = groups.round().load(Ordering::SeqCst);
            seen.push((round >> 32 == u64::from(group), round as u32, groups.opened()));
        }
        let count = |at, opened| (true, at, opened);
        assert_eq!(seen, [count(1, Some(one)), count(1, Some(other)), count(2, None)]);
    }
}
