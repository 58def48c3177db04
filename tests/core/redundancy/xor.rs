//! XOR: what may be lost, what may not, and what damage looks like.

use std::fs;

use scr_core::comm::threads::run;
use scr_core::error::Error;
use scr_core::redundancy::ParityHeader;

use super::{Cluster, flip, mixed_sizes};

#[test]
fn every_single_member_comes_back() {
    for members in 2..=9 {
        let cluster = Cluster::encoded("XOR", &mixed_sizes(members));
        for lost in 0..members {
            let before = cluster.snapshot(lost);
            cluster.lose(lost);
            cluster.rebuild_and_check();
            // Byte for byte, the XOR file included.
            assert!(cluster.snapshot(lost) == before, "member {lost} of {members}");
        }
    }
}

#[test]
fn no_pair_comes_back() {
    for members in 2..=9 {
        for first in 0..members {
            // A pair is lost for good, so each needs a cluster of its own; small ones will do.
            for second in first + 1..members {
                let cluster = Cluster::encoded("XOR", &vec![vec![8]; members]);
                cluster.lose(first);
                cluster.lose(second);
                cluster.assert_unrecoverable();
            }
        }
    }
}

#[test]
fn several_pieces_a_chunk() {
    let cluster = Cluster::encoded("XOR", &[vec![700_001], vec![300_000, 5, 400_000], vec![9]]);
    for lost in 0..3 {
        cluster.lose(lost);
        cluster.rebuild_and_check();
    }
}

#[test]
fn the_file_has_the_documents_name_and_header() {
    let cluster = Cluster::encoded("XOR", &mixed_sizes(4));
    let path = cluster.redundancy_file(2);
    assert_eq!(path, cluster.dir(2).join(".scr/3_of_4_in_3.xor"));
    let (header, _) = ParityHeader::read(&path).unwrap();
    assert_eq!(header.group, [3, 5, 7, 9]);
    // The largest member has 1005 bytes, and the others are three.
    assert_eq!(header.chunk_bytes, 335);
    assert_eq!((header.current.world_rank, header.partners[0].world_rank), (7, 5));
    assert_eq!(header.current.files, cluster.originals[2].files);
    assert_eq!(header.partners[0].record, cluster.originals[1].record);
    assert_eq!(header.partners[0].host, "host5");
}

#[test]
fn a_lost_data_file_or_a_lost_xor_file_alone() {
    let cluster = Cluster::encoded("XOR", &mixed_sizes(5));
    let data_file = cluster.dir(0).join(&cluster.originals[0].files[2].name);
    fs::remove_file(&data_file).unwrap();
    cluster.rebuild_and_check();
    fs::remove_file(cluster.redundancy_file(3)).unwrap();
    cluster.rebuild_and_check();
    // Only XOR files are lost, and all of them: the data are there to compute them anew.
    let before = cluster.snapshot(1);
    for member in 0..5 {
        fs::remove_file(cluster.redundancy_file(member)).unwrap();
    }
    cluster.rebuild_and_check();
    assert!(cluster.snapshot(1) == before);
    // The files of one and the XOR file of another are too much.
    fs::remove_file(&data_file).unwrap();
    fs::remove_file(cluster.redundancy_file(3)).unwrap();
    cluster.assert_unrecoverable();
}

#[test]
fn missing_xor_files_are_recomputed_without_touching_the_others() {
    let cluster = Cluster::encoded("XOR", &mixed_sizes(3));
    let inode = |member| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(cluster.redundancy_file(member)).unwrap().ino()
    };
    let before = inode(0);
    fs::remove_file(cluster.redundancy_file(1)).unwrap();
    cluster.rebuild_and_check();
    assert_eq!(inode(0), before);
}

#[test]
fn a_flipped_bit_anywhere_counts_as_a_loss() {
    let cluster = Cluster::encoded("XOR", &mixed_sizes(3));
    flip(&cluster.dir(0).join(&cluster.originals[0].files[2].name), 999);
    assert!(cluster.survivor(0).data.is_none());
    cluster.rebuild_and_check();
    let parity = cluster.redundancy_file(2);
    let (_, header_bytes) = ParityHeader::read(&parity).unwrap();
    for at in [0, 40, header_bytes as usize - 1, header_bytes as usize + 7] {
        flip(&parity, at);
        assert!(cluster.survivor(2).protection.is_none(), "byte {at}");
        cluster.rebuild_and_check();
    }
}

#[test]
fn damage_that_nobody_has_seen_before_ends_the_rebuild_and_publishes_nothing() {
    for lost in [1, 2] {
        let cluster = Cluster::encoded("XOR", &[vec![100], vec![100], vec![100]]);
        let survivor = 0;
        // Bypasses `verify`: the record knows no checksum, as before a seal.
        let file = cluster.dir(survivor).join(&cluster.originals[survivor].files[0].name);
        let mut cluster = cluster;
        cluster.originals[survivor].files[0].crc32 = None;
        flip(&file, 50);
        cluster.lose(lost);
        assert!(cluster.rebuild().iter().all(Result::is_err));
        let restored = cluster.dir(lost).join(&cluster.originals[lost].files[0].name);
        assert!(!restored.exists());
    }
}

#[test]
fn parts_of_another_seal_count_as_lost() {
    let mut cluster = Cluster::encoded("XOR", &mixed_sizes(4));
    let kept = cluster.originals.clone();
    cluster.originals[1].epoch = 1;
    let rebuilt = cluster.rebuild();
    cluster.originals = kept;
    assert_eq!(rebuilt[1].as_ref().unwrap().0, cluster.originals[1]);
    cluster.check_files(1);
    cluster.originals[1].epoch = 1;
    cluster.originals[2].epoch = 1;
    cluster.assert_unrecoverable();
}

#[test]
fn an_xor_file_of_another_seal_never_combines() {
    let mut cluster = Cluster::new("XOR", &mixed_sizes(3));
    let set_epoch = |cluster: &mut Cluster, epoch| {
        cluster.originals.iter_mut().for_each(|data| data.epoch = epoch);
    };
    set_epoch(&mut cluster, 0xbeef);
    cluster.encode();
    // Names, sizes and contents are the same in both seals.
    set_epoch(&mut cluster, 0xfeed);
    cluster.lose(1);
    cluster.assert_unrecoverable();
}

#[test]
fn xor_files_that_do_not_fit_together_are_recomputed_or_refused() {
    let other = Cluster::encoded("XOR", &[vec![10], vec![20], vec![500]]);
    let cluster = Cluster::encoded("XOR", &[vec![10], vec![20], vec![30]]);
    let mix = || {
        // Member 0 has the same files in both, so its file of the other set fits it.
        fs::copy(other.redundancy_file(0), cluster.redundancy_file(0)).unwrap();
        let protection = other.protections.lock().unwrap()[0].clone();
        cluster.protections.lock().unwrap()[0] = protection;
    };
    let before = cluster.snapshot(0);
    mix();
    cluster.rebuild_and_check();
    assert!(cluster.snapshot(0) == before);
    mix();
    cluster.lose(1);
    cluster.assert_unrecoverable();
}

#[test]
fn files_on_the_prefix_are_recorded_and_left_alone() {
    let mut cluster = Cluster::new("XOR", &mixed_sizes(3));
    for data in &mut cluster.originals {
        let mut file = data.files.first().cloned().unwrap_or_default();
        file.name = "big/on_the_pfs".into();
        file.size = 1 << 40;
        file.on_prefix = true;
        data.files.insert(0, file);
    }
    cluster.encode();
    cluster.lose(2);
    for (member, rebuilt) in cluster.rebuild().into_iter().enumerate() {
        assert_eq!(rebuilt.unwrap().0, cluster.originals[member]);
    }
    assert_eq!(cluster.files_below(2), [".scr/3_of_3_in_3.xor", "step/r2/f0"]);
}

#[test]
fn a_file_that_changes_while_it_is_protected_is_an_error() {
    for wrong_size in [true, false] {
        let mut cluster = Cluster::new("XOR", &[vec![10], vec![10], vec![10]]);
        if wrong_size {
            cluster.originals[1].files[0].size = 11;
        } else {
            cluster.originals[1].files[0].crc32 = Some(1);
        }
        let outcome = cluster.encode_on(scr_core::comm::threads::ThreadWorld::new(3));
        let results: Vec<_> = outcome.results.into_iter().map(Option::unwrap).collect();
        let error = |member: usize| results[member].as_ref().unwrap_err().to_string();
        assert!(error(1).contains("step/r1/f0"), "{}", error(1));
        assert!(!cluster.dir(1).join(".scr/2_of_3_in_3.xor").exists());
        // What is known before the exchange is known to all; the rest is told by the seal's vote.
        if wrong_size {
            assert!(error(0).starts_with("rank 5: ") && error(0).contains("f0"), "{}", error(0));
        } else {
            assert!(results[0].is_ok() && results[2].is_ok());
        }
    }
}

#[test]
fn a_member_without_data_is_not_waited_for() {
    for scheme in ["PARTNER", "XOR", "RS2"] {
        let cluster = Cluster::new(scheme, &[vec![10], vec![10], vec![10]]);
        let results = scr_core::comm::threads::run(3, |comm| {
            let data = match comm.rank() {
                1 => Err(scr_core::error::Error::Missing("no file".into())),
                rank => Ok(cluster.originals[rank].clone()),
            };
            cluster.scheme.encode(&cluster.set(comm), data).unwrap_err().to_string()
        });
        assert_eq!(results, ["rank 5: no file", "no file", "rank 5: no file"], "{scheme}");
    }
}

#[test]
fn a_set_of_one_has_no_protection() {
    for scheme in ["SINGLE", "PARTNER", "XOR", "RS2"] {
        let cluster = Cluster::encoded(scheme, &[vec![10, 20]]);
        assert_eq!(cluster.survivor(0).protection.unwrap().files, []);
        cluster.rebuild_and_check();
        cluster.lose(0);
        cluster.assert_unrecoverable();
    }
    let cluster = Cluster::encoded("SINGLE", &mixed_sizes(3));
    cluster.rebuild_and_check();
    cluster.lose(0);
    cluster.assert_unrecoverable();
}

#[test]
fn members_that_look_for_different_seals_refuse_together() {
    for scheme in ["PARTNER", "XOR", "RS2"] {
        let cluster = Cluster::encoded(scheme, &mixed_sizes(3));
        let errors = run(3, |comm| {
            let mut own = cluster.survivor(comm.rank());
            own.epoch += comm.rank() as u64 / 2;
            cluster.scheme.rebuild(&cluster.set(comm), &own).unwrap_err()
        });
        assert!(errors.iter().all(|error| matches!(error, Error::Unrecoverable(_))));
    }
}
