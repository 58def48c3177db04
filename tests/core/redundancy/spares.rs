//! Redundancy files that are written over older ones.

use std::collections::BTreeSet;

use scr_core::redundancy::Spares;

use super::*;

const MIB: usize = 1 << 20;

fn world_rank(cluster: &Cluster, member: usize) -> usize {
    let world = ThreadWorld::new(cluster.size()).run(|comm| cluster.set(comm).world_ranks);
    world.results[0].clone().unwrap()[member]
}

/// As an eviction does it; then every spare has another size and no byte of what is to come.
fn keep_all(cluster: &Cluster, change: i64) -> BTreeSet<u64> {
    let mut inodes = BTreeSet::new();
    for member in 0..cluster.size() {
        let protection = cluster.protections.lock().unwrap()[member].clone().unwrap();
        let rank = world_rank(cluster, member);
        Spares::beside(&cluster.dir(member), rank)
            .keep(&cluster.dir(member), &protection.files)
            .unwrap();
        // None if all that the member kept was small.
        let spares = fs::read_dir(cluster.root.path().join(format!("scr.spare.{rank}")));
        for spare in spares.into_iter().flatten() {
            let path = spare.unwrap().path();
            let size = path.metadata().unwrap().len() as i64 + change;
            fs::write(&path, vec![0x5a; size as usize]).unwrap();
            inodes.insert(path.metadata().unwrap().ino());
        }
        fs::remove_dir_all(cluster.dir(member).join(".scr")).unwrap();
    }
    inodes
}

fn redundancy_inodes(cluster: &Cluster, member: usize) -> BTreeSet<u64> {
    let below = cluster.files_below(member).into_iter().filter(|name| name.starts_with(".scr"));
    below.map(|name| fs::metadata(cluster.dir(member).join(name)).unwrap().ino()).collect()
}

#[test]
fn what_is_written_over_a_spare_is_as_if_it_were_new() {
    let sizes = [vec![4 * MIB + 3, 100], vec![5 * MIB], vec![], vec![2 * MIB, 3 * MIB + 1]];
    for scheme in ["XOR", "RS2", "PARTNER", "PARTNER2"] {
        for change in [0, 1 + MIB as i64, 1 - (MIB / 2) as i64] {
            let mut cluster = Cluster::encoded(scheme, &sizes);
            let as_new = cluster.protections.lock().unwrap().clone();
            let spares = keep_all(&cluster, change);
            assert!(!spares.is_empty());
            cluster.encode();
            assert_eq!(*cluster.protections.lock().unwrap(), as_new, "{scheme} {change}");
            for (member, new) in as_new.iter().enumerate() {
                assert!(verify(&cluster.dir(member), &new.as_ref().unwrap().files));
            }
            let used = (0..cluster.size()).flat_map(|member| redundancy_inodes(&cluster, member));
            assert!(used.filter(|inode| spares.contains(inode)).count() >= 3, "{scheme} {change}");
            cluster.lose(1);
            cluster.rebuild_and_check();
        }
    }
}

#[test]
fn an_encode_that_fails_shows_nothing_of_a_spare() {
    let cluster = Cluster::encoded("PARTNER", &[vec![2 * MIB], vec![2 * MIB]]);
    keep_all(&cluster, 0);
    flip(&cluster.dir(0).join("step/r0/f0"), MIB);
    let results = cluster.encode_on(ThreadWorld::new(2)).results;
    assert!(results[0].as_ref().is_some_and(Result::is_err));
    let copy = fs::read(cluster.dir(1).join(".scr/partner.3/step/r0/f0")).unwrap();
    assert!(copy == fs::read(cluster.dir(0).join("step/r0/f0")).unwrap());
}
