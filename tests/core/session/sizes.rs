//! What ranks are told of the size of a file that those of several nodes write, and what room it
//! takes.

use super::cluster::Rank;
use super::door::Open;
use super::scene::{place, same};

const HOSTS: &str = "aabb";
const PART: u64 = 3000;
const STEPS: u64 = 5;

/// How long a rank makes the file before it cuts it.
#[derive(Debug, Clone, Copy)]
enum Longer {
    ByWriting,
    BySize,
}

fn name(step: u64) -> String {
    format!("ckpt/step_{step}/all.dat")
}

fn put(rank: &Rank, step: u64) -> Open<'_> {
    let _ = rank.files.make_dir("ckpt");
    let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
    let file = rank.files.open(&name(step), libc::O_RDWR | libc::O_CREAT).unwrap();
    file.write_at(&[rank.rank as u8 + 1; PART as usize], rank.rank as u64 * PART).unwrap();
    file
}

fn write(rank: &Rank, step: u64, longer: Longer) -> u64 {
    let file = put(rank, step);
    rank.barrier();
    // It was not seen to do so before.
    if step == STEPS && rank.rank == 0 {
        match longer {
            Longer::ByWriting => file.write_at(b"behind", 6 * PART).unwrap(),
            Longer::BySize => file.set_size(6 * PART).unwrap(),
        }
        file.set_size(2 * PART).unwrap();
    }
    rank.barrier();
    let size = if step == STEPS { file.size().unwrap() } else { 0 };
    rank.barrier();
    file.close().unwrap();
    rank.calm();
    size
}

#[test]
fn a_rank_that_makes_a_file_longer_and_cuts_it_tells_what_it_has_done_last() {
    for longer in [Longer::ByWriting, Longer::BySize] {
        let settings = ["SCR_LEARN=1", "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*"];
        let got = same(HOSTS, &settings, |rank| {
            let sizes: Vec<u64> = (1..=STEPS).map(|step| write(rank, step, longer)).collect();
            rank.finish();
            sizes
        });
        assert_eq!(got.first().last(), Some(&(2 * PART)), "{longer:?}");
    }
}

/// As MPI-IO asks for the size of a file that was just written. What another node has of it is read
/// on the prefix, where the file goes.
#[test]
fn a_file_that_is_read_after_its_close_stays_cached_if_all_that_is_read_is_here() {
    // It is sealed before, or is not.
    for (settle, foreign) in [(0, None), (100_000, None), (0, Some(4)), (100_000, Some(4))] {
        let settings = [
            "SCR_LEARN=1",
            "SCR_FLUSH=1",
            &format!("SCR_SETTLE_MILLISECONDS={settle}"),
            "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*",
        ];
        let got = place(&settings).helped().run(HOSTS, |rank| {
            let cached = |step: u64| {
                put(rank, step).close().unwrap();
                rank.barrier();
                let file = rank.files.open(&name(step), libc::O_RDONLY).unwrap();
                let whose = (rank.rank + if foreign == Some(step) { 2 } else { 0 }) % HOSTS.len();
                let bytes = file.read_at(PART as usize, whose as u64 * PART).unwrap();
                let found = (file.size().unwrap(), bytes);
                assert_eq!(found, (4 * PART, vec![whose as u8 + 1; PART as usize]), "{step}");
                let is_parted = file.is_parted();
                file.close().unwrap();
                rank.calm();
                is_parted
            };
            let found: Vec<bool> = (1..=STEPS).map(cached).collect();
            rank.finish();
            found
        });
        let is_here = foreign.is_none();
        for found in got.all() {
            assert_eq!(found[2..4], [true, is_here], "{settle} {foreign:?} {:?}", got.told);
            assert!(found[4] || !is_here, "{settle} {found:?} {:?}", got.told);
        }
    }
}

#[test]
fn what_others_change_of_a_complete_file_is_seen_through_a_descriptor_that_was_open_before() {
    let settings = ["SCR_LEARN=1", "SCR_FLUSH=1", "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*"];
    let got = place(&settings).helped().run("ab", |rank| {
        for step in 1..=STEPS {
            put(rank, step).close().unwrap();
            rank.calm();
            let open = |flags| rank.files.open(&name(step), flags).unwrap();
            let reader = open(libc::O_RDONLY);
            rank.barrier();
            if rank.rank == 0 {
                let file = open(libc::O_RDWR);
                file.write_at(b"changed", PART + 9).unwrap();
                file.close().unwrap();
            }
            rank.barrier();
            if rank.rank == 1 {
                assert_eq!(reader.read_at(7, PART + 9).unwrap(), b"changed", "{step}");
            }
            reader.close().unwrap();
            rank.calm();
        }
        rank.finish();
    });
    got.all();
}

/// A node has room for what its ranks write of three checkpoints, not for all of one for each.
#[test]
fn a_file_of_all_ranks_takes_room_for_what_each_rank_writes() {
    let settings =
        ["SCR_COPY_TYPE=SINGLE", "SCR_LEARN=1", "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*"];
    let cluster = place(&settings);
    let store = format!("SCR_CACHE_BASE=/store\nSTORE=/store CAPACITY={}\n", 17 * PART);
    std::fs::write(cluster.prefix().join(".scrconf"), store).unwrap();
    let got = cluster.run("aaabbb", |rank| {
        let is_parted = |step: u64| {
            let file = put(rank, step);
            let is_parted = file.is_parted();
            rank.barrier();
            file.close().unwrap();
            rank.calm();
            is_parted
        };
        let found = (1..=STEPS).fold(false, |_, step| is_parted(step));
        rank.finish();
        found
    });
    got.all().into_iter().for_each(|found| assert!(*found, "{:?}", got.told));
}
