//! Directories that a person has copied from the nodes of a run: what they hold comes to the
//! prefix, rebuilt, and they stay as they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use scr_core::cache;
use scr_core::error::{Error, Result};
use scr_core::transfer::{
    OtherSize, Which, gather_found, list_prefix, look_below, publish_remains,
};

use super::cluster::{Cluster, check_files};
use super::job::Dataset;

pub fn identity(ranks: usize) -> String {
    format!("/p | {ranks} | ckpt=a/{{id}} | b")
}

pub fn dataset(id: u64, scheme: (&'static str, usize), ranks: usize) -> Dataset {
    // Rank 1 has no file, rank 0 an empty one.
    let sizes = (0..ranks).map(|rank| match rank {
        1 => vec![],
        _ => vec![1000 * rank, 3000 + rank],
    });
    let sizes = sizes.collect();
    Dataset { id, scheme, set_size: 3, group: "NODE", store: "ram", sizes }
}

pub fn run(cluster: &Cluster, placement: &str, datasets: &[Dataset]) {
    cluster.launch(placement).run(|ctx| {
        cache::rebuild(ctx, &identity(placement.len())).unwrap();
        datasets.iter().for_each(|dataset| dataset.write(ctx).unwrap());
    });
}

/// Publishes what is below `dirs` by a process on a node that was not of the run.
pub fn publish(cluster: &Cluster, dirs: &[PathBuf], which: Which) -> Result<Option<OtherSize>> {
    let folder = cluster.prefix().join(".scr/rebuild");
    let outcome = cluster.launch("z").run(|ctx| {
        gather_found(look_below(dirs, ctx.prefix)?, &folder, ctx.prefix)?;
        publish_remains(ctx, &folder, which, &|| {})
    });
    fs::remove_dir_all(folder).unwrap();
    outcome.results.into_iter().flatten().next().unwrap()
}

/// All files below a directory, with their content.
pub fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(tree(&path)),
            false => drop(files.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    files
}

/// Copies a directory as `cp -a` does, with times.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let status = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success());
}

/// How a person copies what nodes have: whole nodes, their datasets alone, all into one directory.
fn copies(cluster: &Cluster, hosts: &str, how: &str) -> PathBuf {
    let rescue = cluster.prefix().with_file_name(how);
    for host in hosts.chars().map(String::from) {
        match how {
            "whole" => copy(&cluster.node(&host), &rescue.join("deep").join(&host)),
            "datasets" => copy(&cluster.node(&host).join("ram"), &rescue.join(&host)),
            _ => copy(&cluster.node(&host).join("ram/scr.dataset.1"), &rescue.join("of any name")),
        }
    }
    rescue
}

#[test]
fn each_way_to_copy_nodes_gives_all_files_back() {
    for scheme in [("XOR", 1), ("PARTNER", 1), ("RS", 2), ("PARTNER", 2)] {
        for how in ["whole", "datasets", "merged"] {
            let cluster = Cluster::new();
            let one = dataset(1, scheme, 6);
            run(&cluster, "aabbcc", std::slice::from_ref(&one));
            let rescue = copies(&cluster, "ac", how);
            let before = tree(&rescue);
            let done =
                publish(&cluster, std::slice::from_ref(&rescue), Which::All).unwrap().unwrap();
            assert_eq!(done.withheld, [], "{scheme:?} {how}");
            assert_eq!((done.ranks, done.published.len()), (6, 1), "{scheme:?} {how}");
            (0..6).for_each(|rank| check_files(&cluster.prefix(), &one.content(rank)));
            assert!(tree(&rescue) == before, "{scheme:?} {how}");
            assert!(list_prefix(&cluster.prefix()).unwrap()[0].restorable);
        }
    }
}

#[test]
fn too_much_lost_or_damaged_is_told_and_no_file_comes() {
    for how in ["whole", "datasets", "merged"] {
        let cluster = Cluster::new();
        let one = dataset(1, ("XOR", 1), 6);
        run(&cluster, "aabbcc", std::slice::from_ref(&one));
        // A node is lost, and a file of each rank of another one has another content.
        let data = cluster.node("c").join("ram/scr.dataset.1/ckpt/1/part_0");
        for rank in [4, 5] {
            fs::write(data.join(format!("rank_{rank}")), vec![9; 1000 * rank]).unwrap();
        }
        let rescue = copies(&cluster, "ac", how);
        let done = publish(&cluster, &[rescue], Which::All).unwrap().unwrap();
        assert_eq!((done.published.len(), done.withheld.len()), (0, 1), "{how}: {done:?}");
        let listed = list_prefix(&cluster.prefix()).unwrap();
        assert!(listed.len() == 1 && !listed[0].restorable, "{how}");
        assert!(!cluster.prefix().join("ckpt").exists(), "{how}");
    }
}

#[test]
fn damage_that_the_scheme_bears_is_repaired_and_the_damaged_file_stays() {
    let cluster = Cluster::new();
    let one = dataset(1, ("XOR", 1), 6);
    run(&cluster, "aabbcc", std::slice::from_ref(&one));
    let rescue = copies(&cluster, "abc", "datasets");
    let damaged = rescue.join("c/scr.dataset.1/ckpt/1/part_1/rank_5");
    fs::write(&damaged, vec![9; 3005]).unwrap();
    // A parity file, too, of another set.
    fs::write(rescue.join("a/scr.dataset.1/.scr/1_of_3_in_0.xor"), "").unwrap();
    let done = publish(&cluster, &[rescue], Which::All).unwrap().unwrap();
    assert_eq!((done.published.len(), done.withheld.len()), (1, 0), "{done:?}");
    (0..6).for_each(|rank| check_files(&cluster.prefix(), &one.content(rank)));
    assert_eq!(fs::read(damaged).unwrap(), vec![9; 3005]);
}

#[test]
fn of_several_datasets_all_come_or_the_one_that_is_asked_for() {
    for (which, ids) in
        [(Which::All, vec![1, 2]), (Which::Id(1), vec![1]), (Which::Newest, vec![2])]
    {
        let cluster = Cluster::new();
        let both = [dataset(1, ("XOR", 1), 3), dataset(2, ("SINGLE", 0), 3)];
        run(&cluster, "abc", &both);
        let done = publish(&cluster, &[cluster.node("")], which).unwrap().unwrap();
        assert_eq!(done.published.iter().map(|one| one.0).collect::<Vec<_>>(), ids, "{which:?}");
        let ids_there = list_prefix(&cluster.prefix()).unwrap().into_iter().rev();
        assert_eq!(ids_there.map(|one| one.id).collect::<Vec<_>>(), ids, "{which:?}");
    }
}

#[test]
fn what_tells_nothing_is_refused_with_a_reason() {
    let cluster = Cluster::new();
    run(&cluster, "ab", &[dataset(1, ("SINGLE", 0), 2)]);
    let refused = |dir: &Path, part: &str| {
        let error = publish(&cluster, &[dir.to_path_buf()], Which::All).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        fs::create_dir_all(cluster.prefix().join(".scr/rebuild")).unwrap();
    };
    fs::create_dir_all(cluster.prefix().join(".scr/rebuild")).unwrap();
    // Without records nothing tells whose files are in it.
    refused(&cluster.node("a").join("ram"), "filemap_*.scrinfo");
    refused(&cluster.prefix(), "has no dataset of a run");
    refused(&cluster.prefix().join("none"), "cannot find");
    let control = cluster.node("a").join("control");
    let lease = fs::File::create(control.join("lease")).unwrap();
    lease.lock().unwrap();
    refused(&cluster.node("a"), "a live run uses");
    drop(lease);
    fs::write(control.join("launch.scr"), "damaged").unwrap();
    // A process that another test has just started holds the lock until it executes its program.
    let (begun, patience) = (Instant::now(), Duration::from_secs(60));
    let done = loop {
        match publish(&cluster, &[cluster.node("")], Which::All) {
            Err(Error::Busy(_)) if begun.elapsed() < patience => std::thread::yield_now(),
            done => break done.unwrap().unwrap(),
        }
    };
    assert_eq!(done.published.len(), 1, "{done:?}");
}
