//! One file of ranks of several nodes: each node keeps its part of it.

use super::cluster::{Cluster, Rank};
use super::scene::{assert_same_files, place, tree};

const HOSTS: &str = "aabb";
const PART: usize = 4000;

fn name(step: u64) -> String {
    format!("ckpt/step_{step}/rank_9.dat")
}

fn part(step: u64, rank: usize) -> Vec<u8> {
    format!("step {step} rank {rank} ").bytes().cycle().take(PART).collect()
}

/// One rank makes the file, all write their pieces: two of each rank, one after the others.
fn write(rank: &Rank, step: u64) {
    if rank.rank == 0 {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
        rank.files.open(&name(step), libc::O_RDWR | libc::O_CREAT).unwrap().close().unwrap();
    }
    rank.barrier();
    let file = rank.files.open(&name(step), libc::O_RDWR).unwrap();
    for half in 0..2 {
        let bytes = &part(step, rank.rank)[half * PART / 2..][..PART / 2];
        let at = (half * 4 + rank.rank) * PART / 2;
        file.write_at(bytes, at as u64).unwrap();
    }
    file.close().unwrap();
    rank.calm();
}

fn whole(step: u64) -> Vec<u8> {
    let half = |half: usize| {
        (0..4).flat_map(move |rank| part(step, rank)[half * PART / 2..][..PART / 2].to_vec())
    };
    half(0).chain(half(1)).collect()
}

fn cached(cluster: &Cluster, step: u64) -> usize {
    let all = cluster.files_in_cache(HOSTS).into_iter();
    all.filter(|path| path.to_string_lossy().ends_with(&name(step))).count()
}

#[test]
fn one_file_of_all_ranks_is_cached_in_parts_and_the_same_without_us() {
    let program = |rank: &Rank| (1..=8).for_each(|step| write(rank, step));
    let plain = place(&[]);
    plain.run_plain(HOSTS, program);
    let cluster = place(&["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_FLUSH=1", "SCR_CACHE_SIZE=9"]);
    let got = cluster.run(HOSTS, |rank| {
        program(rank);
        rank.barrier();
        (1..=8).map(|step| cached(&cluster, step)).collect::<Vec<_>>()
    });
    assert!(got.told.is_empty(), "{:?}", got.told);
    assert_eq!(*got.first(), vec![0, 2, 2, 2, 2, 2, 2, 2], "a part on each node");
    assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &got.told);
}

#[test]
fn a_lost_node_gets_its_part_back_and_a_restart_reads_the_whole_file() {
    for scheme in ["PARTNER", "XOR"] {
        let copies = format!("SCR_COPY_TYPE={scheme}");
        let cluster =
            place(&["SCR_LEARN=1", "SCR_SHARED_CACHE=1", &copies, "SCR_FLUSH=0", "SCR_SET_SIZE=2"]);
        let program = |rank: &Rank| (1..=8).for_each(|step| write(rank, step));
        let told = cluster.run(HOSTS, program).told;
        assert!(told.is_empty(), "{scheme}: {told:?}");
        cluster.lose('b');
        let cluster = cluster.helped();
        let got = cluster.run(HOSTS, |rank| rank.files.read_file(&name(8)).unwrap_or_default());
        for (rank, bytes) in got.results.iter().enumerate() {
            let is_whole = *bytes.as_ref().unwrap() == whole(8);
            assert!(is_whole, "{scheme} rank {rank}: {:?}", got.told);
        }
    }
}

#[test]
fn what_is_older_than_the_newest_comes_to_the_prefix_after_a_restart_too() {
    let plain = place(&[]);
    plain.run_plain(HOSTS, |rank| (1..=5).for_each(|step| write(rank, step)));
    let mut cluster = place(&["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_CACHE_SIZE=9"]);
    let killed = |rank: &Rank| (1..=4).for_each(|step| write(rank, step));
    cluster.run_with(&["SCR_FLUSH=0"], HOSTS, killed).all();
    let on_prefix = |step: u64| cluster.prefix().join(name(step)).exists();
    assert_eq!((1..=4).map(on_prefix).collect::<Vec<_>>(), [true, false, false, false]);
    let ended = |rank: &Rank| {
        if rank.rank == 0 {
            rank.files.unlink(&name(2)).unwrap();
        }
        write(rank, 5);
        rank.finish();
    };
    let told = cluster.run_with(&["SCR_FLUSH=1"], HOSTS, ended).told;
    let deleted = |rank: &Rank| rank.rank == 0 && rank.files.unlink(&name(2)).is_ok();
    plain.run_plain(HOSTS, deleted);
    assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &told);
}
