//! How often a restart reads what is in the cache: once, be there something to rebuild or not.

use std::fs;

use scr_core::cache;

use super::cluster::{Cluster, IDENTITY, offered_ids};
use super::job::{Dataset, run};

/// Large enough that records do not count.
const BYTES: usize = 4 << 20;

fn dataset(scheme: (&'static str, usize)) -> Dataset {
    let sizes = vec![vec![BYTES / 4, BYTES - BYTES / 4]; 4];
    Dataset { id: 1, scheme, set_size: 4, group: "NODE", store: "ram", sizes }
}

/// Bytes that this thread has read from files.
fn read_bytes() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

/// Bytes of the files of the dataset on a node.
fn bytes_on(cluster: &Cluster, host: &str) -> u64 {
    let dir = cluster.layout(host).dataset_dir("ram", 1);
    let files = super::flush::files_below(&dir).into_iter();
    files.map(|path| fs::metadata(path).unwrap().len()).sum()
}

#[test]
fn a_restart_reads_every_file_once() {
    for scheme in [("XOR", 1), ("RS", 2)] {
        for lost in ["", "b", "a"] {
            let cluster = Cluster::new();
            run(&cluster, "abcd", &[dataset(scheme)]);
            let hosts = if lost.is_empty() { "abcd".into() } else { "abcd".replace(lost, "e") };
            if !lost.is_empty() {
                cluster.lose(lost);
            }
            let outcome = cluster.launch(&hosts).run(|ctx| {
                let before = read_bytes();
                let report = cache::rebuild(ctx, IDENTITY).unwrap();
                assert_eq!(offered_ids(&report), [1], "{report:?}");
                assert_eq!(report.offered[0].rebuilt.len(), lost.len());
                read_bytes() - before
            });
            for (host, read) in hosts.chars().map(String::from).zip(outcome.results) {
                let (read, there) = (read.unwrap(), bytes_on(&cluster, &host));
                let most = if host == "e" { there / 10 } else { there + there / 10 };
                assert!(read < most, "{scheme:?}, lost {lost:?}: {host} read {read} of {there}");
                assert!(host == "e" || read > there - there / 10, "{host}: {read} of {there}");
            }
        }
    }
}
