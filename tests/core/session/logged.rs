//! The log of events: one for each thing that happens, and for nothing else.

use std::fs;

use scr_core::events::{Logged, parse_line};

use super::cluster::Cluster;

/// The log's events, or those that are wanted; the log begins anew.
pub fn events(cluster: &Cluster, wanted: &[&str]) -> Vec<Logged> {
    let path = cluster.prefix().join(".scr/log");
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let all = text.lines().map(|line| parse_line(line).unwrap_or_else(|| panic!("{line}")));
    all.filter(|one| wanted.is_empty() || wanted.contains(&one.get("event"))).collect()
}
