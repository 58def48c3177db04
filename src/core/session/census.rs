//! What the files of a launch check say: which ranks are ready, and where the missing ones are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// What a node has reported.
pub(super) struct Node {
    pub ready: BTreeSet<usize>,
    /// Ranks that were started there, if the launcher tells.
    pub started: Option<usize>,
}

/// Why a rank is not with us.
pub(super) struct Excuse {
    pub host: String,
    pub rank: usize,
    pub why: String,
}

/// The missing ranks, with their nodes as far as these are known.
pub(super) fn whereabouts(
    mut missing: BTreeSet<usize>,
    nodes: &BTreeMap<String, Node>,
    excuses: &[Excuse],
) -> String {
    let mut parts = Vec::new();
    let mut hosts: Vec<&str> = excuses.iter().map(|one| one.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let on = |host: &str| excuses.iter().filter(|one| one.host == host).collect::<Vec<_>>();
    for &host in &hosts {
        let all = on(host);
        let ranks = all.iter().map(|one| one.rank).collect();
        parts.push(format!("{host} (rank {}: {})", ranges(&ranks), all[0].why));
        missing.retain(|rank| !ranks.contains(rank));
    }
    if missing.is_empty() {
        return parts.join(", ");
    }
    // Ranks without the shim: nothing of ours speaks for them, but their neighbours know.
    let mut short = 0;
    let mut names = Vec::new();
    for (host, node) in nodes {
        let there = node.ready.len() + on(host).len();
        if let Some(absent) = node.started.and_then(|all| all.checked_sub(there)).filter(|n| *n > 0)
        {
            short += absent;
            names.push(host.as_str());
        }
    }
    let mut text = format!("rank {}", ranges(&missing));
    if short == missing.len() {
        text.push_str(&format!(" on {}", names.join(", ")));
    }
    parts.push(text);
    parts.join(", ")
}

pub(super) fn excuses(shared: &Path) -> Result<Vec<Excuse>> {
    let mut all = Vec::new();
    for host in entries(shared, "missing.")? {
        let text = fs::read_to_string(shared.join(format!("missing.{host}"))).unwrap_or_default();
        for (rank, why) in text.lines().filter_map(|line| line.split_once('\t')) {
            if let Ok(rank) = rank.parse() {
                all.push(Excuse { host: host.clone(), rank, why: why.to_string() });
            }
        }
    }
    Ok(all)
}

/// Names of the entries of `dir` that begin with `start`, without it.
pub(super) fn entries(dir: &Path, start: &str) -> Result<Vec<String>> {
    let names = fs::read_dir(dir).map_err(|e| Error::io("cannot list", dir, e))?;
    Ok(names
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_prefix(start).map(String::from))
        .collect())
}

/// The nodes that have reported.
pub(super) fn nodes(shared: &Path) -> Result<BTreeMap<String, Node>> {
    let read = |host: String| {
        let text = fs::read_to_string(shared.join(format!("node.{host}"))).unwrap_or_default();
        let (ready, started) = match text.split_once(" of ") {
            Some((ready, size)) => (ready, size.parse().ok()),
            None => (text.as_str(), None),
        };
        let ready = ready.split(',').filter_map(|rank| rank.parse().ok()).collect();
        (host, Node { ready, started })
    };
    Ok(entries(shared, "node.")?.into_iter().map(read).collect())
}

pub(super) fn all_ready(nodes: &BTreeMap<String, Node>) -> BTreeSet<usize> {
    nodes.values().flat_map(|node| &node.ready).copied().collect()
}

/// "0-2,5": short for any number of neighbours.
pub(super) fn ranges(ranks: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}
