//! Groups of ranks that fail together.

use std::collections::{BTreeMap, BTreeSet};

use super::redundancy::{RedundancyDesc, SchemeKind};
use super::sets::{Membership, NODE, WORLD, choose_sets};
use crate::error::{Error, Result};
use crate::log::{Id, messages};
use crate::params::{LineKind, Settings};
use crate::system::{Planted, planted};

/// Messages name this many hosts or ranks, then say how many more there are.
const NAMED_MAX: usize = 4;

/// How the world's ranks are grouped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    hosts: Vec<String>,
    /// Of each group the value of each rank; equal values are one group.
    values: BTreeMap<String, Vec<String>>,
}

impl Groups {
    /// Groups ranks by their hosts (by world rank) and the GROUPS lines.
    ///
    /// # Errors
    /// `Error::Config` for a line that redefines NODE or WORLD, or a host's second value.
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

    /// Returns the host of each rank.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the names of all groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Returns the value of each rank in the group called `name`; equal values share it.
    #[must_use]
    pub fn of_ranks(&self, name: &str) -> Option<&[String]> {
        self.values.get(name).map(Vec::as_slice)
    }

    /// Returns the value of each rank in the group of `descriptor`; NODE stands in for one that a
    /// stored descriptor names and the settings do not have any more.
    pub(super) fn of_descriptor(&self, descriptor: &RedundancyDesc) -> &[String] {
        self.of_ranks(&descriptor.group).unwrap_or(&self.values[NODE])
    }

    /// Finds the ranks that share the group called `name` with `rank`, ascending; itself included.
    #[must_use]
    pub fn members(&self, name: &str, rank: usize) -> Vec<usize> {
        let Some(values) = self.of_ranks(name) else { return Vec::new() };
        let Some(own) = values.get(rank) else { return Vec::new() };
        (0..values.len()).filter(|other| &values[*other] == own).collect()
    }

    /// Chooses all redundancy sets under a descriptor, each in ring order. Under SINGLE all are
    /// alone.
    #[must_use]
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

    /// Finds the set of `rank`; `None` if there is no such rank.
    #[must_use]
    pub fn membership(&self, descriptor: &RedundancyDesc, rank: usize) -> Option<Membership> {
        let sets = self.sets(descriptor);
        let count = sets.len();
        let set = sets.into_iter().find(|set| set.contains(&rank))?;
        Membership::new(set, rank, count)
    }

    /// Says what this job is too small for, in a sentence or two; `None` if all is as configured.
    #[must_use]
    pub fn degraded(&self, descriptor: &RedundancyDesc) -> Option<String> {
        if descriptor.scheme == SchemeKind::Single {
            return None;
        }
        let sets = self.sets(descriptor);
        let sentences = [self.alone(descriptor, &sets), self.too_small(descriptor, &sets)];
        let sentences: Vec<String> = sentences.into_iter().flatten().collect();
        (!sentences.is_empty()).then(|| sentences.join(". "))
    }

    /// The sentence about ranks without company.
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

    /// The sentence about sets that have some members, but fewer than the scheme needs.
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

    /// How the ranks are spread over the groups of one name.
    fn shape(&self, group: &str, how: &str) -> Option<String> {
        let distinct: BTreeSet<_> = self.of_ranks(group)?.iter().collect();
        Some(match distinct.len() {
            1 => format!("all ranks are in one {group}"),
            count => format!("the ranks are spread {how}over {count} groups ({group})"),
        })
    }
}

/// From the GROUPS lines: group -> host -> value.
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

/// The name of a host without its domain.
fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

fn shorten(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let named = names[..names.len() - more].join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}
