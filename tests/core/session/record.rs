//! The run record on the prefix: what a person sees of a run while it goes on and afterwards.

use std::fs;

use scr_core::operations::{Life, read_status};
use scr_core::records::{FlushState, Record as _, Refusal, RunRecord};

use super::cluster::Cluster;
use super::life::from;
use super::program::{Program, Truth};

fn record(cluster: &Cluster) -> RunRecord {
    RunRecord::read(&cluster.prefix().join(".scr/run.scr")).unwrap().expect("a record")
}

fn program(truth: &Truth, ends: bool) -> Program<'_> {
    Program { launch: 1, steps: 3, ends, by_calls: false, truth }
}

#[test]
fn a_run_that_ended_says_what_became_of_its_checkpoints() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=1", "SCR_FLUSH=10"]);
    let truth = Truth::default();
    let outcome = cluster.launch("aabb", None, |rank| program(&truth, true).run(rank));
    assert_eq!(from(&outcome), None);
    let run = record(&cluster);
    assert_eq!(run.end.as_ref().map(|end| &*end.how), Some("END"), "{run:?}");
    assert_eq!((run.ranks, run.job.as_str(), run.user.as_str()), (4, "1", "me"));
    assert_eq!(run.nodes.keys().collect::<Vec<_>>(), ["node_a", "node_b"]);
    assert!(run.nodes.values().all(|node| node.ranks == 2 && node.bytes == 0), "{run:?}");
    assert!(run.patterns.contains("ckpt/step_{id}"), "{run:?}");
    assert!(run.protection[0].starts_with("XOR in /store"), "{run:?}");
    assert_eq!(run.settings["SCR_CACHE_SIZE"].0, "1");
    assert_eq!(run.datasets.len(), 3);
    assert!(run.datasets.values().all(|one| one.complete && one.files == 4 && !one.in_cache));
    let on_prefix = run.datasets.iter().filter(|(_, one)| one.on_prefix).map(|(id, _)| *id);
    assert_eq!(on_prefix.collect::<Vec<_>>(), [3]);
    for what in ["SEALED", "CONFIRMED", "EVICTED", "FLUSH_BEGIN", "FLUSH_END"] {
        assert!(run.events.iter().any(|event| event.what == what), "{what}: {run:?}");
    }
    assert!(run.passed_of_all && run.passed.is_empty() && run.unmatched.is_none(), "{run:?}");
    let status = read_status(&cluster.prefix());
    assert_eq!((status.life, status.unreadable), (Life::Ended, Vec::new()));
    assert_eq!(status.newest.map(|entry| entry.id), Some(3));
}

#[test]
fn a_run_is_seen_while_it_goes_on() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=XOR"]).helped();
    let truth = Truth::default();
    let prefix = cluster.prefix();
    let outcome = cluster.launch("aabb", None, |rank| {
        let life = program(&truth, false).run(rank);
        // The helper thread writes it, by and by.
        let is_seen = || {
            let run = RunRecord::read(&prefix.join(".scr/run.scr")).unwrap();
            run.is_some_and(|run| run.datasets.get(&3).is_some_and(|one| one.complete))
        };
        while rank.rank == 0 && !is_seen() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        rank.all_max(0).unwrap();
        let seen = read_status(&prefix).life;
        rank.all_max(0).unwrap(); // nobody's lease goes before all have looked
        (life, seen)
    });
    assert!(outcome.all().iter().all(|(_, life)| *life == Life::Runs), "{:?}", outcome.told);
    let run = record(&cluster);
    assert_eq!(run.end, None);
    // Two checkpoints, or one, of four files each: half of them on each node.
    let (one, other) = (&run.nodes["node_a"], &run.nodes["node_b"]);
    assert!(one.files > 0 && one.bytes > 0, "{run:?}");
    assert_eq!(one.files, other.files, "{run:?}");
}

#[test]
fn a_flush_that_takes_its_time_says_how_far_it_is() {
    const BYTES: usize = 1 << 20;
    // Some four seconds, if nobody waited for it.
    let cluster = Cluster::new(&[
        "SCR_COPY_TYPE=SINGLE",
        "SCR_FLUSH=1",
        "SCR_FLUSH_ASYNC=1",
        "SCR_FLUSH_ASYNC_BW=512KB",
    ]);
    let cluster = cluster.helped();
    let path = cluster.prefix().join(".scr").join(FlushState::NAME);
    let file = || FlushState::read(&path).ok().flatten().unwrap_or_default();
    let outcome = cluster.launch("ab", None, |rank| {
        // The first one shows which files a checkpoint has.
        for (step, bytes) in [(1, 1), (2, BYTES)] {
            fs::create_dir_all(cluster.prefix().join(format!("ckpt/step_{step}"))).unwrap();
            rank.all_max(0).unwrap();
            let name = format!("ckpt/step_{step}/rank_{}.dat", rank.rank);
            rank.files.write_file(&name, &vec![7; bytes]).unwrap();
            rank.calm();
        }
        let is_half_there = || file().progress(2).is_some_and(|(done, of)| 0 < done && done < of);
        while rank.rank == 0 && !is_half_there() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let seen = read_status(&cluster.prefix()).flushes.get(&2).copied();
        rank.all_max(0).unwrap();
        rank.finish();
        (rank.rank == 0).then_some(seen)
    });
    let seen = outcome.first().flatten().expect("it is under way");
    assert_eq!((seen.bytes, seen.nodes), (2 * BYTES as u64, 2));
    assert!(0 < seen.bytes_done && seen.bytes_done < seen.bytes, "{seen:?}");
    assert_eq!(file().progress(2), None, "it is over");
}

#[test]
fn what_matched_nothing_and_what_went_past_is_in_the_record() {
    let mut cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE"]);
    cluster.set("SCR_CHECKPOINT_PATTERN=chkp/step_{id}/**");
    let truth = Truth::default();
    let outcome = cluster.launch("ab", None, |rank| program(&truth, true).run(rank));
    assert_eq!(from(&outcome), None);
    let nearest = record(&cluster).unmatched.expect("nothing matched");
    assert!(nearest.contains("chkp where the name has ckpt"), "{nearest}");
    // The first checkpoint of a series that nothing is known of goes past the cache.
    let mut cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE"]);
    cluster.set("SCR_LEARN=1");
    let outcome = cluster.launch("ab", None, |rank| program(&truth, true).run(rank));
    assert_eq!(from(&outcome), None);
    let run = record(&cluster);
    let (reason, passed) = run.passed.iter().next().expect("the first checkpoint");
    assert!(reason.contains("watches") && run.passed_of_all, "{run:?}");
    assert!(passed.files >= 2 && passed.bytes > 0, "{run:?}");
    assert!(passed.example.starts_with("ckpt/step_1/rank_"), "{run:?}");
    let seen = read_status(&cluster.prefix()).run.unwrap();
    assert!(seen.datasets[&1].on_prefix, "it stays there: {seen:?}");
}

#[test]
fn why_a_launch_went_without_scr_is_kept_until_the_next_good_one() {
    let cluster = Cluster::new(&["SCR_COPY_TYPE=SINGLE"]);
    let truth = Truth::default();
    let first = program(&truth, false);
    assert_eq!(from(&cluster.launch("aa", None, |rank| first.run(rank))), None);
    // It is gone without a word.
    assert_eq!(read_status(&cluster.prefix()).life, Life::Died);
    let other = cluster.prefix().join(".scr/refused.scr");
    let refusal = Refusal { time: 1, why: "a reason".into() };
    refusal.write(&other).unwrap();
    assert_eq!(read_status(&cluster.prefix()).refused, Some(refusal));
    let second = Program { launch: 2, steps: 1, ends: true, ..first };
    assert_eq!(from(&cluster.launch("aa", None, |rank| second.run(rank))), Some((3, 1)));
    assert_eq!(read_status(&cluster.prefix()).refused, None);
    assert!(!fs::exists(other).unwrap());
}
