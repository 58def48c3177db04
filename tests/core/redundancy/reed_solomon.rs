//! RS: any losses up to SET_FAILURES, no more; the file; damage.

use std::fs;

use proptest::prelude::*;
use scr_core::redundancy::{Code, ParityHeader};

use super::{Cluster, flip, mixed_sizes};

/// The members that a mask names.
fn members_of(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |member| mask >> member & 1 == 1)
}

#[test]
fn any_members_come_back_up_to_the_limit_and_no_more() {
    for (members, failures) in [(2, 1), (3, 2), (4, 1), (4, 2), (4, 3), (5, 3), (6, 2), (7, 4)] {
        let scheme = format!("RS{failures}");
        let cluster = Cluster::encoded(&scheme, &mixed_sizes(members));
        let whole: Vec<_> = (0..members).map(|member| cluster.snapshot(member)).collect();
        for mask in 0..1_u32 << members {
            if mask.count_ones() as usize <= failures {
                members_of(mask).for_each(|member| cluster.lose(member));
                cluster.rebuild_and_check();
                let now: Vec<_> = (0..members).map(|member| cluster.snapshot(member)).collect();
                assert!(now == whole, "{members} members, {failures} failures, lost {mask:b}");
            }
        }
        for first in 0..members {
            let cluster = Cluster::encoded(&scheme, &vec![vec![8]; members]);
            (0..=failures).for_each(|next| cluster.lose((first + next) % members));
            cluster.assert_unrecoverable();
        }
    }
}

#[test]
fn too_many_losses_name_the_ranks_and_the_limit() {
    let cluster = Cluster::encoded("RS2", &vec![vec![8]; 5]);
    [0, 1, 3].into_iter().for_each(|member| cluster.lose(member));
    for rebuilt in cluster.rebuild() {
        let message = rebuilt.unwrap_err().to_string();
        assert!(message.contains("ranks 3, 5, 9 of one RS set of 5"), "{message}");
        assert!(message.contains("it can restore 2"), "{message}");
    }
}

#[test]
fn a_set_that_is_too_small_survives_all_losses_but_one() {
    for members in 2..=3 {
        let cluster = Cluster::encoded("RS5", &mixed_sizes(members));
        let (header, _) = ParityHeader::read(&cluster.redundancy_file(0)).unwrap();
        assert_eq!(header.failures, members - 1);
        (1..members).for_each(|member| cluster.lose(member));
        cluster.rebuild_and_check();
    }
}

#[test]
fn data_and_parity_of_different_members_may_be_lost() {
    let cluster = Cluster::encoded("RS2", &mixed_sizes(5));
    let data_file = |member: usize| {
        cluster.dir(member).join(&cluster.originals[member].files.last().unwrap().name)
    };
    let before: Vec<_> = (0..5).map(|member| cluster.snapshot(member)).collect();
    let restored = || {
        cluster.rebuild_and_check();
        (0..5).all(|member| cluster.snapshot(member) == before[member])
    };
    fs::remove_file(data_file(0)).unwrap();
    fs::remove_file(cluster.redundancy_file(3)).unwrap();
    assert!(restored());
    // Parity alone can be lost everywhere.
    for member in [0, 1, 2, 4] {
        fs::remove_file(cluster.redundancy_file(member)).unwrap();
    }
    assert!(restored());
    for member in 0..5 {
        fs::remove_file(cluster.redundancy_file(member)).unwrap();
    }
    assert!(restored());
    // One lost everything, and everyone else a little: the parity of one, the data of another.
    cluster.lose(4);
    fs::remove_file(cluster.redundancy_file(1)).unwrap();
    assert!(restored());
    cluster.lose(4);
    fs::remove_file(cluster.redundancy_file(1)).unwrap();
    fs::remove_file(data_file(2)).unwrap();
    cluster.assert_unrecoverable();
}

#[test]
fn a_damaged_or_shortened_parity_file_counts_as_a_loss() {
    let cluster = Cluster::encoded("RS2", &mixed_sizes(5));
    let parity = cluster.redundancy_file(2);
    let (header, header_bytes) = ParityHeader::read(&parity).unwrap();
    assert_eq!((header.code, header.failures, header.partners.len()), (Code::ReedSolomon, 2, 2));
    let whole = fs::read(&parity).unwrap();
    let size = whole.len();
    assert_eq!(size as u64, header_bytes + 2 * header.chunk_bytes);
    for at in [0, 30, header_bytes as usize - 1, header_bytes as usize, size - 1] {
        flip(&parity, at);
        assert!(cluster.survivor(2).protection.is_none(), "byte {at}");
        cluster.lose(0);
        cluster.rebuild_and_check();
        assert!(fs::read(&parity).unwrap() == whole);
    }
    for length in [0, 19, header_bytes as usize, size - 1] {
        fs::write(&parity, &whole[..length]).unwrap();
        assert!(cluster.survivor(2).protection.is_none(), "{length} bytes");
        cluster.lose(3);
        cluster.rebuild_and_check();
        assert!(fs::read(&parity).unwrap() == whole);
    }
}

#[test]
fn damage_that_no_checksum_has_told_before_publishes_nothing() {
    let mut cluster = Cluster::encoded("RS2", &vec![vec![100]; 4]);
    // Bypasses `verify`: the record knows no checksum, as before a seal.
    cluster.originals[0].files[0].crc32 = None;
    flip(&cluster.dir(0).join(&cluster.originals[0].files[0].name), 50);
    cluster.lose(1);
    cluster.lose(2);
    assert!(cluster.rebuild().iter().all(Result::is_err));
    for lost in [1, 2] {
        assert!(!cluster.dir(lost).join(&cluster.originals[lost].files[0].name).exists());
    }
}

#[test]
fn parity_for_another_number_of_losses_never_combines() {
    let mut cluster = Cluster::encoded("RS2", &mixed_sizes(4));
    cluster.failures = 1;
    cluster.rebuild_and_check();
    let (header, _) = ParityHeader::read(&cluster.redundancy_file(0)).unwrap();
    assert_eq!(header.failures, 1, "all parity was made anew");
    cluster.failures = 2;
    cluster.lose(0);
    cluster.assert_unrecoverable();
}

/// World ranks 3, 5 and 7 with two losses: one chunk each, and every slot's parity is a multiple of
/// the one data chunk in it.
///
/// ```text
///             file    slot 0     slot 1     slot 2        constants: parity 0: 1
/// member 0    01 80   parity 0   data       parity 1                 parity 1:
/// member 1    02      parity 1   parity 0   data             (0+2)/(1+2) = 2/3 = 2 * f4 = f5
/// member 2    (none)  data       parity 1   parity 0
/// ```
/// 3 * f4 = f4 + (f4 << 1) = f4 + 1e8 = 11c = 1 modulo 11d. f5 * 2 = 1ea = f7 modulo 11d, and
/// f5 * 80: f5, f7, f3, fb, eb, cb, 8b, 0b by doubling seven times.
#[test]
fn chunks_worked_out_by_hand() {
    let mut cluster = Cluster::new("RS2", &[vec![], vec![], vec![]]);
    for (member, bytes) in [(0, &[1_u8, 0x80][..]), (1, &[2])] {
        fs::write(cluster.dir(member).join("f"), bytes).unwrap();
        let size = bytes.len() as u64;
        let file = scr_core::records::FileMeta { name: "f".into(), size, ..Default::default() };
        cluster.originals[member].files = vec![file];
    }
    cluster.encode();
    let chunks = |member: usize| {
        let bytes = fs::read(cluster.redundancy_file(member)).unwrap();
        bytes[bytes.len() - 4..].to_vec()
    };
    // Parity 0 of the own slot, then parity 1 of the slot before it.
    assert_eq!(chunks(0), [0x00, 0x00, 0xf7, 0x00]);
    assert_eq!(chunks(1), [0x01, 0x80, 0x00, 0x00]);
    assert_eq!(chunks(2), [0x02, 0x00, 0xf5, 0x0b]);
    let name = |member: usize| cluster.redundancy_file(member).file_name().unwrap().to_owned();
    assert_eq!([0, 1, 2].map(name), ["1_of_3_in_3.rs", "2_of_3_in_3.rs", "3_of_3_in_3.rs"]);
}

fn sizes() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let size = prop_oneof![
        2 => Just(0),
        4 => 1..300_usize,
        1 => 1_040_000..1_060_000_usize,
        1 => 0..3_000_000_usize,
    ];
    prop::collection::vec(prop::collection::vec(size, 0..=5), 2..=7)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn all_losses_up_to_the_limit_come_back(sizes in sizes(), failures in 1..5_usize) {
        let cluster = Cluster::encoded(&format!("RS{failures}"), &sizes);
        let failures = failures.min(sizes.len() - 1) as u32;
        let before: Vec<_> = (0..sizes.len()).map(|member| cluster.snapshot(member)).collect();
        let all = (1..1_u32 << sizes.len()).filter(|mask| mask.count_ones() == failures);
        // All of them for small sets; large ones would take too long.
        for mask in all.take(8) {
            members_of(mask).for_each(|member| cluster.lose(member));
            cluster.rebuild_and_check();
            for member in members_of(mask) {
                prop_assert!(cluster.snapshot(member) == before[member]);
            }
        }
        (0..=failures as usize).for_each(|member| cluster.lose(member));
        cluster.assert_unrecoverable();
    }
}
