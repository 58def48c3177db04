//! Checksums that are taken while the program writes; all other files are read after the seal.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use scr_core::cache::Catalog;
use scr_core::files::crc32;

use super::cluster::{Cluster, Rank};
use super::scene::place;

const NAME: &str = "ckpt/step_1/rank_0.dat";
const CREATE: i32 = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;

/// Changes the first byte of the file, and puts its time back: only who reads it can know.
fn damage(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(b"!", 0).unwrap();
    file.set_modified(before).unwrap();
}

/// The checksum that the checkpoint of rank 0 is sealed with, if the file is changed before.
fn sealed(hosts: &str, write: impl Fn(&Cluster, &Rank) + Sync) -> Option<u32> {
    let cluster = place(&["SCR_FLUSH=0", "SCR_CRC_ON_FLUSH=0"]);
    let found = cluster.run(hosts, |rank| {
        ["ckpt", "ckpt/step_1"].iter().for_each(|dir| rank.files.make_dir(dir).unwrap());
        rank.barrier();
        write(&cluster, rank);
        let all = cluster.files_in_cache(hosts);
        let path = all.iter().find(|path| path.ends_with(NAME)).unwrap();
        if rank.rank == 0 {
            damage(path);
        }
        rank.calm();
        let found = cluster.cached(&hosts[..1]).into_iter();
        let catalog = found.filter_map(|dir| Catalog::read(&dir).unwrap()).next().unwrap();
        rank.barrier();
        catalog.entries.iter().find(|one| one.meta.name == NAME).unwrap().meta.crc32
    });
    *found.first()
}

#[test]
fn what_was_seen_in_order_has_its_checksum_and_all_else_has_none_yet() {
    let bytes = vec![7; 9_000_000];
    let seen = Some(crc32(&bytes));
    let in_order = |_: &Cluster, rank: &Rank| rank.files.write_file(NAME, &bytes).unwrap();
    assert_eq!(sealed("a", in_order), seen);
    let renamed = |_: &Cluster, rank: &Rank| {
        rank.files.write_file("ckpt/step_1/rank_5.dat", &bytes).unwrap();
        rank.files.rename("ckpt/step_1/rank_5.dat", NAME).unwrap();
    };
    assert_eq!(sealed("a", renamed), seen);
    let elsewhere = |_: &Cluster, rank: &Rank| {
        let file = rank.files.open(NAME, CREATE).unwrap();
        file.write_at(&bytes, 0).unwrap();
        file.close().unwrap();
    };
    assert_eq!(sealed("a", elsewhere), None);
    let again = |_: &Cluster, rank: &Rank| {
        rank.files.write_file(NAME, &bytes).unwrap();
        rank.files.append(NAME, "").unwrap();
    };
    assert_eq!(sealed("a", again), None, "it was open again");
    let touched = |cluster: &Cluster, rank: &Rank| {
        rank.files.write_file(NAME, &bytes).unwrap();
        let path = &cluster.files_in_cache("a")[0];
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(fs::metadata("/").unwrap().modified().unwrap()).unwrap();
    };
    assert_eq!(sealed("a", touched), None, "its time has changed");
}

#[test]
fn what_another_rank_of_the_node_writes_too_has_none_yet() {
    let bytes = vec![7; 9_000_000];
    let both = |_: &Cluster, rank: &Rank| match rank.rank {
        0 => {
            let file = rank.files.open(NAME, CREATE).unwrap();
            file.write(&bytes).unwrap();
            rank.send(1);
            rank.receive(1);
            file.close().unwrap();
        }
        _ => {
            rank.receive(0);
            let other = rank.files.open(NAME, libc::O_WRONLY).unwrap();
            other.write_at(&bytes[..1], 0).unwrap();
            other.close().unwrap();
            rank.send(0);
        }
    };
    assert_eq!(sealed("aa", both), None);
}
