//! Large files that are made with the pages that others had which have left the cache.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;

use super::cluster::{Cluster, Rank};
use super::scene::{assert_same_files, below, place, tree, wait_for};

const HOSTS: &str = "aabb";
const STEPS: u64 = 10;
const MIB: usize = 1 << 20;

/// A file of the rank, or its piece of one of all ranks. They are longer and shorter by turns.
fn bytes(step: u64, rank: usize) -> Vec<u8> {
    let length = 9 * MIB - 4096 * (step % 3) as usize;
    format!("step {step} rank {rank} ").bytes().cycle().take(length).collect()
}

fn begin(rank: &Rank, step: u64) {
    if rank.rank == 0 {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
    }
    rank.barrier();
}

fn write_own(rank: &Rank, step: u64) {
    begin(rank, step);
    let name = format!("ckpt/step_{step}/rank_{}.dat", rank.rank);
    rank.files.write_file(&name, &bytes(step, rank.rank)).unwrap();
    rank.calm();
}

/// Not all of it is written: there is a hole behind each piece.
fn write_together(rank: &Rank, step: u64) {
    begin(rank, step);
    let name = format!("ckpt/step_{step}/rank_9.dat");
    if rank.rank == 0 {
        rank.files.open(&name, libc::O_RDWR | libc::O_CREAT).unwrap().close().unwrap();
    }
    rank.barrier();
    let file = rank.files.open(&name, libc::O_RDWR).unwrap();
    file.write_at(&bytes(step, rank.rank), (rank.rank * 10 * MIB) as u64).unwrap();
    file.close().unwrap();
    rank.calm();
}

/// Threads do that while a processor is idle.
fn is_being_emptied(cluster: &Cluster) -> bool {
    let nodes = ['a', 'b'].map(|host| below(&cluster.node(host)));
    nodes.concat().iter().any(|path| path.to_string_lossy().contains("scr.blank/used."))
}

/// How many files were made of one that had been another before, in the caches of all nodes.
fn made_again(cluster: &Cluster, write: fn(&Rank, u64)) -> usize {
    let got = cluster.run(HOSTS, |rank| {
        let (mut seen, mut again) = (BTreeSet::<u64>::new(), 0);
        let mut newest = BTreeSet::<u64>::new();
        for step in 1..=STEPS {
            write(rank, step);
            rank.barrier();
            wait_for(|| !is_being_emptied(cluster));
            rank.barrier();
            let inode = |path: std::path::PathBuf| path.metadata().ok().map(|found| found.ino());
            let here = cluster.files_in_cache(HOSTS).into_iter();
            let here = here.filter(|path| path.to_string_lossy().contains(&format!("p_{step}/")));
            let now: BTreeSet<u64> = here.filter_map(inode).collect();
            again += now.difference(&newest).filter(|inode| seen.contains(inode)).count();
            seen.extend(&now);
            newest = now;
            rank.barrier();
        }
        rank.finish();
        again
    });
    assert!(got.told.is_empty(), "{:?}", got.told);
    *got.first()
}

#[test]
fn large_files_get_the_pages_of_those_that_have_left_the_cache() {
    for write in [write_own, write_together] as [fn(&Rank, u64); 2] {
        let plain = place(&[]);
        plain.run_plain(HOSTS, |rank| (1..=STEPS).for_each(|step| write(rank, step)));
        let common = ["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_FLUSH=1", "SCR_CACHE_SIZE=1"];
        let cluster = place(&common);
        assert!(made_again(&cluster, write) >= 4);
        assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &[]);
        let off = [&common[..], &["SCR_CACHE_REUSE=0"]].concat();
        let cluster = place(&off);
        assert_eq!(made_again(&cluster, write), 0);
    }
}
