//! Files that several ranks of one node write: each is cached as that of the lowest of them.

use std::collections::BTreeSet;

use super::cluster::{Cluster, Rank};
use super::scene::{assert_same_files, place, tree};

const HOSTS: &str = "aabb";
const PART: usize = 4000;

fn name(step: u64, node: usize) -> String {
    format!("ckpt/step_{step}/rank_{node}.dat")
}

fn part(step: u64, rank: usize) -> Vec<u8> {
    format!("step {step} rank {rank} ").bytes().cycle().take(PART).collect()
}

/// Who of a node's two ranks makes the file, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The lower one; the other one opens it.
    Lower,
    /// The higher one; the other one opens it.
    Higher,
    /// Both, at any time.
    Both,
    /// The lower one makes it and closes it at once, empty.
    Empty,
    /// One after the other, at its end.
    InTurns,
}

/// The two ranks of each node write one file for each step.
fn write(rank: &Rank, step: u64, way: Way) {
    let (node, lower) = (rank.rank / 2, rank.rank.is_multiple_of(2));
    let (mate, name) = (rank.rank ^ 1, name(step, node));
    if rank.rank == 0 {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
    }
    rank.barrier();
    let first = lower != (way == Way::Higher);
    if !first && way != Way::Both {
        rank.receive(mate);
    }
    let make = if first || way == Way::Both { libc::O_CREAT } else { 0 };
    let append = if way == Way::InTurns { libc::O_APPEND } else { 0 };
    let mut file = rank.files.open(&name, libc::O_RDWR | make | append).unwrap();
    if first && way == Way::Empty {
        file.close().unwrap();
        file = rank.files.open(&name, libc::O_RDWR).unwrap();
    }
    if first && !matches!(way, Way::Both | Way::InTurns) {
        rank.send(mate);
    }
    let bytes = part(step, rank.rank);
    match way {
        Way::InTurns => file.write(&bytes).unwrap(),
        _ => file.write_at(&bytes, (rank.rank % 2 * PART) as u64).unwrap(),
    }
    file.close().unwrap();
    if first && way == Way::InTurns {
        rank.send(mate);
    }
    rank.calm();
}

/// What a rank reads of its node's file.
fn read(rank: &Rank, step: u64) -> Vec<u8> {
    rank.files.read_file(&name(step, rank.rank / 2)).unwrap_or_default()
}

fn whole(step: u64, node: usize) -> Vec<u8> {
    [part(step, 2 * node), part(step, 2 * node + 1)].concat()
}

fn cached(cluster: &Cluster, step: u64) -> BTreeSet<String> {
    let all = cluster.files_in_cache(HOSTS).into_iter();
    let files = all.filter(|path| path.to_string_lossy().contains(&format!("step_{step}/")));
    files.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn each_way_in_which_ranks_of_a_node_write_a_file_is_cached_and_the_same_without_us() {
    for way in [Way::Lower, Way::Higher, Way::Both, Way::Empty, Way::InTurns] {
        let program = |rank: &Rank| (1..=3).for_each(|step| write(rank, step, way));
        let plain = place(&[]);
        plain.run_plain(HOSTS, program);
        let cluster = place(&["SCR_FLUSH=1", "SCR_CACHE_SIZE=9"]);
        let got = cluster.run(HOSTS, |rank| {
            program(rank);
            rank.barrier();
            let cached = cached(&cluster, 3);
            rank.finish();
            cached
        });
        assert!(got.told.is_empty(), "{way:?}: {:?}", got.told);
        let both: BTreeSet<String> = ["rank_0.dat", "rank_1.dat"].map(String::from).into();
        assert_eq!(*got.first(), both, "{way:?}");
        assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &got.told);
    }
}

#[test]
fn a_lost_node_gets_back_the_file_of_its_ranks() {
    for scheme in ["PARTNER", "XOR"] {
        for way in [Way::Higher, Way::Both, Way::Empty] {
            let copies = format!("SCR_COPY_TYPE={scheme}");
            let cluster = place(&[&copies, "SCR_FLUSH=0", "SCR_SET_SIZE=2"]);
            let program = |rank: &Rank| (1..=3).for_each(|step| write(rank, step, way));
            let told = cluster.run(HOSTS, program).told;
            assert!(told.is_empty(), "{scheme} {way:?}: {told:?}");
            cluster.lose('b');
            let got = cluster.run(HOSTS, |rank| read(rank, 3));
            for (rank, bytes) in got.results.iter().enumerate() {
                let bytes = bytes.as_ref().unwrap();
                let is_whole = *bytes == whole(3, rank / 2);
                assert!(is_whole, "{scheme} {way:?} rank {rank}: {:?}", got.told);
            }
        }
    }
}

#[test]
fn what_ranks_of_a_node_write_is_learned_and_what_ranks_of_two_write_stays_on_the_prefix() {
    for (hosts, expected) in [("aabb", 2), ("abab", 0)] {
        let cluster = place(&["SCR_LEARN=1", "SCR_FLUSH=0"]);
        let program = |rank: &Rank, first: u64| {
            (first..first + 4).for_each(|step| write(rank, step, Way::Lower));
            rank.barrier();
            cached(&cluster, first + 3).len()
        };
        let got = cluster.run(hosts, |rank| program(rank, 1));
        assert_eq!(*got.first(), expected, "{hosts}: {:?}", got.told);
        // The next launch has the ranks of each file on two nodes, and knows what it does not know.
        let next = cluster.run("abab", |rank| program(rank, 5));
        assert_eq!(*next.first(), 0, "{hosts}: {:?}", next.told);
        let lost: Vec<_> = next.told.iter().filter(|told| told.contains("given up")).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}

#[test]
fn the_first_checkpoint_of_the_next_launch_is_known_to_be_complete() {
    let cluster = place(&["SCR_LEARN=1", "SCR_FLUSH=0"]);
    cluster.run(HOSTS, |rank| (1..=3).for_each(|step| write(rank, step, Way::Lower)));
    let next = cluster.run(HOSTS, |rank| {
        write(rank, 4, Way::Lower);
        rank.session().node.newest_complete(0)
    });
    for newest in &next.results {
        let step = newest.as_ref().unwrap().as_ref().map(|(_, step)| step.as_str());
        assert_eq!(step, Some("4"), "{:?}", next.told);
    }
}

#[test]
fn a_file_of_a_node_is_added_to_what_is_sealed() {
    for way in [Way::Lower, Way::Higher, Way::Both, Way::Empty, Way::InTurns] {
        let program = |rank: &Rank| {
            for step in 1..=4 {
                let own = format!("ckpt/step_{step}/own_{}.dat", rank.rank);
                let _ = rank.files.make_dir("ckpt");
                let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
                rank.files.write_file(&own, &part(step, rank.rank)).unwrap();
                rank.calm();
                write(rank, step, way);
            }
        };
        let settings = ["SCR_LEARN=1", "SCR_CACHE_SIZE=9", "SCR_FLUSH=1"];
        let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*";
        let (plain, cluster) = (place(&[]), place(&[&settings[..], &[pattern]].concat()));
        plain.run_plain(HOSTS, program);
        let got = cluster.run(HOSTS, |rank| {
            program(rank);
            rank.barrier();
            let found = cached(&cluster, 4);
            rank.meet();
            rank.finish();
            found
        });
        assert!(got.told.is_empty(), "{way:?}: {:?}", got.told);
        assert!(got.first().contains("rank_0.dat"), "{way:?}: {:?}", got.first());
        assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &got.told);
    }
}
