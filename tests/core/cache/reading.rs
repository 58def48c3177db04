//! How often a restart reads what is in the cache: not at all if nobody has touched it and there is
//! nothing to rebuild, else once; and what follows from damage that no time tells of.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use scr_core::cache::{self, Ctx, Recheck};

use super::cluster::{Cluster, IDENTITY, offered_ids};
use super::job::{Dataset, restart, run};

/// Large enough that records do not count.
const BYTES: usize = 4 << 20;

fn dataset(scheme: (&'static str, usize)) -> Dataset {
    let sizes = vec![vec![BYTES / 4, BYTES - BYTES / 4]; 4];
    Dataset { id: 1, scheme, set_size: 4, group: "NODE", store: "ram", sizes }
}

/// Bytes that this thread has read from files.
pub fn read_bytes() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

/// Bytes of the files of the dataset on a node.
fn bytes_on(cluster: &Cluster, host: &str) -> u64 {
    let dir = cluster.layout(host).dataset_dir("ram", 1);
    let files = super::flush::files_below(&dir).into_iter();
    files.map(|path| fs::metadata(path).unwrap().len()).sum()
}

/// The large redundancy files of the dataset on a node.
fn redundancy_on(cluster: &Cluster, host: &str) -> Vec<PathBuf> {
    let dir = cluster.layout(host).dataset_dir("ram", 1).join(".scr");
    let files = super::flush::files_below(&dir).into_iter();
    files.filter(|path| fs::metadata(path).unwrap().len() >= 1 << 20).collect()
}

/// The program's files of the dataset on a node.
fn program_files_on(cluster: &Cluster, host: &str) -> Vec<PathBuf> {
    let dir = cluster.layout(host).dataset_dir("ram", 1);
    let files = super::flush::files_below(&dir).into_iter();
    files.filter(|path| !path.starts_with(dir.join(".scr"))).collect()
}

/// What each rank reads in a restart, in bytes.
fn read_by_restart(cluster: &Cluster, hosts: &str) -> Vec<u64> {
    let outcome = cluster.launch(hosts).run(|ctx| {
        let before = read_bytes();
        let report = cache::rebuild(ctx, IDENTITY).unwrap();
        assert_eq!(offered_ids(&report), [1], "{report:?}");
        read_bytes() - before
    });
    outcome.results.into_iter().map(Option::unwrap).collect()
}

/// About as much: records are read, too.
fn is_about(read: u64, bytes: u64) -> bool {
    read > bytes - bytes / 10 && read < bytes + bytes / 10
}

#[test]
fn redundancy_is_read_only_if_somebody_has_touched_it() {
    for scheme in [("PARTNER", 1), ("XOR", 1), ("RS", 2)] {
        let cluster = Cluster::new();
        run(&cluster, "abcd", &[dataset(scheme)]);
        let own = BYTES as u64;
        let read = read_by_restart(&cluster, "abcd");
        assert!(read.iter().all(|read| *read < own / 10), "{scheme:?}: {read:?}");
        // What a start has offered unread and nobody has compared since, the next one reads.
        let read = read_by_restart(&cluster, "abcd");
        assert!(read.iter().all(|read| is_about(*read, own)), "{scheme:?}: {read:?}");

        // Nothing changes but the times.
        let (mut touched, mut bytes) = (redundancy_on(&cluster, "c"), own);
        for path in &touched {
            fs::write(path, fs::read(path).unwrap()).unwrap();
            bytes += fs::metadata(path).unwrap().len();
        }
        let read = read_by_restart(&cluster, "abcd");
        assert!(is_about(read[2], bytes) && is_about(read[3], own), "{scheme:?}: {read:?}");

        // What is damaged is made anew, so that it protects.
        flip(&touched.remove(0));
        read_by_restart(&cluster, "abcd");
        cluster.lose("b");
        assert_eq!(offered_ids(&restart(&cluster, "aecd", &[dataset(scheme)])), [1], "{scheme:?}");
    }
}

/// Damage that no time tells of, as if below the file system: of what rank 2 keeps.
fn damage_unseen(ctx: &Ctx, cluster: &Cluster, files: &[PathBuf]) {
    let mut record = ctx.filemap.get_id(1).unwrap();
    let dir = cluster.layout("c").dataset_dir("ram", 1);
    for path in files {
        flip(path);
        let found = fs::metadata(path).unwrap();
        let identity = format!(
            "{} {} {}.{:09} {}.{:09}",
            found.ino(),
            found.len(),
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec()
        );
        let name = path.strip_prefix(&dir).unwrap().to_str().unwrap();
        record.descriptor.path_mut(&["UNTOUCHED", "FILE"]).set_value(name, identity);
    }
    ctx.filemap.record_prepared(record).unwrap();
}

pub fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn unseen_damage_of_redundancy_is_found_before_it_serves() {
    // Of two copies the farther one is right; of anything else there is not enough left.
    for (scheme, expected) in [(("PARTNER", 2), &[1][..]), (("XOR", 1), &[]), (("PARTNER", 1), &[])]
    {
        let cluster = Cluster::new();
        run(&cluster, "abcd", &[dataset(scheme)]);
        let outcome = cluster.launch("abcd").run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            if ctx.world.rank() == 2 {
                damage_unseen(ctx, &cluster, &redundancy_on(&cluster, "c"));
            }
        });
        assert!(outcome.results.iter().all(Option::is_some));
        let read = read_by_restart(&cluster, "abcd");
        assert!(is_about(read[2], BYTES as u64), "{scheme:?}: it was seen, {read:?}");
        cluster.lose("b");
        // Compares what is offered with what was written.
        let report = restart(&cluster, "aecd", &[dataset(scheme)]);
        assert_eq!(offered_ids(&report), expected, "{scheme:?}: {report:?}");
    }
}

/// Does what the helper thread does after a start; gives what it finds damaged.
fn compare_all(ctx: &Ctx) -> Vec<PathBuf> {
    let mut work = Recheck::of(ctx);
    let mut damaged = Vec::new();
    while !work.is_over() {
        damaged.extend(work.step(ctx.filemap).unwrap().map(|found| found.path));
    }
    damaged
}

#[test]
fn what_a_start_offers_unread_is_compared_while_the_program_runs() {
    let scheme = ("XOR", 1);
    let cluster = Cluster::new();
    run(&cluster, "abcd", &[dataset(scheme)]);
    let own = BYTES as u64;
    for _ in 0..2 {
        let outcome = cluster.launch("abcd").run(|ctx| {
            let before = read_bytes();
            cache::rebuild(ctx, IDENTITY).unwrap();
            let at_start = read_bytes();
            let damaged = compare_all(ctx);
            (at_start - before, read_bytes() - at_start, damaged)
        });
        for (at_start, after, damaged) in outcome.results.into_iter().map(Option::unwrap) {
            assert!(at_start < own / 10 && is_about(after, own), "{at_start} {after}");
            assert!(damaged.is_empty(), "{damaged:?}");
        }
    }

    let first = program_files_on(&cluster, "c")[..1].to_vec();
    cluster.launch("abcd").run(|ctx| {
        cache::rebuild(ctx, IDENTITY).unwrap();
        compare_all(ctx);
        if ctx.world.rank() == 2 {
            damage_unseen(ctx, &cluster, &first);
        }
    });
    let outcome = cluster.launch("abcd").run(|ctx| {
        let report = cache::rebuild(ctx, IDENTITY).unwrap();
        (offered_ids(&report), report.offered[0].rebuilt.clone(), compare_all(ctx))
    });
    for (rank, found) in outcome.results.into_iter().map(Option::unwrap).enumerate() {
        let damaged = if rank == 2 { first.clone() } else { Vec::new() };
        assert_eq!(found, (vec![1], vec![], damaged), "rank {rank}");
    }
    // Compares what is offered with what was written.
    let report = restart(&cluster, "abcd", &[dataset(scheme)]);
    assert_eq!(report.offered[0].rebuilt, [2], "{report:?}");
}

#[test]
fn a_rebuild_finds_unseen_damage_of_what_serves_it() {
    // Of two losses. The node "d" has had copies of what is damaged, and gets new ones.
    for (scheme, lost, expected) in [
        (("PARTNER", 2), "d", &[1][..]),
        (("PARTNER", 1), "d", &[]),
        (("RS", 2), "b", &[1]),
        (("XOR", 1), "b", &[]),
    ] {
        let cluster = Cluster::new();
        run(&cluster, "abcd", &[dataset(scheme)]);
        let own = program_files_on(&cluster, "c");
        cluster.launch("abcd").run(|ctx| {
            cache::rebuild(ctx, IDENTITY).unwrap();
            compare_all(ctx);
            if ctx.world.rank() == 2 {
                damage_unseen(ctx, &cluster, &own);
            }
        });
        cluster.lose(lost);
        // Compares what is offered with what was written.
        let report = restart(&cluster, &"abcd".replace(lost, "e"), &[dataset(scheme)]);
        assert_eq!(offered_ids(&report), expected, "{scheme:?}: {report:?}");
    }
}

#[test]
fn a_restart_that_rebuilds_reads_every_file_once() {
    for scheme in [("PARTNER", 1), ("XOR", 1), ("RS", 2)] {
        for lost in ["b", "a"] {
            let cluster = Cluster::new();
            run(&cluster, "abcd", &[dataset(scheme)]);
            let hosts = "abcd".replace(lost, "e");
            cluster.lose(lost);
            let outcome = cluster.launch(&hosts).run(|ctx| {
                let before = read_bytes();
                let report = cache::rebuild(ctx, IDENTITY).unwrap();
                assert_eq!(offered_ids(&report), [1], "{report:?}");
                assert_eq!(report.offered[0].rebuilt.len(), lost.len());
                read_bytes() - before
            });
            for (host, read) in hosts.chars().map(String::from).zip(outcome.results) {
                let (read, there) = (read.unwrap(), bytes_on(&cluster, &host));
                // A copy of what is lost has one neighbour; of the other one it has had a copy.
                let serves = (lost == "b") == matches!(host.as_str(), "a" | "c");
                let expected = match (scheme.0, host.as_str()) {
                    (_, "e") => 0,
                    ("PARTNER", _) => {
                        if serves {
                            BYTES as u64
                        } else {
                            0
                        }
                    }
                    _ => there,
                };
                let case = format!("{scheme:?}, lost {lost:?}: {host} read {read} of {there}");
                assert!(read.abs_diff(expected) < there / 10, "{case}");
            }
        }
    }
}
