//! What is damaged in the caches of a run is found from outside, by name, and is replaced by what
//! its redundancy gives; nothing else is touched.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use scr_core::cache::{Damage, Depth, Judged, NodeState, PartsWanted, Prospect, judge};
use scr_core::transfer::{copy_parts, put_parts_back, rebuild_parts};

use super::cluster::Cluster;
use super::found::{dataset, run, tree};

const NODES: [&str; 4] = ["a", "b", "c", "d"];

fn look(cluster: &Cluster, nodes: &[&str], depth: Depth) -> Judged {
    let look = |host: &&str| {
        let state = NodeState::look(&cluster.layout(host), depth, None, false).unwrap();
        // As it comes from another node.
        let state = NodeState::from_tree(&state.to_tree()).unwrap();
        assert_eq!(state.damaged, Vec::<String>::new());
        ((*host).to_owned(), state)
    };
    judge(&nodes.iter().map(look).collect::<Vec<_>>()).unwrap()
}

/// The file of a rank: the larger one.
fn file(cluster: &Cluster, host: &str, rank: usize) -> PathBuf {
    cluster.node(host).join(format!("ram/scr.dataset.1/ckpt/1/part_1/rank_{rank}"))
}

fn flip(path: &PathBuf, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x20;
    fs::write(path, bytes).unwrap();
}

/// Ranks of sets with damage that can be repaired.
fn struck(judged: &Judged) -> BTreeSet<usize> {
    let troubles = judged.datasets.iter().flat_map(|one| &one.troubles);
    troubles.filter(|one| one.repairable).flat_map(|one| one.set.clone()).collect()
}

fn repair(cluster: &Cluster, ranks: &BTreeSet<usize>) -> usize {
    let folder = cluster.prefix().join(".scr/outside");
    for host in NODES {
        copy_parts(&cluster.layout(host), &folder, host, PartsWanted { id: 1, ranks }).unwrap();
    }
    rebuild_parts(&folder, PartsWanted { id: 1, ranks }, 1 << 16, 4).unwrap().unwrap();
    let put = |host: &&str| put_parts_back(&cluster.layout(host), &folder, host, 1).unwrap();
    let all: Vec<_> = NODES.iter().map(put).collect();
    assert!(all.iter().all(|one| one.left.is_empty()), "{all:?}");
    fs::remove_dir_all(folder).unwrap();
    all.iter().map(|one| one.put.len()).sum()
}

#[test]
fn a_damaged_file_is_told_and_rebuilt_as_it_was() {
    for (scheme, failures) in [("XOR", 1), ("PARTNER", 1), ("RS", 2)] {
        let cluster = Cluster::new();
        let mut written = dataset(1, (scheme, failures), 8);
        written.set_size = 4;
        run(&cluster, "aabbccdd", &[written]);
        let before: Vec<_> = NODES.iter().map(|host| tree(&cluster.node(host))).collect();
        let judged = look(&cluster, &NODES, Depth::Contents);
        assert_eq!(judged.ranks, 8);
        assert_eq!(judged.datasets[0].prospect, Prospect::Right, "{scheme}");
        assert!(judged.datasets[0].files > 16 && judged.datasets[0].troubles.is_empty());

        flip(&file(&cluster, "b", 2), 1234);
        // A size says nothing of it, and a look at records even less.
        for depth in [Depth::Records, Depth::Sizes] {
            assert_eq!(look(&cluster, &NODES, depth).datasets[0].prospect, Prospect::Right);
        }
        fs::remove_file(file(&cluster, "c", 5)).unwrap();
        let judged = look(&cluster, &NODES, Depth::Contents);
        let one = &judged.datasets[0];
        let told = one.troubles.iter().map(|one| (one.rank, &*one.node, one.fault.damage.clone()));
        let told: Vec<_> = told.collect();
        let want = [(2, "b", Damage::Content), (5, "c", Damage::Missing)];
        assert_eq!(told, want, "{scheme}");
        assert_eq!(one.prospect, Prospect::Repairable, "{one:?}");
        assert_eq!(repair(&cluster, &struck(&judged)), 2, "{scheme}");
        let after: Vec<_> = NODES.iter().map(|host| tree(&cluster.node(host))).collect();
        for (before, after) in before.iter().zip(&after) {
            let changed = after.keys().filter(|name| before.get(*name) != after.get(*name));
            assert_eq!(changed.collect::<Vec<_>>(), Vec::<&PathBuf>::new(), "{scheme}");
            assert_eq!(before.len(), after.len());
        }

        // Redundancy comes back, too, and is as good as it was.
        let redundancy = tree(&cluster.node("d")).into_keys().find(|path| {
            let name = path.to_str().unwrap();
            [".xor", ".rs", ".scr/partner."].iter().any(|part| name.contains(part))
        });
        flip(&redundancy.unwrap(), 300);
        for (host, rank) in [("a", 0), ("b", 3)] {
            let judged = look(&cluster, &NODES, Depth::Contents);
            assert_eq!(judged.datasets[0].troubles.len(), 1, "{scheme} {judged:?}");
            // With PARTNER the list of copies is made anew, too.
            assert!(repair(&cluster, &struck(&judged)) > 0, "{scheme}");
            flip(&file(&cluster, host, rank), 2);
        }
        repair(&cluster, &struck(&look(&cluster, &NODES, Depth::Contents)));
        let judged = look(&cluster, &NODES, Depth::Contents);
        assert_eq!(judged.datasets[0].prospect, Prospect::Right, "{scheme} {judged:?}");
        for (host, (before, rank)) in NODES.iter().zip(before.iter().zip([0, 2, 4, 6])) {
            let path = file(&cluster, host, rank);
            assert_eq!(before.get(&path), Some(&fs::read(&path).unwrap()), "{scheme}");
        }
    }
}

#[test]
fn what_is_beyond_the_scheme_is_told_as_lost() {
    let cluster = Cluster::new();
    let mut written = dataset(1, ("XOR", 1), 4);
    written.set_size = 4;
    run(&cluster, "abcd", &[written]);
    flip(&file(&cluster, "c", 2), 0);
    let prospect = |judged: Judged| judged.datasets[0].prospect.clone();
    assert_eq!(prospect(look(&cluster, &NODES, Depth::Contents)), Prospect::Repairable);
    // A node that does not answer is a loss as well.
    let without = look(&cluster, &["a", "b", "c"], Depth::Contents);
    assert_eq!(without.datasets[0].absent, [3]);
    assert!(!without.datasets[0].troubles[0].repairable);
    let lost = prospect(without);
    assert!(matches!(&lost, Prospect::Lost(why) if why.contains("ranks 2, 3")), "{lost:?}");
    assert_eq!(prospect(look(&cluster, &["a", "b", "d"], Depth::Sizes)), Prospect::Repairable);

    let cluster = Cluster::with_real_names();
    run(&cluster, "ab", &[dataset(1, ("SINGLE", 1), 2)]);
    let dir = cluster.layout("a").dataset_dir(&cluster.store(), 1);
    let path = dir.join("ckpt/1/part_1/rank_0");
    fs::write(&path, &fs::read(&path).unwrap()[..99]).unwrap();
    let found = look(&cluster, &["a", "b"], Depth::Sizes);
    assert_eq!(found.datasets[0].troubles[0].fault.sentence(), "ends after 99 of 3000 bytes");
    assert!(matches!(prospect(found), Prospect::Lost(_)));
}
