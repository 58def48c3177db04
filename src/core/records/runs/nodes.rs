//! The nodes file: how many nodes the last launch used (manual 1.1, section 9.6), and where ranks
//! ran.

use std::collections::BTreeMap;

use crate::kvtree::KvTree;
use crate::records::record::Record;

/// How many nodes the last launch used, and where its ranks were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The count.
    pub nodes: u64,
    /// By host its ranks; also those of earlier launches whose caches are still wanted.
    pub hosts: BTreeMap<String, RankSet>,
    /// Id of the launch's job; empty in files of older versions.
    pub job: String,
}

/// World ranks, as first and last of those that follow one another: `0-63,128`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankSet(Vec<(u64, u64)>);

impl RankSet {
    /// Adds a rank that is larger than all others.
    pub fn push(&mut self, rank: u64) {
        match self.0.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => self.0.push((rank, rank)),
        }
    }

    /// Tells whether it has the rank.
    #[must_use]
    pub fn contains(&self, rank: u64) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&rank))
    }

    fn to_text(&self) -> String {
        let text = |(first, last): &(u64, u64)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        self.0.iter().map(text).collect::<Vec<_>>().join(",")
    }

    fn from_text(text: &str) -> Option<RankSet> {
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        text.split(',').map(range).collect::<Option<_>>().map(RankSet)
    }
}

impl Nodes {
    /// File name in the prefix's `.scr` directory.
    pub const NAME: &'static str = "nodes.scr";

    /// Makes the nodes of a launch of `job` whose ranks run on `hosts`, in their order.
    #[must_use]
    pub fn of_launch(hosts: &[String], job: &str) -> Nodes {
        let mut found: BTreeMap<String, RankSet> = BTreeMap::new();
        for (rank, host) in hosts.iter().enumerate() {
            found.entry(host.clone()).or_default().push(rank as u64);
        }
        Nodes { nodes: found.len() as u64, hosts: found, job: job.to_owned() }
    }

    /// Returns the hosts of these ranks, with the ranks that each had.
    pub fn hosts_of<'a>(
        &'a self,
        ranks: &'a [usize],
    ) -> impl Iterator<Item = (&'a str, Vec<usize>)> {
        self.hosts.iter().filter_map(|(host, had)| {
            let of_it = ranks.iter().copied().filter(|rank| had.contains(*rank as u64));
            let of_it: Vec<usize> = of_it.collect();
            (!of_it.is_empty()).then_some((host.as_str(), of_it))
        })
    }
}

impl Record for Nodes {
    const KIND: &'static str = "the nodes file";

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("NODES", self.nodes);
        if !self.job.is_empty() {
            tree.set_value("JOB", &self.job);
        }
        for (host, ranks) in &self.hosts {
            tree.child_mut("HOST").child_mut(host).set_value("RANKS", ranks.to_text());
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let nodes = tree.get_u64("NODES").ok_or("no number of NODES")?;
        let mut hosts = BTreeMap::new();
        for (host, entry) in tree.child("HOST") {
            let ranks = RankSet::from_text(entry.get_value("RANKS").unwrap_or_default());
            hosts.insert(host.to_owned(), ranks.ok_or_else(|| format!("no RANKS of {host}"))?);
        }
        let job = tree.get_value("JOB").unwrap_or_default().to_owned();
        Ok(Nodes { nodes, hosts, job })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_host_take_little_and_are_found() {
        let hosts: Vec<String> = "aabbacc".chars().map(String::from).collect();
        let nodes = Nodes::of_launch(&hosts, "77");
        assert_eq!(nodes.nodes, 3);
        assert_eq!(nodes.hosts["a"].to_text(), "0-1,4");
        assert_eq!(Nodes::from_tree(&nodes.to_tree()), Ok(nodes.clone()));
        let found: Vec<_> = nodes.hosts_of(&[1, 4, 6, 9]).collect();
        assert_eq!(found, [("a", vec![1, 4]), ("c", vec![6])]);
    }
}
