//! What somebody else does to the prefix between two runs: he deletes it and makes it anew, takes
//! checkpoints away, edits a pointer. His word counts; and nothing of another simulation comes in.

use std::fs;

use super::cluster::{Cluster, Outcome, Rank};
use super::scene::{check_message, place};
use super::settings::{killed_at_17, plain};
use super::sim::{Sim, Went, file, steady};

fn goes_on(cluster: &mut Cluster, settings: &[&str]) -> Outcome<Went> {
    cluster.run_with(settings, "aa", |rank| steady(40, 5).run(rank))
}

fn begins(got: &Outcome<Went>, restart: u64) {
    assert_eq!(*got.first(), Went { restart, checksum: plain(40, 5) }, "{:?}", got.told);
}

/// A run with two checkpoints in the cache that the prefix has not.
fn crashed() -> Cluster {
    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    cluster
}

fn made_anew(cluster: &Cluster) {
    fs::remove_dir_all(cluster.prefix()).unwrap();
    fs::create_dir(cluster.prefix()).unwrap();
}

const ANEW: &[&str] = &["checkpoint 15 (dataset 3)", "was made anew", "SCR_CACHE_ADOPT=1"];

#[test]
fn a_prefix_that_was_deleted_and_made_anew() {
    let mut cluster = crashed();
    made_anew(&cluster);
    let got = goes_on(&mut cluster, &[]);
    begins(&got, 0);
    check_message(&got.told, ANEW);
    // Of .scr alone.
    let mut cluster = crashed();
    fs::remove_dir_all(cluster.prefix().join(".scr")).unwrap();
    let got = goes_on(&mut cluster, &[]);
    begins(&got, 0);
    check_message(&got.told, ANEW);
}

#[test]
fn what_was_made_for_the_one_before_can_be_had_until_there_is_a_newer_one() {
    // At once, and after a run that did not come to its first checkpoint.
    let killed = |cluster: &mut Cluster, step| {
        cluster.run_with(&["SCR_FLUSH=0"], "aa", |rank| steady(40, 5).killed_at(step).run(rank));
    };
    for killed_before in [false, true] {
        let mut cluster = crashed();
        made_anew(&cluster);
        if killed_before {
            killed(&mut cluster, 3);
        }
        begins(&goes_on(&mut cluster, &["SCR_CACHE_ADOPT=1"]), 15);
    }
    // The cache has the new run's own after that.
    let mut cluster = crashed();
    made_anew(&cluster);
    killed(&mut cluster, 17);
    let got = goes_on(&mut cluster, &["SCR_CACHE_ADOPT=1"]);
    begins(&got, 15);
    check_message(&got.told, &["checkpoint 15 (written 2 times) is in the cache"]);
    assert_eq!(cluster.datasets().len(), 2, "{:?}", got.told);
}

#[test]
fn a_prefix_that_has_lost_its_identity_alone() {
    for damage in [None, Some("damaged")] {
        let mut cluster = crashed();
        let identity = cluster.prefix().join(".scr/prefix.scr");
        match damage {
            None => fs::remove_file(&identity).unwrap(),
            Some(text) => fs::write(&identity, text).unwrap(),
        }
        begins(&goes_on(&mut cluster, &[]), 15);
        assert!(identity.exists());
    }
}

#[test]
fn the_cache_of_a_prefix_that_was_made_anew_is_not_scavenged() {
    let cluster = crashed();
    made_anew(&cluster);
    assert_eq!(cluster.scavenge("a"), [""; 0]);
    assert_eq!(cluster.tree().len(), 0);
}

/// A run whose first checkpoints are on the prefix, and two newer ones in the cache alone.
fn crashed_later(settings: &[&str]) -> Cluster {
    let mut cluster = place(&[&["SCR_FLUSH=2"], settings].concat());
    let got = cluster.run_with(&[], "aa", |rank| steady(40, 5).killed_at(27).run(rank));
    assert_eq!(got.first().restart, 0);
    let there = cluster.steps_on_prefix();
    assert!(there.contains(&"step_20".into()) && !there.contains(&"step_25".into()), "{there:?}");
    cluster
}

fn remove(cluster: &Cluster, name: &str) {
    fs::remove_dir_all(cluster.prefix().join(name)).unwrap();
}

const REMOVED: &[&str] = &["somebody has deleted", "SCR_CURRENT=checkpoint."];

#[test]
fn a_checkpoint_directory_that_somebody_has_deleted() {
    // With what was on the prefix, and with nothing there but directories; made anew or not.
    for (flush, made_anew) in [(true, false), (true, true), (false, false)] {
        let mut cluster = if flush { crashed_later(&[]) } else { crashed() };
        remove(&cluster, "ckpt");
        if made_anew {
            fs::create_dir(cluster.prefix().join("ckpt")).unwrap();
        }
        // His word holds for later starts, too.
        for _ in 0..2 {
            let got = cluster.run("aa", |rank| steady(40, 5).killed_at(3).run(rank));
            assert_eq!(got.first().restart, 0, "{:?}", got.told);
            check_message(&got.told, REMOVED);
        }
        let newest = if flush { 25 } else { 15 };
        begins(&goes_on(&mut cluster, &[&format!("SCR_CURRENT=checkpoint.{newest}")]), newest);
    }
}

#[test]
fn a_directory_of_one_name_for_all_that_somebody_has_deleted() {
    // The program deletes its older file before each checkpoint, which is no such word.
    for (flush, somebody) in [("0", true), ("0", false), ("2", true), ("2", false)] {
        let pattern = "SCR_CHECKPOINT_PATTERN=state/main.{rank}";
        let cluster = place(&[pattern, &format!("SCR_FLUSH={flush}")]).helped();
        let own = |rank: &Rank| format!("state/main.{}", rank.rank);
        cluster.run("aa", |rank| {
            let _ = rank.files.make_dir("state");
            for step in 1..=7 {
                let _ = rank.files.unlink(&own(rank));
                rank.files.write_file(&own(rank), format!("{step}").as_bytes()).unwrap();
                rank.calm();
            }
        });
        if somebody {
            remove(&cluster, "state");
        }
        let got = cluster.run("aa", |rank| rank.files.read_file(&own(rank)).unwrap_or_default());
        let want: &[u8] = if somebody { b"" } else { b"7" };
        assert!(got.results.iter().flatten().all(|it| it == want), "{flush} {somebody}: {got:?}");
        let told = got.told.iter().any(|line| line.contains("somebody has deleted"));
        assert_eq!(told, somebody, "{:?}", got.told);
    }
}

#[test]
fn what_a_start_has_found_gone_is_no_removal_for_the_next_one() {
    // The run came to its end, and somebody begins afresh.
    let mut cluster = place(&["SCR_FLUSH=2"]);
    begins(&goes_on(&mut cluster, &[]), 0);
    remove(&cluster, "ckpt");
    let later = &["SCR_FLUSH=99"];
    let got = cluster.run_with(later, "aa", |rank| steady(40, 5).killed_at(17).run(rank));
    assert_eq!(got.first().restart, 0, "{:?}", got.told);
    // The directory changes later than what the run has in the cache.
    fs::create_dir(cluster.prefix().join("ckpt/notes")).unwrap();
    let got = goes_on(&mut cluster, later);
    begins(&got, 15);
    assert!(!got.told.iter().any(|line| line.contains("deleted")), "{:?}", got.told);
}

#[test]
fn the_newest_ones_that_somebody_has_deleted_to_go_back() {
    let mut cluster = crashed_later(&[]);
    remove(&cluster, "ckpt/step_20");
    let got = goes_on(&mut cluster, &[]);
    begins(&got, 10);
    check_message(&got.told, REMOVED);
    // What comes then is the run's own.
    let mut cluster = crashed_later(&[]);
    remove(&cluster, "ckpt/step_20");
    let got = cluster.run("aa", |rank| steady(40, 5).killed_at(17).run(rank));
    assert_eq!(got.first().restart, 10, "{:?}", got.told);
    begins(&goes_on(&mut cluster, &[]), 15);
}

#[test]
fn what_the_program_or_a_clean_up_deletes_is_no_word_for_newer_ones() {
    // Older ones make room.
    let mut cluster = crashed_later(&[]);
    remove(&cluster, "ckpt/step_10");
    begins(&goes_on(&mut cluster, &[]), 25);
    // The program deletes the one before it, also before it writes, on the prefix or not.
    for (flush, early) in [("2", false), ("2", true), ("0", false), ("0", true)] {
        let mut cluster = place(&[&format!("SCR_FLUSH={flush}")]);
        let first = |rank: &Rank| rank.rank == 0;
        let got = cluster.run_with(&[], "aa", |rank| {
            let mut sim = Sim::new(rank);
            while sim.step < 27 {
                sim.step(rank);
                if !sim.step.is_multiple_of(5) {
                    continue;
                }
                let before = |back: u64| sim.step.saturating_sub(back);
                let delete = |step: u64| {
                    if step > 0 && step < sim.step {
                        rank.files.unlink(&file(step, rank.rank)).unwrap();
                        rank.barrier();
                        if first(rank) {
                            rank.files.rmdir(&format!("ckpt/step_{step}")).unwrap();
                        }
                    }
                    rank.barrier();
                };
                if early {
                    delete(before(5));
                }
                if sim.step == 25 && early {
                    return; // nothing is left that the program has not deleted
                }
                sim.checkpoint(rank);
                rank.calm();
                if !early {
                    delete(before(5));
                }
            }
            rank.calm();
        });
        assert!(got.told.is_empty(), "{flush} {early}: {:?}", got.told);
        let restart = if early { 20 } else { 25 };
        begins(&goes_on(&mut cluster, &[]), restart);
    }
}
