//! Settings that change what a run does: each test fails if its parameter is ignored.

use std::fs;

use scr_core::records::{HaltFile, Record as _};

use super::cluster::Cluster;
use super::scene::{assert_same_files, check_message, place, wait_for};
use super::sim::{Went, scan, steady};

/// What `steady` comes to without SCR.
pub fn plain(steps: u64, every: u64) -> Option<u64> {
    place(&[]).run_plain("aa", |rank| steady(steps, every).run(rank)).first().checksum
}

/// Leaves checkpoints 5, 10 and 15 in the cache only.
pub fn killed_at_17(cluster: &mut Cluster, flush: &str) {
    cluster.set(&format!("SCR_FLUSH={flush}"));
    cluster.run("aa", |rank| steady(40, 5).killed_at(17).run(rank)).all();
}

fn halt(cluster: &Cluster, file: HaltFile) {
    let folder = cluster.prefix().join(".scr");
    fs::create_dir_all(&folder).unwrap();
    file.write(&folder.join(HaltFile::NAME)).unwrap();
}

#[test]
fn switched_off_by_the_file() {
    let cluster = place(&[]);
    fs::write(cluster.prefix().join(".scrconf"), "SCR_ENABLE=0\n").unwrap();
    let got = cluster.run("aa", |rank| steady(10, 5).run(rank));
    assert_eq!((got.first().checksum, &got.told), (plain(10, 5), &Vec::new()));
    assert_eq!(cluster.steps_on_prefix(), ["step_5", "step_10"]);
    let made = fs::read_dir(cluster.node('a').join("store")).unwrap().count();
    assert!(made == 0 && !cluster.prefix().join(".scr").exists(), "{made}");
}

#[test]
fn a_learned_dataset_enters_the_index() {
    let cluster = place(&["SCR_LEARN=1", "SCR_FLUSH=0"]);
    cluster.run("aa", |rank| steady(20, 5).run(rank)).all();
    assert_eq!(cluster.steps_on_prefix(), ["step_5", "step_20"]);
    assert_eq!(cluster.datasets().len(), 2);
}

#[test]
fn what_is_said_to_be_the_ranks_own_is_cached_from_the_first() {
    // It is said of each pattern of the series, or it is watched.
    let own = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/rank_{rank}.dat:own, ckpt/latest";
    for (latest, on_prefix) in [(":own", &["step_20"][..]), ("", &["step_5", "step_20"])] {
        let cluster = place(&["SCR_LEARN=1", "SCR_FLUSH=0", &format!("{own}{latest}")]);
        let got = cluster.run("aa", |rank| steady(20, 5).run(rank));
        assert_eq!(cluster.steps_on_prefix(), on_prefix, "{:?}", got.told);
    }
}

#[test]
fn halt_after_a_number_of_checkpoints() {
    let mut cluster = place(&["SCR_FLUSH=0", "SCR_HALT_STATUS=7"]);
    halt(&cluster, HaltFile { checkpoints_left: Some(2), ..HaltFile::default() });
    let got = cluster.run("aa", |rank| steady(40, 5).run(rank));
    assert_eq!((&got.statuses[..], &got.results[..]), (&[Some(7); 2][..], &[None; 2][..]));
    check_message(&got.told, &["SCR_NO_CHECKPOINTS_LEFT"]);
    let newest = cluster.steps_on_prefix();
    assert_eq!(newest, ["step_10"], "nothing was flushed: {:?}", got.told);
    cluster.unset("SCR_HALT_STATUS");
    let again = cluster.run("aa", |rank| steady(40, 5).run(rank));
    assert_eq!(*again.first(), Went { restart: 10, checksum: plain(40, 5) });
}

#[test]
fn halt_at_the_start() {
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let end = format!("SCR_END_TIME={}", now() + 3000);
    let cluster = place(&[&end, "SCR_HALT_SECONDS=3600"]);
    let ended = |cluster: &Cluster| {
        let got = cluster.run("aa", |rank| steady(20, 5).run(rank));
        assert_eq!((&got.statuses[..], &got.results[..]), (&[Some(0); 2][..], &[None; 2][..]));
        assert!(got.told.iter().any(|line| line.contains("SCR_EXIT_BEFORE")), "{:?}", got.told);
    };
    ended(&cluster);
    // Without the wish it does not end, nor does it leave a reason for the next run to end.
    let cluster = place(&[&end]);
    let went = cluster.run("aa", |rank| steady(20, 5).run(rank));
    assert!(went.first().checksum.is_some() && went.told.is_empty(), "{:?}", went.told);
    halt(&cluster, HaltFile { exit_before: Some(now()), ..HaltFile::default() });
    ended(&cluster);
}

#[test]
fn halt_that_only_flushes() {
    let mut cluster = place(&["SCR_FLUSH=0", "SCR_HALT_EXIT=0"]);
    let reason = Some("maintenance".to_string());
    halt(&cluster, HaltFile { exit_reason: reason, ..HaltFile::default() });
    let got = cluster.run("aa", |rank| steady(40, 5).run(rank));
    let told = got.told.iter().filter(|line| line.contains("maintenance")).count();
    assert!(got.first().checksum.is_some() && told == 1, "{:?}", got.told);
    cluster.unset("SCR_HALT_EXIT");
    let stopped = cluster.run("aa", |rank| steady(80, 5).run(rank));
    assert_eq!(stopped.results, [None, None]);
    check_message(&stopped.told, &["maintenance"]);
}

#[test]
fn output_leaves_the_cache_once_it_is_on_the_prefix() {
    // Unless it is a checkpoint, too: then those are kept that a restart may need.
    let pattern = "SCR_OUTPUT_PATTERN=ckpt/step_{id}/rank_{rank}.dat";
    for (checkpoint, kept) in [(false, &[][..]), (true, &[10, 15][..])] {
        let mut cluster = place(&["SCR_FLUSH=0", pattern]);
        if !checkpoint {
            cluster.unset("SCR_CHECKPOINT_PATTERN");
        }
        let got = cluster.run("aa", |rank| {
            let there = || (cluster.files_in_cache("a"), cluster.steps_on_prefix());
            let seen = std::cell::RefCell::default();
            steady(20, 5).run_and(rank, |sim| {
                if sim.step == 15 {
                    *seen.borrow_mut() = there();
                }
                rank.barrier();
            });
            seen.into_inner()
        });
        let (cached, on_prefix) = got.first();
        let has = |step: &i32| {
            cached.iter().any(|path| path.to_string_lossy().contains(&format!("step_{step}/")))
        };
        let found: Vec<_> = [5, 10, 15].into_iter().filter(has).collect();
        assert_eq!((&found[..], &got.told), (kept, &Vec::new()), "{cached:?}");
        assert_eq!(*on_prefix, ["step_5", "step_10", "step_15"]);
    }
}

#[test]
fn flush_in_the_background() {
    // On the prefix, with its summary, while the program makes no MPI call.
    let (want, prefix) = {
        let plain = place(&[]);
        let want = plain.run_plain("aa", |rank| steady(40, 5).run(rank));
        (*want.first(), plain.tree())
    };
    let cluster = place(&["SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"]).helped();
    let got = cluster.run("aa", |rank| {
        steady(40, 5).run_and(rank, |sim| {
            let is_there = || {
                let step = format!("step_{}", sim.step);
                cluster.steps_on_prefix().contains(&step)
                    && cluster.datasets().len() as u64 == sim.step / 5
            };
            if sim.step == 15 {
                wait_for(is_there);
            }
        })
    });
    assert_eq!((*got.first(), &got.told), (want, &Vec::new()));
    assert_same_files(&prefix, &cluster.tree(), &got.told);
    assert_eq!(cluster.datasets().len(), 8);
}

#[test]
fn marks_of_what_was_waited_for_are_settled_at_the_start() {
    // Threads of an earlier launch had begun to publish a dataset; nobody goes on with that.
    let cluster = place(&[]);
    let marks = cluster.prefix().join(".scr/background/7");
    fs::create_dir_all(&marks).unwrap();
    fs::write(marks.join("done.0.scr"), "cut short").unwrap();
    let got = cluster.run("aa", |rank| steady(20, 5).run(rank));
    assert!(!marks.exists() && got.told.is_empty(), "{:?}", got.told);
}

#[test]
fn only_the_newest_checkpoints_stay_on_the_prefix() {
    let cluster = place(&["SCR_FLUSH=1", "SCR_PREFIX_SIZE=3"]);
    let got = cluster.run("aa", |rank| steady(40, 5).run(rank));
    assert_eq!(got.told, [""; 0]);
    assert_eq!(cluster.steps_on_prefix(), ["step_30", "step_35", "step_40"]);
    assert_eq!(cluster.datasets().len(), 3);
}

#[test]
fn purges() {
    // The run begins anew, the old files are gone.
    let mut cluster = place(&["SCR_FLUSH=1"]);
    cluster.run("aa", |rank| steady(20, 5).run(rank)).all();
    cluster.set("SCR_PREFIX_PURGE=1");
    cluster.set("SCR_FLUSH=0");
    let got = cluster.run("aa", |rank| steady(10, 5).run(rank));
    assert_eq!(got.first().restart, 0);
    check_message(&got.told, &["SCR_PREFIX_PURGE"]);
    assert_eq!(cluster.steps_on_prefix(), ["step_10"]);
    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    cluster.set("SCR_CACHE_PURGE=1");
    let got = cluster.run("aa", |rank| steady(40, 5).run(rank));
    assert_eq!((got.first().restart, &got.told), (0, &Vec::new()));
}

#[test]
fn the_cache_of_another_launch_is_left_as_it_is() {
    // The message says how to use it, and how to be rid of it.
    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    let cached = cluster.files_in_cache("a");
    assert!(!cached.is_empty());
    cluster.set("SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*");
    let got = cluster.run("aa", scan);
    let words = ["belongs to another launch", "SCR_FLUSH_ON_RESTART", "SCR_CACHE_PURGE"];
    check_message(&got.told, &words);
    assert_eq!(cluster.files_in_cache("a"), cached);
    cluster.set("SCR_CACHE_PURGE=1");
    let got = cluster.run("aa", scan);
    check_message(&got.told, &["no checkpoint was protected: the program wrote no file"]);
    assert!(cluster.files_in_cache("a").is_empty());
}

#[test]
fn fewer_ranks_on_some_of_the_nodes_cannot_take_a_cache_over_and_lose_nothing() {
    let cluster = place(&["SCR_COPY_TYPE=XOR", "SCR_FLUSH=0"]);
    cluster.run("abcd", |rank| steady(40, 5).killed_at(17).run(rank)).all();
    let got = cluster.run("ab", scan);
    let told = got.told.join("\n");
    let words = ["checkpoint 15 (dataset 3) cannot be put together", "ranks 2, 3", "scr scavenge"];
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
    assert!(!told.contains("had again") && !told.contains("nothing in it is newer"), "{told}");
    let got = cluster.run("abcd", |rank| steady(40, 5).run(rank));
    assert_eq!(got.first().restart, 15, "{:?}", got.told);
}

#[test]
fn published_before_the_program_runs() {
    // What only the cache has, if so wished.
    for (setting, kept) in [
        ("SCR_FLUSH_ON_RESTART=1", true),
        ("SCR_GLOBAL_RESTART=1", false),
        ("SCR_DISTRIBUTE=0", false),
    ] {
        let mut cluster = place(&[]);
        killed_at_17(&mut cluster, "0");
        assert!(cluster.tree().is_empty());
        cluster.set(setting);
        cluster.set("SCR_DEBUG=1");
        let seen = cluster.run("aa", |rank| {
            let there = cluster.steps_on_prefix();
            (scan(rank), there)
        });
        let says = |text: &str| seen.told.iter().any(|line| line.contains(text));
        assert!(says("15 is written to"), "{setting}: {:?}", seen.told);
        assert_eq!(says("15 is in the cache"), kept, "{setting}: {:?}", seen.told);
        assert_eq!(seen.first().1, ["step_10", "step_15"], "{setting}: {:?}", seen.told);
        let got = cluster.run("aa", |rank| steady(40, 5).run(rank));
        assert_eq!(got.first().restart, 15, "{setting}: {:?}", got.told);
    }
}

#[test]
fn damage_in_the_cache_is_told_of() {
    // SCR_CRC_ON_DELETE looks at what leaves the cache.
    let cluster = place(&["SCR_FLUSH=0", "SCR_CRC_ON_DELETE=1"]);
    let got = cluster.run("aa", |rank| {
        steady(40, 5).run_and(rank, |sim| {
            let damaged = cluster.files_in_cache("a").into_iter();
            let ours = |path: &std::path::PathBuf| path.ends_with("step_15/rank_1.dat");
            for path in damaged.filter(|path| sim.step == 15 && rank.rank == 1 && ours(path)) {
                let size = fs::metadata(&path).unwrap().len() as usize;
                fs::write(path, vec![b'x'; size]).unwrap();
            }
            rank.barrier();
        })
    });
    assert!(got.first().checksum.is_some());
    check_message(&got.told, &["step_15/rank_1.dat", "rank 1"]);
}
