//! Files that a pattern matches and that are never quiet: they are found, told once, and left
//! alone.

use super::cluster::{Cluster, Rank};
use super::scene::{assert_same_files, check_message, place};
use super::sim::Sim;

const PATTERN: &str = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat, ckpt/*.log";
const STEPS: u64 = 160;
const EVERY: u64 = 20;
const DIES_AT: u64 = 150;

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    /// Of each rank, it stays open for the whole run, with a line for each step.
    Open,
    /// Of each rank, opened, appended to and closed at each step.
    Append,
    /// All ranks append to one, in turn.
    Shared,
}

fn line(rank: &Rank, sim: &Sim) -> String {
    format!("rank {} has passed step {}\n", rank.rank, sim.step)
}

/// Checkpoints, and a log beside them; what it came to if it was not killed.
fn logs(rank: &Rank, log: Log, dies: bool) -> Option<u64> {
    let mut sim = Sim::new(rank);
    let of = if log == Log::Shared { 0 } else { rank.rank };
    let name = format!("ckpt/run_{of}.log");
    rank.files.make_dir("ckpt").unwrap();
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND;
    let open = (log == Log::Open).then(|| rank.files.open(&name, flags).unwrap());
    while sim.step < STEPS {
        sim.step(rank);
        match &open {
            Some(open) => open.write(line(rank, &sim).as_bytes()).unwrap(),
            None if log == Log::Append => rank.files.append(&name, &line(rank, &sim)).unwrap(),
            None => {
                for turn in 0..rank.size {
                    rank.barrier();
                    if turn == rank.rank {
                        rank.files.append(&name, &line(rank, &sim)).unwrap();
                    }
                }
            }
        }
        if sim.step.is_multiple_of(EVERY) {
            sim.checkpoint(rank);
        }
        if dies && sim.step == DIES_AT {
            rank.barrier();
            return None;
        }
        rank.calm();
    }
    open.into_iter().for_each(|open| open.close().unwrap());
    let checksum = sim.checksum(rank);
    rank.finish();
    Some(checksum)
}

fn with(told: &[String], words: &str) -> Vec<String> {
    told.iter().filter(|line| line.contains(words)).cloned().collect()
}

/// Later checkpoints are sealed in time, and the next run knows it.
fn never_quiet(log: Log, learn: &str) {
    let plain = place(&[]);
    let cluster = place(&[PATTERN, learn, "SCR_DEBUG=1", "SCR_FLUSH=1"]);
    for run in 0..2 {
        let want = plain.run_plain("aa", |rank| logs(rank, log, false));
        let got = cluster.run("aa", |rank| logs(rank, log, false));
        assert_eq!(want.results, got.results, "{log:?} {learn}");
        assert_same_files(&plain.tree(), &cluster.tree(), &got.told);
        let told = with(&got.told, "never quiet: open, or appended to");
        match run {
            0 => {
                let ignore = "SCR_IGNORE_PATTERN=ckpt/run_";
                check_message(&told, &["ckpt/run_", "SCR_CHECKPOINT_PATTERN", ignore]);
            }
            _ => assert_eq!(told, [""; 0], "told again"),
        }
        // Not all of them at the very end. The second run writes each once more.
        let at = |words: &[&str]| {
            got.told.iter().position(|line| words.iter().all(|word| line.contains(word)))
        };
        let (before, last) = (at(&["checkpoint 120 is on "]), at(&["checkpoint 160", "is sealed"]));
        let in_time = before.zip(last).is_some_and(|(before, last)| before < last);
        assert!(in_time, "{log:?} {learn} {run}: {:?}", got.told);
    }
}

#[test]
fn log_that_stays_open() {
    ["SCR_LEARN=0", "SCR_LEARN=1"].into_iter().for_each(|learn| never_quiet(Log::Open, learn));
}

#[test]
fn log_that_is_appended_to_at_every_step() {
    ["SCR_LEARN=0", "SCR_LEARN=1"].into_iter().for_each(|learn| never_quiet(Log::Append, learn));
}

#[test]
fn log_that_all_ranks_append_to() {
    never_quiet(Log::Shared, "SCR_LEARN=1");
}

fn here() -> Cluster {
    place(&[PATTERN, "SCR_FLUSH=0"])
}

/// The lines of a rank's log on the prefix.
fn lines(cluster: &Cluster, rank: usize) -> Vec<String> {
    let text = std::fs::read_to_string(cluster.prefix().join(format!("ckpt/run_{rank}.log")));
    text.unwrap().lines().map(str::to_string).collect()
}

#[test]
fn log_that_stays_open_in_a_run_that_is_killed() {
    // It began in the cache. Known to be never quiet, it goes on on the PFS, where it is whole.
    let cluster = here();
    let died = cluster.run("aa", |rank| logs(rank, Log::Open, true));
    assert_eq!(died.all(), [&None; 2]);
    let (told, no_room) = (with(&died.told, "never quiet"), with(&died.told, "no room"));
    assert!(!told.is_empty() && no_room.is_empty(), "{:?}", died.told);
    for rank in 0..2 {
        let want = (1..=DIES_AT).map(|step| format!("rank {rank} has passed step {step}"));
        assert!(lines(&cluster, rank).into_iter().eq(want), "{:?}", lines(&cluster, rank).last());
    }
}

#[test]
fn log_beside_checkpoints_that_a_killed_run_leaves() {
    // The log of the run that dies is on the PFS as far as it was written, since it is left alone;
    // the next run finds it there, and the checkpoint in the cache.
    let mut cluster = here();
    cluster.run("aa", |rank| logs(rank, Log::Append, false)).all();
    cluster.run("aa", |rank| logs(rank, Log::Append, true)).all();
    let last = lines(&cluster, 0).pop().unwrap();
    assert!(last.ends_with("step 150"), "the log of the dead run ends with {last}");
    let again = cluster.run_with(&["SCR_DEBUG=1"], "aa", |rank| logs(rank, Log::Append, false));
    assert!(again.first().is_some());
    assert!(!with(&again.told, "checkpoint 140 is in the cache").is_empty(), "{:?}", again.told);
}
