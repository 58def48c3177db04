//! What the program keeps is kept: without an SCR_FLUSH of the user a checkpoint leaves the cache
//! only when the program has given it up, or when it is on the prefix.

use super::cluster::{Cluster, Rank};
use super::scene::{assert_same_files, place};
use super::sim::{Sim, file};

const HOSTS: &str = "aabb";
const STEPS: u64 = 12;

/// Two checkpoints have a place in the cache.
fn small(settings: &[&str]) -> Cluster {
    place(&[&["SCR_CACHE_SIZE=2"], settings].concat()).helped()
}

/// Goes on from step `from` and writes a checkpoint at each step up to `steps`; then `after` it.
fn write(rank: &Rank, from: u64, steps: u64, after: impl Fn(&Sim)) -> Sim {
    let mut sim = Sim::new(rank);
    sim.restart(rank, from, 1);
    while sim.step < steps {
        sim.step(rank);
        sim.checkpoint(rank);
        rank.calm();
        after(&sim);
    }
    sim
}

/// Nothing was told but that the flush could not keep up, which depends on the machine.
fn is_only_behind(told: &[String]) -> bool {
    told.iter().all(|line| line.contains("SCR-4016"))
}

fn read(rank: &Rank, steps: impl Iterator<Item = u64>) -> Vec<Option<Sim>> {
    steps.map(|step| Sim::read(rank, step)).collect()
}

/// Deletes this rank's file of a step, and the directory with the last one.
fn delete(rank: &Rank, step: u64) {
    rank.files.unlink(&file(step, rank.rank)).unwrap();
    let _ = rank.files.rmdir(&format!("ckpt/step_{step}"));
}

/// Writes checkpoints and deletes each when so many newer ones are complete.
fn write_last(rank: &Rank, from: u64, steps: u64, distance: u64) -> Sim {
    write(rank, from, steps, |sim| {
        if sim.step > distance {
            delete(rank, sim.step - distance);
        }
        rank.barrier();
    })
}

#[test]
fn a_program_reads_at_its_end_what_it_has_not_deleted() {
    let program = |rank: &Rank| {
        write(rank, 0, STEPS, |_| ());
        let best = read(rank, [3].into_iter());
        let backwards = read(rank, (1..=STEPS).rev());
        rank.finish();
        let after = read(rank, 1..=STEPS);
        (best, backwards, after)
    };
    let (plain, cluster) = (place(&[]), small(&[]));
    let want = plain.run_plain(HOSTS, program);
    let got = cluster.run(HOSTS, program);
    assert_eq!(want.results, got.results, "{:?}", got.told);
    assert!(got.first().1.iter().all(Option::is_some));
    assert_same_files(&plain.tree(), &cluster.tree(), &got.told);
    assert!(cluster.cached("ab").is_empty() && is_only_behind(&got.told), "{:?}", got.told);
}

#[test]
fn what_was_kept_is_there_after_a_crash() {
    let cluster = small(&[]);
    cluster.run(HOSTS, |rank| write(rank, 0, 7, |_| ()).step).all();
    let again = cluster.run(HOSTS, |rank| {
        let before = read(rank, 1..=7);
        let mut sim = Sim::new(rank);
        let from = sim.restart(rank, 7, 1);
        write(rank, 7, STEPS, |_| ());
        let after = read(rank, 1..=STEPS);
        rank.finish();
        (before, from, after)
    });
    for (before, from, after) in again.all() {
        assert_eq!((before.iter().flatten().count(), *from), (7, 7), "{:?}", again.told);
        assert_eq!(after.iter().flatten().count() as u64, STEPS, "{:?}", again.told);
    }
    assert_eq!(cluster.steps_on_prefix().len() as u64, STEPS);
}

#[test]
fn a_program_that_deletes_its_older_ones_costs_the_prefix_nothing() {
    for distance in [1, 2] {
        let program = |rank: &Rank| write_last(rank, 0, STEPS, distance).checksum(rank);
        let cluster = small(&[]);
        let got = cluster.run(HOSTS, |rank| {
            let sum = program(rank);
            let before = (cluster.steps_on_prefix(), cluster.datasets());
            rank.barrier();
            rank.finish();
            (sum, before)
        });
        let none: (Vec<String>, Vec<String>) = Default::default();
        assert!(got.all().iter().all(|(_, before)| *before == none), "{got:?}");
        let plain = place(&[]);
        let want = plain.run_plain(HOSTS, program);
        assert_eq!(got.first().0, *want.first());
        assert_same_files(&plain.tree(), &cluster.tree(), &got.told);
    }
}

#[test]
fn the_distance_at_which_a_series_deletes_is_known_to_the_next_run() {
    let (distance, cluster) = (5, small(&[]));
    let killed = cluster.run(HOSTS, |rank| write_last(rank, 0, 9, distance).step);
    killed.all();
    let known = cluster.datasets();
    assert!(known.len() <= 4, "more than a few were flushed: {known:?}");
    let again = cluster.run(HOSTS, |rank| {
        let begun = cluster.datasets();
        rank.barrier();
        // A deletion right before a kill may be undone.
        let _ = rank.files.unlink(&file(4, rank.rank));
        write_last(rank, 9, 20, distance);
        let (left, here) = (cluster.datasets(), read(rank, 16..=20));
        rank.barrier();
        rank.finish();
        (begun, left, here)
    });
    let (begun, left, here) = again.first();
    // The one that a restart goes on from is flushed.
    assert!(left.len() <= begun.len() + 1, "{begun:?} {left:?}");
    assert!(here.iter().all(Option::is_some));
    assert_eq!(cluster.steps_on_prefix(), ["step_16", "step_17", "step_18", "step_19", "step_20"]);
}

#[test]
fn a_program_that_alternates_two_names_costs_the_prefix_nothing() {
    let cluster = small(&[]);
    let got = cluster.run(HOSTS, |rank| {
        let mut sim = Sim::new(rank);
        for at in 0..8 {
            sim.step(rank);
            rank.files.make_dir("ckpt").unwrap();
            rank.files.make_dir(&format!("ckpt/step_{}", at % 2)).unwrap();
            rank.files.write_file(&file(at % 2, rank.rank), &sim.bytes()).unwrap();
            rank.calm();
        }
        let before = cluster.steps_on_prefix();
        rank.barrier();
        rank.finish();
        (before, rank.files.read_file(&file(1, rank.rank)).ok() == Some(sim.bytes()))
    });
    assert!(got.all().iter().all(|(before, same)| before.is_empty() && *same), "{got:?}");
    assert_eq!(cluster.steps_on_prefix(), ["step_0", "step_1"]);
}

/// The last checkpoint of a run that dies then; rank 1 could not write its file in full.
fn write_short(rank: &Rank, sim: &mut Sim, opens: bool) {
    sim.step(rank);
    let name = file(sim.step, rank.rank);
    if rank.rank != 1 {
        sim.checkpoint(rank);
    } else if opens {
        sim.checkpoint(rank);
        rank.files.unlink(&name).unwrap();
    } else {
        let early = format!("ckpt/not_made/{name}");
        assert!(rank.files.write_file(&early, b"x").is_err());
    }
    rank.calm();
    rank.calm();
}

#[test]
fn a_checkpoint_that_lacks_a_file_drops_no_whole_one() {
    for (opens, flush) in [(false, "0"), (false, "")] {
        for lacking in [1, 3] {
            let mut cluster = place(&["SCR_CACHE_SIZE=1"]).helped();
            if !flush.is_empty() {
                cluster.set(&format!("SCR_FLUSH={flush}"));
            }
            let died = cluster.run(HOSTS, |rank| {
                let mut sim = write(rank, 0, 5, |_| ());
                (0..lacking).for_each(|_| write_short(rank, &mut sim, opens));
                sim.step
            });
            died.all();
            let again = cluster.run(HOSTS, |rank| {
                let from = Sim::new(rank).restart(rank, 8, 1);
                rank.finish();
                from
            });
            let case = format!("opens: {opens}, SCR_FLUSH={flush}, {lacking}: {:?}", again.told);
            assert!(again.all().iter().all(|from| **from == 5), "{case} {:?}", again.results);
        }
    }
}

#[test]
fn what_the_prefix_takes_too_slowly_goes_there_at_once() {
    let program = |rank: &Rank| {
        write(rank, 0, STEPS, |_| ());
        let here = read(rank, 1..=STEPS);
        rank.finish();
        here
    };
    let (plain, cluster) = (place(&[]), small(&["SCR_FLUSH_ASYNC_BW=1"]));
    let want = plain.run_plain(HOSTS, program);
    let got = cluster.run(HOSTS, program);
    assert_eq!(want.results, got.results, "{:?}", got.told);
    assert_same_files(&plain.tree(), &cluster.tree(), &got.told);
    assert!(!got.told.is_empty() && is_only_behind(&got.told), "{:?}", got.told);
}

#[test]
fn with_a_flush_of_the_user_the_older_ones_go() {
    let cluster = small(&["SCR_FLUSH=5"]);
    let got = cluster.run(HOSTS, |rank| {
        write(rank, 0, STEPS, |_| ());
        let here = read(rank, 1..=STEPS);
        rank.finish();
        here
    });
    let there = |at: usize| got.first()[at - 1].is_some();
    let found: Vec<usize> = (1..=STEPS as usize).filter(|at| there(*at)).collect();
    assert_eq!(found, [5, 10, 11, 12], "{:?}", got.told);
    assert_eq!(cluster.steps_on_prefix(), ["step_5", "step_10", "step_12"]);
}
