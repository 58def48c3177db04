//! XOR and RS read what they rebuild from, so nobody needs to look at it before: they compare it on
//! the way, and what a rebuild does not need, too.

use std::fs;

use scr_core::redundancy::ParityHeader;

use super::{Cluster, flip, mixed_sizes};

/// Scheme and lost members; with none of them lost, the first one lacks its parity file.
const CASES: [(&str, usize); 6] =
    [("XOR", 0), ("RS2", 0), ("XOR", 1), ("RS2", 1), ("RS2", 2), ("RS3", 1)];
const SURVIVOR: usize = 4;

/// A set of five whose first `count` members are lost, or the parity file of the first one.
fn lost(scheme: &str, sizes: &[Vec<usize>], count: usize) -> Cluster {
    let cluster = Cluster { unlooked: true, ..Cluster::encoded(scheme, sizes) };
    (0..count).for_each(|member| cluster.lose(member));
    if count == 0 {
        fs::remove_file(cluster.redundancy_file(0)).unwrap();
    }
    cluster
}

/// What is on the nodes, apart from files on their way.
fn published(cluster: &Cluster) -> Vec<Vec<(String, Vec<u8>)>> {
    let of = |member| {
        let mut files = cluster.snapshot(member);
        files.retain(|(name, _)| !name.contains("rebuild.") && !name.ends_with(".tmp"));
        files
    };
    (0..cluster.size()).map(of).collect()
}

#[test]
fn what_is_right_comes_back() {
    for (scheme, count) in CASES {
        lost(scheme, &mixed_sizes(5), count).rebuild_and_check();
    }
}

#[test]
fn damage_anywhere_ends_the_rebuild_and_publishes_nothing() {
    for (scheme, count) in CASES {
        let cluster = lost(scheme, &vec![vec![30, 0, 41]; 5], count);
        let parity = cluster.redundancy_file(SURVIVOR);
        let (_, header_bytes) = ParityHeader::read(&parity).unwrap();
        let files = cluster.originals[SURVIVOR].files.iter();
        let mut all: Vec<_> =
            files.map(|file| (cluster.dir(SURVIVOR).join(&file.name), 0)).collect();
        all.push((parity, header_bytes as usize));
        for (path, start) in all {
            for at in start..fs::metadata(&path).unwrap().len() as usize {
                flip(&path, at);
                let before = published(&cluster);
                let what = format!("{scheme}, {count} lost, {}: byte {at}", path.display());
                assert!(cluster.rebuild().iter().all(Result::is_err), "{what}");
                assert!(published(&cluster) == before, "{what}");
                flip(&path, at);
            }
        }
    }
}

#[test]
fn a_damaged_header_counts_as_a_lost_parity_file() {
    let cluster = lost("RS2", &mixed_sizes(5), 1);
    flip(&cluster.redundancy_file(SURVIVOR), 40);
    cluster.rebuild_and_check();
    let cluster = lost("XOR", &mixed_sizes(5), 1);
    flip(&cluster.redundancy_file(SURVIVOR), 40);
    cluster.assert_unrecoverable();
}
