//! The files of a launch check: which ranks are ready, where the missing ones are, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::nonce::nonce;
use crate::error::{Error, Result};
use crate::namespace::STATE_FOLDER;
use crate::params::Environment;

/// How long a rank that cannot take part looks for others that wait for it.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct NodeReport {
    pub ready: BTreeSet<usize>,
    /// Ranks that were started there, if the launcher tells.
    pub started: Option<usize>,
}

pub(crate) struct Excuse {
    pub host: String,
    pub rank: usize,
    pub why: String,
}

/// Writes out the missing ranks, with their nodes as far as these are known.
pub(crate) fn whereabouts(
    mut missing: BTreeSet<usize>,
    nodes: &BTreeMap<String, NodeReport>,
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

pub(crate) fn excuses(shared: &Path) -> Result<Vec<Excuse>> {
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

/// Tells where the ranks of this launch meet on the prefix, as far as it can be known without
/// reading the settings.
pub fn meeting_place(environment: &Environment, here: &Path) -> Option<PathBuf> {
    let nonce = nonce(|name| environment.get(name).cloned())?;
    let prefix = environment.get("SCR_PREFIX").map_or_else(|| here.into(), |dir| here.join(dir));
    Some(prefix.join(STATE_FOLDER).join("launch").join(nonce))
}

/// Tells those who wait at the meeting place why this rank does not come. Where nobody comes to
/// wait, nothing is told, and nothing is made. Returns at once.
pub fn excuse(place: PathBuf, host: String, rank: usize, why: String) {
    let begin = Instant::now();
    let tell = move || {
        while !place.is_dir() {
            if begin.elapsed() > PATIENCE {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // The others tell the person if this fails: a rank is missing.
        let _ = leave_excuse(&place, &host, rank, &why);
    };
    // Without a thread: as above.
    let _ = std::thread::Builder::new().name("scr-excuse".into()).spawn(tell);
}

pub(crate) fn leave_excuse(shared: &Path, host: &str, rank: usize, why: &str) -> io::Result<()> {
    let file = shared.join(format!("missing.{host}"));
    let line = format!("{rank}\t{}\n", why.replace(['\n', '\t'], " "));
    // Ranks of one node write to the same file, each its line in one piece.
    OpenOptions::new().append(true).create(true).open(file)?.write_all(line.as_bytes())
}

pub(crate) fn entries(dir: &Path, start: &str) -> Result<Vec<String>> {
    let names = fs::read_dir(dir).map_err(|e| Error::io("cannot list", dir, e))?;
    Ok(names
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_prefix(start).map(String::from))
        .collect())
}

pub(crate) fn nodes(shared: &Path) -> Result<BTreeMap<String, NodeReport>> {
    let mut nodes: BTreeMap<String, NodeReport> = BTreeMap::new();
    for name in entries(shared, "node.")? {
        let text = fs::read_to_string(shared.join(format!("node.{name}"))).unwrap_or_default();
        let (ready, started) = match text.split_once(" of ") {
            Some((ready, size)) => (ready, size.parse().ok()),
            None => (text.as_str(), None),
        };
        // A rank that cannot use its node's directory reports itself.
        let host = name.rsplit_once('.').map_or(name.as_str(), |(host, _)| host);
        let node = nodes.entry(host.to_string()).or_default();
        node.ready.extend(ready.split(',').filter_map(|rank| rank.parse::<usize>().ok()));
        node.started = node.started.or(started);
    }
    Ok(nodes)
}

pub(crate) fn all_ready(nodes: &BTreeMap<String, NodeReport>) -> BTreeSet<usize> {
    nodes.values().flat_map(|node| &node.ready).copied().collect()
}

/// Writes ranks as "0-2,5": short for any number of neighbours.
pub(crate) fn ranges(ranks: &BTreeSet<usize>) -> String {
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
