//! One file of all ranks, without id, that is deleted for the next checkpoint before its own has
//! been sealed: the time has not passed after which a checkpoint counts as complete.

use super::cluster::{Cluster, Rank};

const NAME: &str = "ckpt/state";
const PART: usize = 4000;
const STEPS: u64 = 8;

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
    rank.all_max(0).unwrap();
}

/// The last one, or the one before it.
#[test]
fn a_run_that_is_killed_leaves_a_checkpoint() {
    for hosts in ["aa", "ab"] {
        let cluster = Cluster::new(&[
            "SCR_COPY_TYPE=SINGLE",
            "SCR_LEARN=1",
            "SCR_CHECKPOINT_PATTERN=ckpt/state",
            "SCR_SETTLE_MILLISECONDS=10000",
        ])
        .helped()
        .that_ends_together();
        cluster.launch(hosts, None, |rank| {
            for step in 1..=STEPS {
                write(rank, step);
                rank.calm();
            }
        });
        let found = cluster.run(hosts, |rank| {
            let found = rank.files.read_file(NAME).unwrap_or_default();
            rank.finish();
            found
        });
        let whole = [STEPS - 1, STEPS].map(|step| [part(step, 0), part(step, 1)].concat());
        for held in found.all() {
            let text = String::from_utf8_lossy(&held[..held.len().min(20)]);
            assert!(whole.contains(held), "{hosts}: {} bytes of {text:?}", held.len());
        }
    }
}
