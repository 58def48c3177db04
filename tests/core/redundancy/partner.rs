//! PARTNER: which losses come back.

use std::fs;

use super::{Cluster, flip, mixed_sizes};

#[test]
fn any_members_come_back_unless_two_are_neighbours() {
    for members in 2..=6_usize {
        for lost in 0..1_u32 << members {
            let is_lost = |member: usize| lost >> (member % members) & 1 == 1;
            let neighbours = (0..members).any(|m| is_lost(m) && is_lost(m + 1));
            let cluster = Cluster::encoded("PARTNER", &mixed_sizes(members));
            (0..members).filter(|&m| is_lost(m)).for_each(|member| cluster.lose(member));
            match neighbours {
                true => cluster.assert_unrecoverable(),
                false => cluster.rebuild_and_check(),
            }
        }
    }
}

#[test]
fn with_several_copies_all_keepers_must_be_lost_with_their_left_neighbour() {
    for (members, copies) in [(2, 3), (3, 2), (4, 2), (5, 2), (5, 3)] {
        for lost in 0..1_u32 << members {
            let is_lost = |member: usize| lost >> (member % members) & 1 == 1;
            let reach = copies.min(members - 1);
            let gone = (0..members).any(|m| (0..=reach).all(|distance| is_lost(m + distance)));
            let cluster = Cluster::encoded(&format!("PARTNER{copies}"), &mixed_sizes(members));
            let whole: Vec<_> = (0..members).map(|member| cluster.snapshot(member)).collect();
            (0..members).filter(|&m| is_lost(m)).for_each(|member| cluster.lose(member));
            if gone {
                cluster.assert_unrecoverable();
                continue;
            }
            cluster.rebuild_and_check();
            assert!((0..members).all(|member| cluster.snapshot(member) == whole[member]));
        }
    }
}

#[test]
fn one_of_several_lost_copies_is_made_anew_and_the_others_stay() {
    let cluster = Cluster::encoded("PARTNER2", &mixed_sizes(4));
    let before = cluster.snapshot(2);
    let copies = cluster.protections.lock().unwrap()[2].clone().unwrap();
    fs::remove_file(cluster.dir(2).join(".scr/partner.5.scr")).unwrap();
    cluster.rebuild_and_check();
    assert!(cluster.snapshot(2) == before);
    assert_eq!(cluster.protections.lock().unwrap()[2].as_ref().unwrap().files, copies.files);
}

#[test]
fn copies_lie_where_they_should_and_carry_the_record() {
    let cluster = Cluster::encoded("PARTNER", &mixed_sizes(3));
    let files = cluster.files_below(1);
    let copies: Vec<_> = files.iter().filter(|name| name.starts_with(".scr/")).collect();
    assert_eq!(
        copies,
        [
            ".scr/partner.3.scr",
            ".scr/partner.3/step/r0/f0",
            ".scr/partner.3/step/r0/f1",
            ".scr/partner.3/step/r0/f2",
        ]
    );
    let before = cluster.snapshot(1);
    cluster.lose(1);
    cluster.rebuild_and_check();
    assert!(cluster.snapshot(1) == before);
}

#[test]
fn lost_copies_are_made_anew() {
    let cluster = Cluster::encoded("PARTNER", &mixed_sizes(4));
    for member in 0..4 {
        fs::remove_file(cluster.redundancy_file(member)).unwrap();
    }
    cluster.rebuild_and_check();
    flip(&cluster.dir(1).join(".scr/partner.3/step/r0/f2"), 500);
    assert!(cluster.survivor(1).protection.is_none());
    cluster.rebuild_and_check();
    // They are good: their owner comes back from them.
    cluster.lose(0);
    cluster.rebuild_and_check();
}

#[test]
fn a_copy_that_is_lost_with_its_original_is_gone() {
    let cluster = Cluster::encoded("PARTNER", &mixed_sizes(4));
    fs::remove_file(cluster.dir(0).join("step/r0/f0")).unwrap();
    flip(&cluster.redundancy_file(1), 30);
    cluster.assert_unrecoverable();
}

#[test]
fn several_pieces_and_unequal_totals() {
    let cluster = Cluster::encoded("PARTNER", &[vec![300_000], vec![], vec![131_072, 131_073]]);
    for lost in 0..3 {
        cluster.lose(lost);
        cluster.rebuild_and_check();
    }
}

#[test]
fn copies_of_another_seal_count_as_lost() {
    let mut cluster = Cluster::encoded("PARTNER", &mixed_sizes(4));
    cluster.originals[2].epoch = 1;
    let kept = cluster.rebuild();
    assert_eq!(kept[2].as_ref().unwrap().0.epoch, 0xfeed);
    for data in &mut cluster.originals {
        data.epoch = 1;
    }
    cluster.encode();
    for data in &mut cluster.originals {
        data.epoch = 0xfeed;
    }
    cluster.lose(0);
    cluster.assert_unrecoverable();
}

#[test]
fn copies_of_an_earlier_seal_do_not_pile_up() {
    let mut cluster = Cluster::encoded("PARTNER", &[vec![10, 20], vec![]]);
    cluster.originals[0].files.pop();
    cluster.encode();
    assert_eq!(cluster.files_below(1), [".scr/partner.3.scr", ".scr/partner.3/step/r0/f0"]);
}
