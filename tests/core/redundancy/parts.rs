//! Parts of files that several nodes have written: each scheme, each loss, whether the bytes lie
//! in the file that the node's ranks have written or in one of their own.

use std::fs;

use fastrand::Rng;
use scr_core::files::crc32;
use scr_core::parts::{Extent, Extents};
use scr_core::records::{FileContent, FileMeta, FilePart};

use super::{Cluster, content, mixed_sizes};

const WHOLE: &str = "step/all";

/// A cluster whose members have written one file together, beside files of their own; `live` tells
/// how the part of a member lies.
fn cluster(scheme: &str, members: usize, seed: u64, live: impl Fn(usize) -> bool) -> Cluster {
    let mut cluster = Cluster::new(scheme, &mixed_sizes(members));
    let mut rng = Rng::with_seed(seed);
    let whole = content(99, 0, rng.usize(1..9000));
    let mut pieces = vec![Vec::new(); members];
    let mut at = 0;
    while at < whole.len() {
        let end = (at + rng.usize(1..900)).min(whole.len());
        pieces[rng.usize(0..members)].push(Extent::new(at as u64, end as u64));
        at = end;
    }
    for (member, pieces) in pieces.into_iter().enumerate() {
        let dir = cluster.dir(member);
        let extents: Extents = pieces.into_iter().collect();
        let bytes = packed(&whole, &extents);
        let name = FilePart::file_name(member, WHOLE);
        let path = dir.join(if live(member) { WHOLE } else { &name });
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if live(member) {
            // What lies between is another's, and need not be right.
            let mut there = vec![7; whole.len()];
            for one in extents.iter() {
                let range = one.begin as usize..one.end as usize;
                there[range.clone()].copy_from_slice(&whole[range]);
            }
            fs::write(path, there).unwrap();
        } else {
            fs::write(path, &bytes).unwrap();
        }
        let (of, size) = (WHOLE.to_string(), whole.len() as u64);
        let part = FilePart { of, extents, whole: size, share: None, live: live(member) };
        let meta = FileMeta {
            name,
            size: bytes.len() as u64,
            crc32: Some(crc32(&bytes)),
            mode: 0o644,
            part: Some(part.into()),
            ..FileMeta::default()
        };
        let files = &mut cluster.originals[member].files;
        files.insert(rng.usize(0..=files.len()), meta);
    }
    cluster
}

fn packed(whole: &[u8], extents: &Extents) -> Vec<u8> {
    extents.iter().flat_map(|one| whole[one.begin as usize..one.end as usize].to_vec()).collect()
}

/// Rebuilds; who has lost nothing has what it had, and who has lost its node has its part as a
/// file.
fn rebuild_and_check(cluster: &Cluster, is_lost: impl Fn(usize) -> bool) {
    for (member, rebuilt) in cluster.rebuild().into_iter().enumerate() {
        let (data, _) = rebuilt.unwrap_or_else(|error| panic!("{member}: {error}"));
        let had = &cluster.originals[member].files;
        let copies: Vec<FileMeta> = had.iter().map(FileMeta::as_copy).collect();
        assert_eq!(data.files, if is_lost(member) { &copies } else { had }.as_slice());
        for file in &data.files {
            let content = FileContent::of(&cluster.dir(member), file).unwrap();
            assert_eq!(content.crc32().unwrap(), file.crc32.unwrap(), "{member}: {}", file.name);
        }
    }
}

#[test]
fn a_lost_node_gets_its_part_back_as_a_file_of_its_own() {
    let mut seed = 0;
    for (scheme, members, losses) in
        [("PARTNER", 3, 1), ("XOR", 3, 1), ("XOR", 4, 1), ("RS2", 4, 2), ("RS3", 5, 3)]
    {
        for lost in 0..1_u32 << members {
            if lost.count_ones() > losses {
                continue;
            }
            seed += 1;
            let mut cluster =
                cluster(scheme, members, seed, |member| (seed >> (member % 3)) % 2 == 0);
            cluster.encode();
            let is_lost = |member: usize| lost >> member & 1 == 1;
            (0..members).filter(|&one| is_lost(one)).for_each(|member| cluster.lose(member));
            rebuild_and_check(&cluster, is_lost);
        }
    }
}

#[test]
fn one_changed_byte_of_a_part_is_a_loss_and_one_of_others_is_none() {
    for live in [true, false] {
        let mut cluster = cluster("XOR", 3, 7, |_| live);
        cluster.encode();
        let files = &cluster.originals[1].files;
        let part = files.iter().find_map(|file| file.part.as_deref()).unwrap();
        let first = part.extents.iter().next().unwrap();
        let (name, at) = match live {
            true => (WHOLE.to_string(), first.begin as usize),
            false => (FilePart::file_name(1, WHOLE), 0),
        };
        if live {
            let others = (0..part.whole).find(|at| !part.extents.cover(Extent::new(*at, at + 1)));
            super::flip(&cluster.dir(1).join(&name), others.unwrap() as usize);
            rebuild_and_check(&cluster, |_| false);
        }
        super::flip(&cluster.dir(1).join(&name), at);
        rebuild_and_check(&cluster, |member| member == 1);
    }
}
