//! One file that ranks of two nodes open without the others, which make no calls on it.

use super::cluster::{Group, Rank};
use super::scene::{assert_same_files, cached_as, place, tree};

const HOSTS: &str = "aabb";
/// One on each node.
const WRITERS: [usize; 2] = [1, 2];
const PART: usize = 4000;

fn name(step: u64) -> String {
    format!("ckpt/step_{step}/rank_9.dat")
}

/// The second rank writes over half of what the first one has written just before, and that one
/// asks how long the file is then.
fn write(rank: &Rank, group: Option<&Group>, step: u64) {
    if rank.rank == 0 {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
        rank.files.open(&name(step), libc::O_RDWR | libc::O_CREAT).unwrap().close().unwrap();
    }
    rank.barrier();
    if let Some(group) = group {
        let file = rank.files.open(&name(step), libc::O_RDWR).unwrap();
        rank.group_call(group);
        let bytes = [rank.rank as u8 + step as u8; PART];
        if rank.rank == WRITERS[0] {
            file.write_at(&bytes, 0).unwrap();
        }
        rank.group_call(group);
        if rank.rank == WRITERS[1] {
            file.write_at(&bytes, PART as u64 / 2).unwrap();
        }
        rank.group_call(group);
        assert_eq!(file.size().unwrap(), PART as u64 * 3 / 2, "rank {}", rank.rank);
        file.close().unwrap();
    }
    rank.calm();
}

fn program(rank: &Rank) {
    let group = rank.group(&WRITERS);
    (1..=6).for_each(|step| write(rank, group.as_ref(), step));
}

#[test]
fn ranks_that_open_a_file_by_themselves_order_what_they_write_by_their_calls_on_it() {
    let plain = place(&[]);
    plain.run_plain(HOSTS, program);
    let cluster = place(&["SCR_LEARN=1", "SCR_SHARED_CACHE=1", "SCR_FLUSH=1", "SCR_CACHE_SIZE=9"]);
    let got = cluster.run(HOSTS, |rank| {
        program(rank);
        rank.barrier();
        let cached =
            (1..=6).map(|step| cached_as(&cluster, HOSTS, &name(step))).collect::<Vec<_>>();
        rank.finish();
        cached
    });
    assert!(got.told.is_empty(), "{:?}", got.told);
    assert_eq!(*got.first(), vec![0, 2, 2, 2, 2, 2], "a part on each node");
    assert_same_files(&tree(&plain.prefix()), &tree(&cluster.prefix()), &got.told);
}
