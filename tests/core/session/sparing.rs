//! What a checkpoint costs a rank, counted in calls that wait for the disk: it must not grow with
//! the job, and what ranks of a node have in common one of them does for all.

use std::fs;

use super::calls::{CHECKPOINT, write};
use super::cluster::{Cluster, Rank};
use super::counted::Calls;
use super::sim::steady;

/// What one of the later checkpoints of a run costs a rank, on average.
#[derive(Debug)]
struct Cost {
    /// Calls of fsync.
    syncs: f64,
    /// Those, and all others that change what is on the disk.
    changes: f64,
}

/// That of each rank.
fn costs(hosts: &str, scheme: &str, by_calls: bool) -> Vec<Cost> {
    const FIRST: usize = 3;
    const LAST: usize = 7;
    let scheme = format!("SCR_COPY_TYPE={scheme}");
    let cluster = Cluster::new(&[&scheme, "SCR_FLUSH=0", "SCR_CACHE_SIZE=1"]);
    let prefix = cluster.prefix();
    let outcome = cluster.launch(hosts, None, |rank: &Rank| {
        if by_calls {
            rank.session().program.use_by_program(None);
        }
        for step in 1..=LAST {
            let dir = format!("ckpt/step_{step}");
            fs::create_dir_all(prefix.join(&dir)).unwrap();
            rank.all_max(0).unwrap();
            match by_calls {
                true => assert!(write(rank.session(), &prefix, &dir, CHECKPOINT, true)),
                false => {
                    let name = format!("{dir}/rank_{}.dat", rank.rank);
                    rank.files.write_file(&name, b"x").unwrap();
                    rank.calm();
                }
            }
        }
    });
    outcome.all();
    let each = |steps: &Vec<String>| {
        let is_sync = |step: &&String| step.starts_with("fsync");
        // From the sync of a file to that of the same file of a later checkpoint.
        let at = |step: usize| {
            let dir = format!("/step_{step}/");
            steps.iter().position(|one| is_sync(&one) && one.contains(&dir)).expect("a sync")
        };
        let between = &steps[at(FIRST)..at(LAST)];
        let each = |count: usize| count as f64 / (LAST - FIRST) as f64;
        Cost { syncs: each(between.iter().filter(is_sync).count()), changes: each(between.len()) }
    };
    outcome.steps.iter().map(each).collect()
}

#[test]
fn a_checkpoint_waits_for_the_disk_a_few_times_however_large_the_job() {
    // File and record; redundancy file. The first rank of a node: catalog, the names of all in five
    // directories, marker and its name besides; by calls the flush file of rank 0, and its name.
    for (scheme, most, most_of_first, changes) in
        [("SINGLE", 2.0, 10.0, 18.0), ("XOR", 3.0, 11.0, 26.0)]
    {
        for hosts in ["aabb", "aaaabbbb", "aaaabbbbccccdddd", "aaaabbbbccccddddeeeeffffgggghhhh"] {
            for by_calls in [false, true] {
                let found = costs(hosts, scheme, by_calls);
                let case = format!("{scheme} on {hosts}, by calls: {by_calls}: {found:?}");
                for (rank, found) in found.into_iter().enumerate() {
                    let is_first = hosts.find(&hosts[rank..=rank]) == Some(rank);
                    let most_of_first =
                        most_of_first + if by_calls && rank == 0 { 2.0 } else { 0.0 };
                    assert!(found.syncs <= if is_first { most_of_first } else { most }, "{case}");
                    assert!(is_first || found.changes <= changes, "{case}");
                }
            }
        }
    }
}

#[test]
fn the_leader_of_a_node_says_for_all_its_ranks_how_far_a_flush_is() {
    let mut cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE"]);
    let settings = ["SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"];
    let got = cluster.run_with(&settings, "aabb", |rank| steady(20, 5).run(rank));
    for (rank, steps) in got.steps.iter().enumerate() {
        let writes = |step: &&String| step.contains("transfer.scrinfo") && !step.contains(".lock");
        let renames = steps.iter().filter(writes).filter(|step| step.starts_with("rename"));
        // At the begin of each of four, when all is staged, when all have their names.
        let (renames, most) = (renames.count(), if rank % 2 == 0 { 12 } else { 0 });
        assert!(renames <= most, "rank {rank}: {renames} times: {steps:?}");
    }
}

/// What each rank asks of its communicators in the synchronising call that seals a checkpoint.
fn calls_of_a_seal(hosts: &str, scheme: &str) -> Vec<Vec<&'static str>> {
    let scheme = format!("SCR_COPY_TYPE={scheme}");
    let settings = [&*scheme, "SCR_SET_SIZE=4", "SCR_FLUSH=0", "SCR_CACHE_SIZE=1"];
    let mut cluster = Cluster::new(&settings);
    let calls = Calls::of(hosts.len());
    cluster.count(&calls);
    let prefix = cluster.prefix();
    let outcome = cluster.launch(hosts, None, |rank: &Rank| {
        let mut seal = Vec::new();
        for step in 1..=4 {
            let dir = format!("ckpt/step_{step}");
            fs::create_dir_all(prefix.join(&dir)).unwrap();
            rank.all_max(0).unwrap();
            let name = format!("{dir}/rank_{}.dat", rank.rank);
            rank.files.write_file(&name, b"x").unwrap();
            calls.take(rank.rank);
            rank.barrier();
            seal = calls.take(rank.rank);
            rank.calm();
        }
        seal
    });
    outcome.all().into_iter().cloned().collect()
}

#[test]
fn a_checkpoint_takes_as_many_collectives_in_a_large_job_as_in_a_small_one() {
    // Agreement, conference, catalog, vote, commit; in an encoding whether all can take part, a
    // list, the pieces of three others, and checksums.
    for (scheme, most, exchanges) in [("SINGLE", 5, 0), ("XOR", 6, 5)] {
        for hosts in ["abcd", "aabbccdd", "aabbccddeeffgghh", "aaaabbbbccccddddeeeeffffgggghhhh"] {
            for found in calls_of_a_seal(hosts, scheme) {
                let is_within = |call: &&&str| **call == "exchange";
                let apart = found.iter().filter(is_within).count();
                let case = format!("{scheme} on {hosts}: {found:?}");
                // Leaders of nodes hand on the catalog; ranks of a node evict together.
                let more = if hosts.len() == 4 { 0 } else { 5 };
                assert!(apart <= exchanges && found.len() - apart <= most + more, "{case}");
                assert!(!found.contains(&"split"), "{case}");
            }
        }
    }
}

#[test]
fn a_start_with_nothing_lost_waits_for_the_disk_a_few_times() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_FLUSH=1", "SCR_CACHE_SIZE=1"]);
    let hosts = "aabb";
    write_checkpoints(&cluster, hosts, 3);
    let outcome = cluster.launch(hosts, None, |rank: &Rank| rank.all_max(0).is_ok());
    for (rank, steps) in outcome.steps.iter().enumerate() {
        let syncs = steps.iter().filter(|step| step.starts_with("fsync"));
        let cached: Vec<&String> = syncs.filter(|step| step.contains("/store/")).collect();
        // The records as the run left them, and without what has been evicted; files of the other
        // node on the first rank of each.
        let most = if rank % 2 == 0 { 5 } else { 3 };
        assert!(cached.len() <= most, "rank {rank}: {cached:#?}");
    }
}

/// A launch in which each rank writes a file of some bytes for each checkpoint.
fn write_checkpoints(cluster: &Cluster, hosts: &str, steps: u64) {
    let prefix = cluster.prefix();
    cluster.launch(hosts, None, |rank: &Rank| {
        for step in 1..=steps {
            let dir = format!("ckpt/step_{step}");
            fs::create_dir_all(prefix.join(&dir)).unwrap();
            rank.all_max(0).unwrap();
            rank.files.write_file(&format!("{dir}/rank_{}.dat", rank.rank), b"x").unwrap();
            rank.calm();
        }
    });
}

/// What each rank asks of its communicators at a start that finds a checkpoint in the caches, and
/// nothing lost.
fn calls_of_a_start(hosts: &str, scheme: &str) -> Vec<Vec<&'static str>> {
    let scheme = format!("SCR_COPY_TYPE={scheme}");
    let settings = [&*scheme, "SCR_SET_SIZE=4", "SCR_FLUSH=0", "SCR_CACHE_SIZE=1"];
    let mut cluster = Cluster::new(&settings);
    write_checkpoints(&cluster, hosts, 2);
    let calls = Calls::of(hosts.len());
    cluster.count(&calls);
    let outcome = cluster.launch(hosts, None, |rank: &Rank| {
        let start = calls.take(rank.rank);
        let name = format!("ckpt/step_2/rank_{}.dat", rank.rank);
        assert_eq!(rank.files.read_file(&name).unwrap(), b"x");
        start
    });
    outcome.all().into_iter().cloned().collect()
}

#[test]
fn a_start_takes_as_many_collectives_in_a_large_job_as_in_a_small_one() {
    for scheme in ["SINGLE", "XOR"] {
        for (hosts, most) in [("abcd", 35), ("aabbccdd", 57), ("aabbccddeeffgghh", 57)] {
            for (rank, found) in calls_of_a_start(hosts, scheme).into_iter().enumerate() {
                let case = format!("{scheme} on {hosts}, rank {rank}: {} {found:?}", found.len());
                assert!(found.len() <= most, "{case}");
                // Nodes, and their leaders.
                assert_eq!(found.iter().filter(|call| **call == "split").count(), 2, "{case}");
            }
        }
    }
}
