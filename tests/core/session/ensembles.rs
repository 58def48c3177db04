//! Several simulations in one job, on the same nodes: each has its own prefix, finds its own cache,
//! and touches no other's.

use std::fs;
use std::path::Path;
use std::sync::Barrier;

use super::cluster::{Cluster, Outcome};
use super::scene::{below, check_message, place};
use super::sim::{Went, steady};

const HOSTS: &str = "ab";
const STEPS: u64 = 40;
const NAMES: [&str; 5] = ["prefix", "second", "third", "fourth", "fifth"];

/// Prefixes of one job, each with a number of steps between its checkpoints that only it has.
fn ensemble(count: usize, settings: &[&str]) -> Vec<(Cluster, u64)> {
    let first = place(&[&["SCR_FLUSH=0"], settings].concat());
    let others = NAMES.iter().take(count).skip(1).map(|name| first.beside(name));
    let others: Vec<Cluster> = others.collect();
    [first].into_iter().chain(others).zip(5..).collect()
}

/// The step at which one that writes that often is killed: three checkpoints are complete.
fn death(every: u64) -> u64 {
    3 * every + 1
}

/// Until all have come to their first checkpoint, none goes on.
fn side_by_side<T: Send>(
    all: &[(Cluster, u64)],
    run: impl Fn(&Cluster, u64, &Barrier) -> T + Sync,
) -> Vec<T> {
    let all_are_alive = Barrier::new(all.len());
    std::thread::scope(|scope| {
        let (run, met) = (&run, &all_are_alive);
        let threads: Vec<_> =
            all.iter().map(|one| scope.spawn(move || run(&one.0, one.1, met))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn killed(cluster: &Cluster, every: u64, met: Option<&Barrier>) -> Outcome<Went> {
    cluster.run(HOSTS, |rank| {
        steady(STEPS, every).killed_at(death(every)).run_and(rank, |sim| {
            if sim.step == every && rank.rank == 0 {
                met.map(Barrier::wait);
            }
            rank.barrier();
        })
    })
}

/// It goes on from its own newest one, and says nothing else.
fn goes_on(cluster: &Cluster, every: u64) {
    let got = cluster.run(HOSTS, |rank| steady(STEPS, every).run(rank));
    let restart = 3 * every;
    let went = Went { restart, checksum: plain_on(HOSTS, every) };
    assert_eq!(*got.first(), went, "{:?}", got.told);
    check_message(&got.told, &[&format!("checkpoint {restart} is in the cache")]);
}

fn plain_on(hosts: &str, every: u64) -> Option<u64> {
    place(&[]).run_plain(hosts, |rank| steady(STEPS, every).run(rank)).first().checksum
}

#[test]
fn simulations_at_the_same_time_on_the_same_nodes() {
    for count in [2, 5] {
        let all = ensemble(count, &[]);
        let got = side_by_side(&all, |cluster, every, met| killed(cluster, every, Some(met)));
        for (outcome, (cluster, _)) in got.iter().zip(&all) {
            assert_eq!((outcome.first().restart, &outcome.told), (0, &Vec::new()));
            assert_eq!(cluster.steps_on_prefix(), [""; 0], "all is in the cache");
        }
        side_by_side(&all, |cluster, every, _| goes_on(cluster, every));
    }
}

#[test]
fn simulations_one_after_another_on_the_same_nodes() {
    for count in [2, 5] {
        let all = ensemble(count, &[]);
        for (cluster, every) in &all {
            let got = killed(cluster, *every, None);
            assert_eq!((got.first().restart, got.told), (0, Vec::new()));
        }
        // What has come to its end leaves that of the others alone.
        all.iter().rev().for_each(|(cluster, every)| goes_on(cluster, *every));
    }
}

#[test]
fn each_is_scavenged_and_purged_alone() {
    let all = ensemble(3, &[]);
    all.iter().for_each(|(cluster, every)| drop(killed(cluster, *every, None)));
    let [(first, _), (second, often), (third, seldom)] = &all[..] else { panic!() };
    assert_eq!(first.scavenge(HOSTS), ["15"]);
    let others = || [second, third].map(|other| below(&other.cache('a')).len());
    let before = others();
    assert_eq!([second, third].map(|other| other.tree().len()), [0, 0]);
    let mut purged = first.beside("prefix");
    purged.run_with(&["SCR_CACHE_PURGE=1"], HOSTS, |rank| steady(3, 5).run(rank)).all();
    assert_eq!(others(), before);
    // Nothing of it is left for a command, and that of the others is.
    assert!(first.cached(HOSTS).is_empty());
    goes_on(second, *often);
    assert_eq!(third.scavenge(HOSTS), [(3 * seldom).to_string()]);
}

#[test]
fn a_cache_in_the_directory_of_the_job_is_used_until_it_is_empty() {
    let all = ensemble(2, &[]);
    all.iter().for_each(|(cluster, every)| drop(killed(cluster, *every, None)));
    let [(older, every), (other, often)] = &all[..] else { panic!() };
    for host in HOSTS.chars() {
        let cache = older.cache(host);
        let of_job = cache.parent().unwrap().to_owned();
        for entry in fs::read_dir(&cache).unwrap().map(Result::unwrap) {
            fs::rename(entry.path(), of_job.join(entry.file_name())).unwrap();
        }
        fs::remove_dir(&cache).unwrap();
    }
    goes_on(other, *often);
    assert!(other.cached(HOSTS).is_empty());
    goes_on(older, *every);
    let control = older.cache('a');
    assert!(!control.parent().unwrap().join("launch.scr").exists() && !control.exists());
    assert_eq!(older.run(HOSTS, |rank| steady(STEPS, *every).run(rank)).told, [""; 0]);
    assert!(control.exists());
}

fn copy_tree(from: &Path, to: &Path) {
    for path in below(from) {
        let there = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(there.parent().unwrap()).unwrap();
        fs::copy(&path, there).unwrap();
    }
}

#[test]
fn a_prefix_that_was_moved() {
    let all = ensemble(1, &[]);
    let (old, every) = &all[0];
    killed(old, *every, None);
    let there = old.beside("moved");
    // An empty directory gives way.
    let rename = |from: &Cluster, to: &Cluster| fs::rename(from.prefix(), to.prefix()).unwrap();
    rename(old, &there);
    let got = there.run(HOSTS, |rank| steady(STEPS, *every).killed_at(3).run(rank));
    assert_eq!(got.first().restart, 0);
    check_message(&got.told, &["when it was", &old.prefix().display().to_string(), "Move it back"]);
    rename(&there, old);
    // A copy is another simulation, which has nothing to do with it.
    let copy = old.beside("copy");
    copy_tree(&old.prefix(), &copy.prefix());
    let got = copy.run(HOSTS, |rank| steady(STEPS, *every).killed_at(3).run(rank));
    assert_eq!((got.first().restart, got.told), (0, Vec::new()));
    goes_on(old, *every);
}

#[test]
fn those_that_are_alive_share_the_room() {
    // Each rank has a node of its own, and a file takes 528 bytes.
    let store = "SCR_CACHE_BASE=/store\nSTORE=/store CAPACITY=2500\n";
    let second = |alone: bool| {
        let all = ensemble(2, &[]);
        all.iter().for_each(|(cluster, _)| {
            fs::write(cluster.prefix().join(".scrconf"), store).unwrap();
        });
        let [(first, often), (second, every)] = &all[..] else { panic!() };
        let run = || second.run(HOSTS, |rank| steady(20, *every).run(rank)).told;
        if alone {
            killed(first, *often, None);
            return run();
        }
        let mut told = None;
        let told_by = std::sync::Mutex::new(&mut told);
        first.run(HOSTS, |rank| {
            steady(10, 5).run_and(rank, |sim| {
                if sim.step == 5 && rank.rank == 0 {
                    **told_by.lock().unwrap() = Some(run());
                }
                rank.barrier();
            })
        });
        told.unwrap()
    };
    assert_eq!(second(true), [""; 0]);
    check_message(&second(false), &["no room"]);
}
