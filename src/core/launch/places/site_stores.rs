//! The stores of a launch: which one the settings give a dataset, and which are shared otherwise
//! than they say.

use std::collections::HashMap;
use std::hash::Hash;

use super::site::Site;
use crate::cache::Sharing;
use crate::descriptors::RedundancyDesc;
use crate::machine::StoreTurns;

impl Site {
    pub fn descriptor(&self, output: bool, number: u64) -> &RedundancyDesc {
        self.descriptors.select(number, output)
    }

    pub fn places(&self, output: bool) -> StoreTurns {
        let sizes = self.descriptors.stores.iter();
        let sizes = sizes.map(|store| usize::try_from(store.count).unwrap_or(usize::MAX));
        StoreTurns { rules: self.descriptors.intervals(output), sizes: sizes.collect() }
    }

    /// Tells in sentences which stores are shared otherwise than the settings say.
    pub(crate) fn misdeclared(&self, sharing: &Sharing) -> Vec<String> {
        let mut sentences = Vec::new();
        for one in self.descriptors.stores.iter().filter(|one| one.enabled && one.mkdir) {
            let base = one.base.display();
            let stores = &self.layout.stores;
            let index = stores.iter().position(|store| store.name == base.to_string());
            let seen = index.map_or(&[][..], |index| sharing.groups(index));
            let declared = self.descriptors.groups.of_ranks(&one.group).unwrap_or(&[]);
            let hosts = self.descriptors.groups.hosts();
            let named =
                |(one, other): (usize, usize)| format!("{} and {}", hosts[one], hosts[other]);
            let group = &one.group;
            if let Some(nodes) = parted(seen, declared).map(named) {
                sentences.push(format!(
                    "the store {base} is said to belong to one {group} (GROUP={group}), but \
                     {nodes} share it: it is used as one storage for all that reach it. \
                     STORE={base} GROUP=WORLD says so for one that all nodes reach"
                ));
            }
            if let Some(nodes) = parted(declared, seen).map(named) {
                sentences.push(format!(
                    "the store {base} is said to be shared (GROUP={group}), but {nodes} do not see \
                     one another's files in it: it is used as storage of each of them"
                ));
            }
        }
        sentences
    }
}

/// Two ranks that are together in `one` grouping of the ranks but not in the `other`.
fn parted<A: Hash + Eq, B: Eq>(one: &[A], other: &[B]) -> Option<(usize, usize)> {
    let mut first: HashMap<&A, usize> = HashMap::new();
    let mut pairs = one.iter().zip(other).enumerate();
    pairs.find_map(|(rank, (in_one, in_other))| {
        let before = *first.entry(in_one).or_insert(rank);
        (other[before] != *in_other).then_some((before, rank))
    })
}
