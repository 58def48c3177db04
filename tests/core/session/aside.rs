//! Checkpoints that are encoded by a thread of each rank while the program goes on: what comes in
//! between, and what is there after the loss of a node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::cluster::{Cluster, Outcome, Rank};
use super::program::{content, file};

/// Threads that encode wait here until it is open.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// A gate for the rank's threads, which is closed, and opens when the rank waits for one.
fn gate(rank: &Rank) -> Arc<Gate> {
    let gate = Arc::new(Gate::default());
    let (of_threads, of_rank) = (gate.clone(), gate.clone());
    rank.files.let_encoders(move || of_threads.pass());
    rank.files.before_waiting(move || of_rank.open());
    gate
}

fn beside(test: impl Fn(Cluster)) {
    test(Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_SEAL=BACKGROUND", "SCR_DEBUG=1"]));
}

fn write(rank: &Rank, step: u64, launch: u64) {
    if rank.rank == 0 {
        let _ = rank.files.make_dir("ckpt");
        let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
    }
    rank.barrier();
    rank.files.write_file(&file(step, rank.rank), &content(launch, step, rank.rank)).unwrap();
}

/// Passes so many sync points.
fn go_on(rank: &Rank, points: usize) {
    (0..points).for_each(|_| _ = rank.all_max(0).unwrap());
}

/// Writes a checkpoint, of which the encoding goes on until the gate is opened.
fn encoding(rank: &Rank, step: u64) -> Arc<Gate> {
    let gate = gate(rank);
    write(rank, step, 1);
    go_on(rank, 20);
    assert!(rank.is_encoding());
    gate
}

/// The newest checkpoint that is known to be complete.
fn newest(rank: &Rank) -> u64 {
    rank.session().node.newest_complete(0).map_or(0, |(_, step)| step.parse().unwrap())
}

/// The step and the launch of the checkpoint that a restart without `lost` offers, newest first.
fn offered(cluster: &Cluster, lost: char, hosts: &str) -> Option<(u64, u64)> {
    cluster.lose(lost);
    let outcome = cluster.run(hosts, |rank| {
        let found = (1..10).rev().find_map(|step| {
            let bytes = rank.files.read_file(&file(step, rank.rank)).ok()?;
            Some((step, super::program::launch_of(&bytes, step, rank.rank).unwrap_or(0)))
        });
        rank.barrier();
        found
    });
    let all = outcome.all();
    assert!(all.iter().all(|one| *one == all[0]), "{all:?} {:?}", outcome.told);
    *all[0]
}

fn has_told(outcome: &Outcome<()>, text: &str) -> usize {
    outcome.told.iter().filter(|line| line.contains(text)).count()
}

#[test]
fn the_program_goes_on_while_its_checkpoint_is_encoded() {
    beside(|cluster| {
        let outcome = cluster.run("abc", |rank| {
            write(rank, 1, 1);
            rank.calm();
            let gate = encoding(rank, 2);
            assert!(newest(rank) == 1);
            gate.open();
            rank.calm();
            assert_eq!(newest(rank), 2);
        });
        assert_eq!(has_told(&outcome, "was encoded beside the program"), 2, "{:?}", outcome.told);
        assert_eq!(has_told(&outcome, "with the program waiting"), 0, "{:?}", outcome.told);
        assert_eq!(offered(&cluster, 'b', "acd"), Some((2, 1)));
    });
}

#[test]
fn what_is_written_meanwhile_is_encoded_again() {
    beside(|cluster| {
        let outcome = cluster.run("abc", |rank| {
            let gate = encoding(rank, 1);
            if rank.rank == 1 {
                // Part of the same checkpoint, in place and by itself.
                rank.files.write_file(&file(1, 1), &content(2, 1, 1)).unwrap();
            }
            rank.barrier();
            gate.open();
            rank.calm();
            assert_eq!(newest(rank), 0, "a checkpoint that is written on may not be whole");
            write(rank, 2, 1);
            rank.calm();
            assert!(newest(rank) > 0);
        });
        outcome.all();
        cluster.lose('b');
        let outcome = cluster.run("acd", |rank| {
            // Rank 1 has what it wrote last, and no mixture of both.
            let launch = if rank.rank == 1 { 2 } else { 1 };
            let bytes = rank.files.read_file(&file(1, rank.rank)).unwrap();
            assert!(bytes == content(launch, 1, rank.rank));
        });
        outcome.all();
    });
}

#[test]
fn the_older_one_is_there_if_a_node_is_lost_meanwhile() {
    beside(|cluster| {
        let outcome = cluster.run("abc", |rank| {
            for step in 1..=2 {
                write(rank, step, 1);
                rank.calm();
            }
            assert_eq!(newest(rank), 2);
            let gate = encoding(rank, 3);
            assert!(newest(rank) == 2);
            rank.barrier();
            gate.open(); // the run has been killed
        });
        outcome.all();
        assert_eq!(offered(&cluster, 'c', "abd"), Some((2, 1)));
    });
}

#[test]
fn the_next_checkpoint_waits_for_the_one_before() {
    beside(|cluster| {
        let outcome = cluster.run("abc", |rank| {
            let gate = encoding(rank, 1);
            // Its first open makes all ranks wait for the thread, which opens the gate.
            write(rank, 2, 1);
            go_on(rank, 20); // one in eight of them carries an agreement, at least
            assert!(newest(rank) >= 1);
            gate.open();
            rank.calm();
            assert_eq!(newest(rank), 2);
        });
        assert_eq!(
            has_told(&outcome, "the end of it with the program waiting"),
            1,
            "{:?}",
            outcome.told
        );
        assert_eq!(offered(&cluster, 'a', "bcd"), Some((2, 1)));
    });
}

#[test]
fn the_end_waits_for_it() {
    beside(|cluster| {
        let outcome = cluster.run("abc", |rank| {
            gate(rank);
            write(rank, 1, 1);
            go_on(rank, 20);
            assert!(rank.is_encoding());
            rank.finish();
        });
        assert_eq!(
            has_told(&outcome, "the end of it with the program waiting"),
            1,
            "{:?}",
            outcome.told
        );
        for rank in 0..3 {
            let found = std::fs::read(cluster.prefix().join(file(1, rank))).unwrap();
            assert!(found == content(1, 1, rank));
        }
    });
}

#[test]
fn one_that_fails_is_encoded_while_the_program_waits() {
    beside(|cluster| {
        let outcome = cluster.run("abc", |rank| {
            let fails = Arc::new(AtomicBool::new(rank.rank == 2));
            let asked = fails.clone();
            rank.files.let_encoders(move || {
                if asked.swap(false, Ordering::SeqCst) {
                    std::panic::resume_unwind(Box::new("a thread that stops"));
                }
            });
            write(rank, 1, 1);
            rank.calm();
            assert!(!fails.load(Ordering::SeqCst));
            // The next one is encoded beside the program again.
            write(rank, 2, 1);
            rank.calm();
            assert_eq!(newest(rank), 2);
        });
        assert_eq!(has_told(&outcome, "was encoded beside the program"), 1, "{:?}", outcome.told);
        assert_eq!(has_told(&outcome, "rank 2: checkpoint 1: the encoding has stopped"), 1);
        assert_eq!(offered(&cluster, 'b', "acd"), Some((2, 1)));
    });
}
