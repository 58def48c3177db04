//! What a checkpoint costs a rank, counted in calls that wait for the disk: it must not grow with
//! the job, and what ranks of a node have in common one of them does for all.

use std::fs;

use super::calls::{CHECKPOINT, write};
use super::cluster::{Cluster, Rank};

/// Calls of fsync of each rank for one of the later checkpoints of a run, on average.
fn syncs(hosts: &str, scheme: &str, by_calls: bool) -> Vec<f64> {
    const FIRST: usize = 3;
    const LAST: usize = 7;
    let scheme = format!("SCR_COPY_TYPE={scheme}");
    let cluster = Cluster::new(&[&scheme, "SCR_FLUSH=0", "SCR_CACHE_SIZE=1"]);
    let prefix = cluster.prefix();
    let outcome = cluster.launch(hosts, None, |rank: &Rank| {
        if by_calls {
            rank.session().use_by_program(None);
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
        let all: Vec<&String> = steps.iter().filter(|step| step.starts_with("fsync")).collect();
        // From the sync of a file to that of the same file of a later checkpoint.
        let at = |step: usize| {
            let dir = format!("/step_{step}/");
            all.iter().position(|one| one.contains(&dir)).expect("the file is synced")
        };
        (at(LAST) - at(FIRST)) as f64 / (LAST - FIRST) as f64
    };
    outcome.steps.iter().map(each).collect()
}

#[test]
fn a_checkpoint_waits_for_the_disk_a_few_times_however_large_the_job() {
    // Record at the begin, file, record at the seal; redundancy file and its name. The first rank
    // of a node: names of files, records, catalog, final name and marker besides.
    for (scheme, most, most_of_first) in [("SINGLE", 3.0, 12.0), ("XOR", 5.0, 14.0)] {
        for hosts in ["aabb", "aaaabbbb", "aaaabbbbccccdddd"] {
            for by_calls in [false, true] {
                let found = syncs(hosts, scheme, by_calls);
                let case = format!("{scheme} on {hosts}, by calls: {by_calls}: {found:?}");
                for (rank, found) in found.into_iter().enumerate() {
                    let is_first = hosts.find(&hosts[rank..=rank]) == Some(rank);
                    assert!(found <= if is_first { most_of_first } else { most }, "{case}");
                }
            }
        }
    }
}
