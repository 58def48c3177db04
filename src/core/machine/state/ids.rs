//! Ids of datasets that have left.

use std::collections::{BTreeMap, VecDeque};

use crate::machine::terms::DatasetKey;

/// More than one conference evicts.
const EVICTED_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftIds {
    /// The newest number of datasets that only the PFS has, by captured id.
    on_prefix: BTreeMap<String, u64>,
    /// Ids and generations of the last ones.
    evicted: VecDeque<(String, u64)>,
}

impl LeftIds {
    pub fn note_left(&mut self, id: &str, number: u64) {
        let newest = self.on_prefix.entry(id.to_string()).or_default();
        *newest = number.max(*newest);
    }

    /// Remembers the generation: a thread of the program may write the id again on one rank before
    /// the dataset leaves, on another one after that, and both must mean the same one.
    pub fn note_evicted(&mut self, key: &DatasetKey) {
        self.evicted.truncate(EVICTED_MAX - 1);
        self.evicted.push_front((key.id.clone(), key.generation));
    }

    pub fn after_evicted(&self, id: &str) -> u64 {
        let same = self.evicted.iter().filter(|(evicted, _)| evicted == id);
        same.map(|(_, generation)| generation + 1).max().unwrap_or(0)
    }

    pub fn on_prefix(&self, id: &str) -> Option<u64> {
        self.on_prefix.get(id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_comes_again_is_of_the_next_generation() {
        let mut ids = LeftIds::default();
        // What leaves; which id then comes again; its generation.
        let rows = [(("5", 0), "5", 1), (("5", 3), "5", 4), (("6", 0), "5", 4), (("5", 1), "7", 0)];
        for ((id, generation), again, expected) in rows {
            ids.note_evicted(&DatasetKey::new(0, id, generation));
            assert_eq!(ids.after_evicted(again), expected, "{again}");
        }
        (0..EVICTED_MAX).for_each(|_| ids.note_evicted(&DatasetKey::new(0, "8", 0)));
        assert_eq!(ids.after_evicted("5"), 0, "long ago");
    }

    #[test]
    fn the_newest_number_of_an_id_counts() {
        let mut ids = LeftIds::default();
        [4, 7, 5].iter().for_each(|number| ids.note_left("5", *number));
        assert_eq!((ids.on_prefix("5"), ids.on_prefix("6")), (Some(7), None));
    }
}
