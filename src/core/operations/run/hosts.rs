//! Nodes as resource managers, hostfiles and people write them down.

use std::collections::{BTreeMap, BTreeSet};

use crate::operations::HostList;

/// A node of the allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHost {
    /// Its name.
    pub name: String,
    /// How many processes it is to have, if anything says so.
    pub slots: Option<usize>,
}

/// Returns the hosts of an answer, each once.
pub(super) fn list_of(answer: Option<String>) -> Vec<String> {
    let lists = answer.unwrap_or_default();
    let mut hosts: Vec<String> = lists
        .split_whitespace()
        .filter_map(|list| HostList::expand(list).ok())
        .flat_map(|list| list.hosts().to_vec())
        .collect();
    let mut seen = BTreeSet::new();
    hosts.retain(|host| seen.insert(host.clone()));
    hosts
}

/// Returns each name once, in order, with how often it was there.
pub(super) fn counted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<RunHost> {
    let mut hosts: Vec<RunHost> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        let at = *places.entry(name).or_insert(hosts.len());
        match hosts.get_mut(at) {
            Some(host) => host.slots = host.slots.map(|slots| slots + 1),
            None => hosts.push(RunHost { name: name.to_owned(), slots: Some(1) }),
        }
    }
    hosts
}

/// Reads Slurm's counts by node: `2(x3),1` is 2, 2, 2, 1.
pub(super) fn repeated(text: &str) -> Option<Vec<usize>> {
    let mut counts = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, rest)) => (count, rest.strip_suffix(')')?.parse::<usize>().ok()?),
            None => (part, 1),
        };
        // No cluster has more nodes; a number that is wrong is no reason to fill the memory.
        counts.extend(std::iter::repeat_n(count.parse::<usize>().ok()?, times.min(1 << 20)));
    }
    Some(counts)
}

/// Returns the seconds of `[[hours:]minutes:]seconds`.
pub(super) fn clock(text: &str) -> Option<u64> {
    text.split(':').try_fold(0_u64, |sum, part| Some(60 * sum + part.parse::<u64>().ok()?))
}

/// Reads a hostfile of Open MPI (`node1 slots=2`), MPICH (`node1:2`) or plain names, also
/// `node[1-4]`. A name that is there twice has two slots.
pub fn hostfile(text: &str) -> Vec<RunHost> {
    let mut hosts: Vec<RunHost> = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let (list, colon) = match first.split_once(':') {
            Some((list, count)) => (list, count.parse().ok()),
            None => (first, None),
        };
        let slots = words.find_map(|word| word.strip_prefix("slots=")?.parse().ok()).or(colon);
        for name in HostList::expand(list).map(|list| list.hosts().to_vec()).unwrap_or_default() {
            match hosts.iter_mut().find(|host| host.name == name) {
                Some(host) => host.slots = Some(host.slots.unwrap_or(1) + slots.unwrap_or(1)),
                None => hosts.push(RunHost { name, slots }),
            }
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostfiles_of_both_mpis_and_plain_ones() {
        const TEXT: &str =
            "# all\nnode1 slots=2 max_slots=4\nnode2:3\n\nnode[3-4]\nnode3 # again\n";
        let text = |host: RunHost| match host.slots {
            Some(slots) => format!("{}:{slots}", host.name),
            None => host.name,
        };
        let found: Vec<String> = hostfile(TEXT).into_iter().map(text).collect();
        assert_eq!(found, ["node1:2", "node2:3", "node3:2", "node4"]);
    }

    #[test]
    fn numbers_that_are_none() {
        for text in ["", "x", "2(x3", "2(xy)", "-1"] {
            assert_eq!(repeated(text), None, "{text}");
            assert_eq!(clock(text), None, "{text}");
        }
    }
}
