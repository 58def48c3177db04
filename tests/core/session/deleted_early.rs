//! One file of all ranks, without id, that is deleted for the next checkpoint before its own has
//! been sealed: no collective call comes in between, once enough time has passed.

use std::time::Duration;

use super::cluster::{Cluster, Rank};

const NAME: &str = "ckpt/state";
const PART: usize = 4000;
/// Quietly written checkpoints, after which it is known that such files can be cached.
const LEARNED: u64 = 5;

fn part(step: u64, rank: usize) -> Vec<u8> {
    format!("step {step} rank {rank} ").bytes().cycle().take(PART).collect()
}

fn write(rank: &Rank, step: u64) {
    if rank.rank == 0 {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.unlink(NAME);
    }
    rank.barrier();
    let file = rank.files.open(NAME, libc::O_RDWR | libc::O_CREAT).unwrap();
    file.write_at(&part(step, rank.rank), (rank.rank * PART) as u64).unwrap();
    file.close().unwrap();
    rank.barrier();
}

/// Waits until the checkpoint is sealed. If it never is, the test shows less.
fn write_and_wait(rank: &Rank, step: u64) {
    write(rank, step);
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        rank.calm();
    }
}

/// The last one, or the one before it: nobody has sealed the last one.
#[test]
fn a_run_that_is_killed_leaves_a_checkpoint() {
    for hosts in ["aa", "ab"] {
        let cluster = Cluster::new(&[
            "SCR_COPY_TYPE=SINGLE",
            "SCR_LEARN=1",
            "SCR_CHECKPOINT_PATTERN=ckpt/state",
            "SCR_SETTLE_MILLISECONDS=100",
        ])
        .helped();
        let last = LEARNED + 3;
        cluster.launch(hosts, None, |rank| {
            (1..=LEARNED).for_each(|step| write_and_wait(rank, step));
            (LEARNED + 1..=last).for_each(|step| write(rank, step));
        });
        let found = cluster.run(hosts, |rank| {
            let found = rank.files.read_file(NAME).unwrap_or_default();
            rank.finish();
            found
        });
        let whole = [last - 1, last].map(|step| [part(step, 0), part(step, 1)].concat());
        for held in found.all() {
            let text = String::from_utf8_lossy(&held[..held.len().min(20)]);
            assert!(whole.contains(held), "{hosts}: {} bytes of {text:?}", held.len());
        }
    }
}
