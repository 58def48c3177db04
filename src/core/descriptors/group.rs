//! Groups of ranks that fail together.

use std::collections::{BTreeMap, BTreeSet};

use super::redundancy::{RedundancyDesc, SchemeKind};
use super::sets::{Membership, NODE, WORLD, choose_sets};
use crate::error::{Error, Result};
use crate::log::{Id, messages};
use crate::params::{LineKind, Settings};
use crate::system::{Planted, planted};

const NAMED_MAX: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    hosts: Vec<String>,
    /// By group, the value of each rank; equal values are one group.
    values: BTreeMap<String, Vec<String>>,
}

impl Groups {
    /// Takes `hosts` by world rank. A line that redefines NODE or WORLD is an error, or one
    /// that gives a host a second value.
    pub fn new(
        settings: &Settings,
        hosts: &[String],
        warnings: &mut Vec<(Id, String)>,
    ) -> Result<Groups> {
        let mut values = BTreeMap::new();
        values.insert(NODE.to_string(), hosts.to_vec());
        values.insert(WORLD.to_string(), vec![WORLD.to_string(); hosts.len()]);
        for (group, members) in named_groups(settings)? {
            let mut missing = BTreeSet::new();
            let value_of = |host: &String| match members.get(host.as_str()) {
                Some(value) => format!("={value}"),
                None => match members.get(short(host)) {
                    Some(value) => format!("={value}"),
                    None => {
                        missing.insert(host.clone());
                        host.clone()
                    }
                },
            };
            let of_ranks = hosts.iter().map(value_of).collect();
            if !missing.is_empty() {
                let hosts = shorten(&missing.into_iter().collect::<Vec<_>>());
                warnings.push((messages::GROUP_INCOMPLETE, format!(
                    "no GROUPS line gives {group} for {hosts}; each such node counts as a group \
                     of its own"
                )));
            }
            values.insert(group, of_ranks);
        }
        Ok(Groups { hosts: hosts.to_vec(), values })
    }

    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Returns the value of each rank in the group called `name`; equal values share it.
    pub fn of_ranks(&self, name: &str) -> Option<&[String]> {
        self.values.get(name).map(Vec::as_slice)
    }

    /// Returns the value of each rank in the group of `descriptor`; NODE stands in for a group that
    /// a stored descriptor names and the settings no longer have.
    pub(super) fn of_descriptor(&self, descriptor: &RedundancyDesc) -> &[String] {
        self.of_ranks(&descriptor.group).unwrap_or(&self.values[NODE])
    }

    /// Returns the ranks that share the group called `name` with `rank`, ascending.
    pub fn members(&self, name: &str, rank: usize) -> Vec<usize> {
        let Some(values) = self.of_ranks(name) else { return Vec::new() };
        let Some(own) = values.get(rank) else { return Vec::new() };
        (0..values.len()).filter(|other| &values[*other] == own).collect()
    }

    /// Returns all redundancy sets under a descriptor, each in ring order. Under SINGLE all ranks
    /// are alone.
    pub fn sets(&self, descriptor: &RedundancyDesc) -> Vec<Vec<usize>> {
        if descriptor.scheme == SchemeKind::Single {
            return (0..self.hosts.len()).map(|rank| vec![rank]).collect();
        }
        let each: Vec<String> = (0..self.hosts.len()).map(|rank| rank.to_string()).collect();
        let unheeded = planted(Planted::NodesUnheeded);
        let groups = if unheeded { &each } else { self.of_descriptor(descriptor) };
        let sets = choose_sets(groups, descriptor.set_size_min());
        sets.iter().flat_map(|set| descriptor.rings(set)).collect()
    }

    pub fn membership(&self, descriptor: &RedundancyDesc, rank: usize) -> Option<Membership> {
        let sets = self.sets(descriptor);
        let count = sets.len();
        let set = sets.into_iter().find(|set| set.contains(&rank))?;
        Membership::new(set, rank, count)
    }

    pub fn degraded(&self, descriptor: &RedundancyDesc) -> Option<String> {
        if descriptor.scheme == SchemeKind::Single {
            return None;
        }
        let sets = self.sets(descriptor);
        let sentences = [self.alone(descriptor, &sets), self.too_small(descriptor, &sets)];
        let sentences: Vec<String> = sentences.into_iter().flatten().collect();
        (!sentences.is_empty()).then(|| sentences.join(". "))
    }

    fn alone(&self, descriptor: &RedundancyDesc, sets: &[Vec<usize>]) -> Option<String> {
        let alone: Vec<String> =
            sets.iter().filter(|set| set.len() < 2).flatten().map(ToString::to_string).collect();
        if alone.is_empty() {
            return None;
        }
        let scheme = descriptor.scheme.name();
        let group = &descriptor.group;
        let ranks = match alone.len() == self.hosts.len() {
            true => "all ranks".to_string(),
            false => format!("rank {}", shorten(&alone)),
        };
        Some(format!(
            "{scheme} cannot protect {ranks}: {}; their checkpoints are kept as under SINGLE \
             and do not survive the loss of their {group}. Use more nodes, or another GROUP",
            self.shape(group, "too unevenly ")?
        ))
    }

    fn too_small(&self, descriptor: &RedundancyDesc, sets: &[Vec<usize>]) -> Option<String> {
        let small: Vec<&Vec<usize>> =
            sets.iter().filter(|s| (2..=descriptor.set_failures).contains(&s.len())).collect();
        let least = small.iter().map(|set| set.len()).min()?;
        let (wanted, group) = (descriptor.set_failures, &descriptor.group);
        let (needed, survived) = (wanted + 1, least - 1);
        let ranks: usize = small.iter().map(|set| set.len()).sum();
        let ranks = match ranks == self.hosts.len() {
            true => "all ranks".to_string(),
            false => format!("{ranks} of the ranks"),
        };
        Some(format!(
            "{} with SET_FAILURES={wanted} needs sets of {needed} ranks, each in another {group}, \
             and {ranks} are in smaller ones: {}; their checkpoints survive the loss of {survived} \
             {group} of a set, not of {wanted}. Use more nodes, or a smaller SET_FAILURES",
            descriptor.scheme.name(),
            self.shape(group, "")?
        ))
    }

    fn shape(&self, group: &str, how: &str) -> Option<String> {
        let distinct: BTreeSet<_> = self.of_ranks(group)?.iter().collect();
        Some(match distinct.len() {
            1 => format!("all ranks are in one {group}"),
            count => format!("the ranks are spread {how}over {count} groups ({group})"),
        })
    }
}

fn named_groups(settings: &Settings) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
    let mut groups: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for line in settings.lines(LineKind::Groups) {
        let wrong = |what: String| Error::Config { place: line.place.clone(), what };
        for (group, value) in &line.fields {
            if group == NODE || group == WORLD {
                return Err(wrong(format!("the group {group} is always there, as it is")));
            }
            let members = groups.entry(group.clone()).or_default();
            let before = members.insert(line.subject.clone(), value.clone());
            if before.is_some_and(|before| before != *value) {
                let host = &line.subject;
                return Err(wrong(format!("{host} is given a second {group}")));
            }
        }
    }
    Ok(groups)
}

fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

fn shorten(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let named = names[..names.len() - more].join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}
