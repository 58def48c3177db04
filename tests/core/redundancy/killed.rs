//! A rank dies at each communication call of an encode and of a rebuild. Nobody may hang, no
//! survivor may be damaged, and the next, undisturbed attempt must succeed.

use scr_core::comm::threads::ThreadWorld;

use super::Cluster;

/// Two pieces of a chunk for three members, so that a death can fall between pieces.
fn sizes(members: usize) -> Vec<Vec<usize>> {
    let mut sizes = vec![vec![40, 0], vec![], vec![9, 300]];
    sizes.truncate(members);
    if members == 3 {
        sizes[0][1] = 262_150;
    }
    sizes
}

fn encode_survives(scheme: &str, members: usize) {
    let sizes = sizes(members);
    let clean = Cluster::new(scheme, &sizes).encode_on(ThreadWorld::new(members));
    for victim in 0..members {
        for call in 0..clean.calls[victim] {
            let mut cluster = Cluster::new(scheme, &sizes);
            let world = ThreadWorld::new(members).kill_after(victim, call);
            let outcome = cluster.encode_on(world);
            assert!(outcome.results[victim].is_none());
            (0..members).for_each(|member| cluster.check_originals(member));
            cluster.encode();
            cluster.lose(victim);
            cluster.rebuild_and_check();
        }
    }
}

fn rebuild_survives(scheme: &str, members: usize) {
    for lost in 0..members {
        let cluster = Cluster::encoded(scheme, &sizes(members));
        cluster.lose(lost);
        let clean = cluster.rebuild_on(ThreadWorld::new(members));
        for victim in 0..members {
            for call in 0..clean.calls[victim] {
                cluster.lose(lost);
                let before: Vec<_> = (0..members).map(|m| cluster.snapshot(m)).collect();
                let world = ThreadWorld::new(members).kill_after(victim, call);
                assert!(cluster.rebuild_on(world).results[victim].is_none());
                for member in (0..members).filter(|&member| member != lost) {
                    // The copies of a lost member's files may already be there.
                    let kept = cluster.snapshot(member);
                    assert!(before[member].iter().all(|file| kept.contains(file)));
                }
                cluster.rebuild_and_check();
            }
        }
    }
}

#[test]
fn a_death_during_an_xor_encode() {
    encode_survives("XOR", 2);
    encode_survives("XOR", 3);
}

#[test]
fn a_death_during_a_reed_solomon_encode() {
    encode_survives("RS2", 3);
}

#[test]
fn a_death_during_a_reed_solomon_rebuild() {
    rebuild_survives("RS1", 3);
    rebuild_survives("RS2", 3);
}

#[test]
fn a_death_during_a_partner_encode() {
    encode_survives("PARTNER", 2);
    encode_survives("PARTNER", 3);
    encode_survives("PARTNER2", 3);
}

#[test]
fn a_death_during_an_xor_rebuild() {
    rebuild_survives("XOR", 2);
    rebuild_survives("XOR", 3);
}

#[test]
fn a_death_during_a_partner_rebuild() {
    rebuild_survives("PARTNER", 2);
    rebuild_survives("PARTNER", 3);
    rebuild_survives("PARTNER2", 3);
}

#[test]
fn a_death_while_xor_files_are_recomputed() {
    let cluster = Cluster::encoded("XOR", &sizes(3));
    let lose_two = || {
        for member in [0, 2] {
            std::fs::remove_file(cluster.redundancy_file(member)).unwrap();
        }
    };
    lose_two();
    let calls = cluster.rebuild_on(ThreadWorld::new(3)).calls;
    for (victim, count) in calls.into_iter().enumerate() {
        for call in 0..count {
            lose_two();
            let kept = cluster.snapshot(1);
            cluster.rebuild_on(ThreadWorld::new(3).kill_after(victim, call));
            assert!(cluster.snapshot(1) == kept, "the member that had its XOR file keeps it");
            cluster.rebuild_and_check();
        }
    }
}
