//! With which checkpoint a run begins: what the user chooses, what is damaged, lost, or of others.

use std::fs;
use std::path::Path;

use super::cluster::{Cluster, Outcome, Rank};
use super::scene::{check_message, place, wait_until_recorded};
use super::settings::{killed_at_17, plain};
use super::sim::{Went, scan, steady, steps};

/// A run of four checkpoints that are all on the prefix.
fn ended_at_20() -> Cluster {
    let mut cluster = place(&[]);
    let got = cluster.run_with(&["SCR_FLUSH=1"], "aa", |rank| steady(20, 5).run(rank));
    assert_eq!((got.first().restart, &got.told), (0, &Vec::new()));
    cluster
}

/// The checkpoints that a run finds, and what it is told.
fn seen(cluster: &mut Cluster, settings: &[&str], hosts: &str) -> (Vec<String>, Vec<String>) {
    let got = cluster.run_with(settings, hosts, scan);
    (steps(got.first()).into_iter().map(str::to_string).collect(), got.told)
}

fn goes_on(cluster: &mut Cluster, settings: &[&str]) -> Outcome<Went> {
    cluster.run_with(settings, "aa", |rank| steady(40, 5).run(rank))
}

/// All ranks are killed at step 17 of a run that writes its first checkpoint at step 30.
fn killed_before_any(cluster: &mut Cluster, settings: &[&str]) {
    let settings = [&["SCR_FLUSH=0"], settings].concat();
    cluster.run_with(&settings, "aa", |rank| steady(40, 30).killed_at(17).run(rank)).all();
}

#[test]
fn newer_ones_are_forgotten_after_current() {
    let mut cluster = ended_at_20();
    seen(&mut cluster, &["SCR_CURRENT=10"], "aa");
    assert_eq!(cluster.datasets().len(), 4);
    seen(&mut cluster, &["SCR_CURRENT=10", "SCR_DROP_AFTER_CURRENT=1"], "aa");
    assert_eq!(cluster.datasets().len(), 2);
}

#[test]
fn what_the_run_has_left_stays_hidden() {
    // Taken back to an older checkpoint, it flushes others: those between do not come back.
    let mut cluster = ended_at_20();
    let back = ["SCR_FLUSH=1", "SCR_CURRENT=10"];
    let back = cluster.run_with(&back, "aa", |rank| steady(11, 1).run(rank));
    assert_eq!(back.first().restart, 10, "{:?}", back.told);
    let (steps, told) = seen(&mut cluster, &[], "aa");
    assert_eq!((steps, told), (["step_5", "step_10", "step_11"].map(String::from).into(), vec![]));
}

#[test]
fn newer_than_scr_current() {
    // It hides what is newer, on the prefix and in the cache.
    let mut cluster = ended_at_20();
    let (found, _) = seen(&mut cluster, &["SCR_CURRENT=10"], "aa");
    assert_eq!(found, ["step_5", "step_10"]);
    // It is the current one from then on, until the user chooses another.
    let (found, told) = seen(&mut cluster, &[], "aa");
    assert_eq!(found, ["step_5", "step_10"]);
    check_message(&told, &["SCR_CURRENT=checkpoint.20"]);
    assert_eq!(seen(&mut cluster, &["SCR_CURRENT=checkpoint.20"], "aa").0.len(), 4);
    let (found, told) = seen(&mut cluster, &[], "aa");
    assert_eq!((found.len(), told), (4, vec![]));
    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    let got = goes_on(&mut cluster, &["SCR_CURRENT=10"]);
    assert_eq!(*got.first(), Went { restart: 10, checksum: plain(40, 5) }, "{:?}", got.told);
}

#[test]
fn back_to_a_checkpoint_that_only_the_cache_has() {
    // Nothing older is on the prefix: later starts begin there, too, before anything came to the
    // prefix, after it came there itself, and after the next one did.
    for then in ["killed", "ended", "went on"] {
        let mut cluster = place(&[]);
        killed_at_17(&mut cluster, "3");
        assert_eq!(cluster.steps_on_prefix(), ["step_15"]);
        let back = "SCR_CURRENT=10";
        match then {
            "killed" => {
                let newest = cluster.cached("a").into_iter();
                let newest = newest.filter(|path| path.ends_with("scr.dataset.3"));
                newest.for_each(|path| fs::remove_dir_all(path).unwrap());
                killed_before_any(&mut cluster, &[back, "SCR_FLUSH_ASYNC_BW=1"]);
            }
            "ended" => drop(seen(&mut cluster, &[back], "aa")),
            _ => {
                let settings = ["SCR_FLUSH=1", back];
                cluster.run_with(&settings, "aa", |rank| steady(11, 1).run(rank)).all();
            }
        }
        let (found, told) = seen(&mut cluster, &[], "aa");
        let newest = if then == "went on" { "step_11" } else { "step_10" };
        assert!(!found.contains(&"step_15".to_string()), "{then}: {found:?} {told:?}");
        assert_eq!(found.last().unwrap(), newest, "{then}: {told:?}");
    }
}

#[test]
fn back_to_an_older_checkpoint_of_those_that_only_the_cache_has() {
    // Killed before its first new checkpoint, the run does not come back to what it has left, with
    // another number of ranks neither; the user can, and what follows comes back.
    for hosts in ["aa", "aaa"] {
        let mut cluster = place(&[]);
        killed_at_17(&mut cluster, "0");
        killed_before_any(&mut cluster, &["SCR_CURRENT=10"]);
        let (found, told) = seen(&mut cluster, &[], hosts);
        assert!(!found.contains(&"step_15".to_string()), "{hosts}: {found:?} {told:?}");
        assert_eq!(found.last().map(String::as_str), Some("step_10"), "{hosts}: {told:?}");
        let says = "newer ones are hidden from the program: checkpoint.15.";
        assert!(told.iter().any(|line| line.contains(says)), "{hosts}: {told:?}");
    }
    let hidden = |told: &[String]| told.iter().any(|line| line.contains("hidden"));
    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    killed_before_any(&mut cluster, &["SCR_CURRENT=10"]);
    killed_before_any(&mut cluster, &["SCR_CURRENT=checkpoint.15"]);
    let (found, told) = seen(&mut cluster, &[], "aa");
    assert!(found.ends_with(&["step_10".into(), "step_15".into()]), "{found:?} {told:?}");
    assert!(!hidden(&told), "{told:?}");
    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    killed_before_any(&mut cluster, &["SCR_CURRENT=10"]);
    killed_at_17(&mut cluster, "0"); // it comes to a step 15 of its own
    let (found, told) = seen(&mut cluster, &[], "aa");
    assert_eq!(found.last().map(String::as_str), Some("step_15"), "{told:?}");
    assert!(!hidden(&told), "{told:?}");
}

#[test]
fn a_lost_checkpoint_ends_the_run_if_so_wished() {
    // Not from an older checkpoint; without the wish from the older one.
    let mut cluster = ended_at_20();
    fs::write(cluster.prefix().join("ckpt/step_20/rank_0.dat"), "short").unwrap();
    let got = goes_on(&mut cluster, &["SCR_RESTART_REQUIRED=1"]);
    assert_eq!((&got.results[..], &got.statuses[..]), (&[None; 2][..], &[Some(1); 2][..]));
    let told = got.told.join("\n");
    assert!(
        told.contains("SCR_RESTART_REQUIRED=1: the run ends") && told.contains("ckpt"),
        "{told}"
    );
    let (found, told) = seen(&mut cluster, &["SCR_FETCH=0"], "aa");
    assert!(found.contains(&"step_20".to_string()) && told.is_empty(), "{found:?} {told:?}");
    for bypass in ["SCR_FETCH_BYPASS=0", "SCR_FETCH_BYPASS=1"] {
        // The older one is current now, wherever it is read.
        let (found, told) = seen(&mut cluster, &[bypass], "aa");
        assert!(!found.contains(&"step_20".to_string()), "{found:?}");
        check_message(&told, &["checkpoint.20"]);
    }
    assert_eq!(goes_on(&mut cluster, &[]).first().restart, 15);
}

#[test]
fn a_damaged_checkpoint_on_the_prefix() {
    // A scan does not find it, the restart takes the one before, and its name can be used again.
    let mut cluster = ended_at_20();
    let want = place(&["SCR_FLUSH=1"]);
    want.run_plain("aa", |rank| steady(40, 5).run(rank)).all();
    cut(&cluster.prefix().join("ckpt/step_20/rank_1.dat"));
    let found = cluster.run("aa", scan);
    let files = "rank_0.dat rank_1.dat";
    assert_eq!(*found.first(), [5, 10, 15].map(|step| format!("step_{step} {files}")));
    check_message(&found.told, &["step_20/rank_1.dat has 100 bytes"]);
    let got = goes_on(&mut cluster, &["SCR_FLUSH=1"]);
    assert_eq!(*got.first(), Went { restart: 15, checksum: plain(40, 5) }, "{:?}", got.told);
    assert_eq!(cluster.tree(), want.tree());
    let (found, told) = seen(&mut cluster, &[], "aa");
    assert_eq!((found.len(), told), (8, vec![]));
}

/// Killed when the flush file on the prefix tells that checkpoint 15 was complete.
fn killed_when_known(rank: &Rank, cluster: &Cluster) {
    steady(40, 5).killed_at(17).run_and(rank, |sim| {
        if sim.step == 15 {
            wait_until_recorded(rank, cluster);
        }
    });
}

#[test]
fn a_checkpoint_of_which_no_node_is_left_is_told_of() {
    // Nobody has a record of it; the flush file on the prefix tells that it was complete.
    let mut cluster = place(&["SCR_FLUSH=0"]).helped();
    cluster.run("aa", |rank| killed_when_known(rank, &cluster)).all();
    cluster.lose('a');
    let ended = goes_on(&mut cluster, &["SCR_RESTART_REQUIRED=1", "SCR_LOG_ENABLE=1"]);
    assert_eq!((&ended.results[..], &ended.statuses[..]), (&[None; 2][..], &[Some(1); 2][..]));
    let says = |words: &str| ended.told.iter().any(|line| line.contains(words));
    assert!(says("checkpoint.15") && says("SCR_RESTART_REQUIRED"), "{:?}", ended.told);
    let found = super::logged::events(&cluster, &["WITHHELD", "HALT", "EXIT", "END"]);
    let names: Vec<_> = found.iter().map(|one| one.get("event")).collect();
    assert_eq!(names, ["WITHHELD", "HALT", "EXIT"]);
    assert_eq!((found[0].get("dset"), found[0].get("name")), ("3", "checkpoint.15"));
    assert!(found[0].get("note").contains("no node"), "{found:?}");
    assert!(found[1].get("note").contains("SCR_RESTART_REQUIRED"), "{found:?}");
    let went = goes_on(&mut cluster, &[]);
    assert_eq!(went.first().restart, 0);
    check_message(&went.told, &["checkpoint.15"]);
    assert_eq!(seen(&mut cluster, &[], "aa").1, [""; 0]);
}

#[test]
fn empty_directories_of_what_is_lost_go() {
    // Also where the program reads the newest that is left on the prefix; others stay.
    let mut cluster = place(&["SCR_FLUSH=2"]).helped();
    cluster.run("aa", |rank| killed_when_known(rank, &cluster)).all();
    assert_eq!(cluster.steps_on_prefix(), ["step_10"]);
    cluster.lose('a');
    let ckpt = cluster.prefix().join("ckpt");
    fs::create_dir(ckpt.join("other")).unwrap();
    assert!(ckpt.join("step_15").is_dir());
    let (_, told) = seen(&mut cluster, &["SCR_FETCH_BYPASS=1"], "aa");
    let goes_on = format!("goes on from checkpoint.10, which {} has", cluster.prefix().display());
    check_message(&told, &["checkpoint.15 (dataset 3)", &goes_on]);
    let left = fs::read_dir(ckpt).unwrap().flatten().map(|entry| entry.file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, ["other", "step_10", "step_5"]);
}

#[test]
fn directories_that_a_script_makes_between_two_runs_stay() {
    let mut cluster = ended_at_20();
    let dir = cluster.prefix().join("ckpt/step_25");
    fs::create_dir(&dir).unwrap();
    cluster.run_with(&[], "aa", |_: &Rank| assert!(dir.is_dir())).all();
}

#[test]
fn what_a_node_has_waits_until_the_node_is_back() {
    // A launch without it cannot have the checkpoint, and ends well: the rest of it stays.
    let cluster = place(&["SCR_FLUSH=0"]);
    cluster.run("ab", |rank| steady(40, 5).killed_at(17).run(rank)).all();
    let (node, away) = (cluster.node('b'), cluster.node('b').with_file_name("away"));
    fs::rename(&node, &away).unwrap();
    let has =
        |got: &Outcome<Vec<String>>| got.first().iter().any(|line| line.starts_with("step_15 "));
    let no_rank = |told: &[String]| -> Vec<String> {
        told.iter().filter(|line| line.contains("no rank")).cloned().collect()
    };
    let got = cluster.run("ab", scan);
    assert!(!has(&got) && no_rank(&got.told).is_empty(), "{:?}", got.told);
    // Both ranks on the other node: the message names the one that is left out.
    for _ in 0..2 {
        let got = cluster.run("aa", scan);
        assert!(!has(&got), "{:?}", got.told);
        let where_it_is = "rank 1 ran on node_b, where this launch has no rank";
        check_message(&no_rank(&got.told), &["checkpoint 15 (dataset 3)", where_it_is]);
    }
    fs::remove_dir_all(&node).unwrap();
    fs::rename(&away, &node).unwrap();
    let got = cluster.run("ab", scan);
    assert!(got.first().contains(&"step_15 rank_0.dat rank_1.dat".to_string()), "{:?}", got.told);
}

#[test]
fn another_program_between_crash_and_restart() {
    // The cache stays when something else runs on the node in between.
    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    cluster.run("a", |rank: &Rank| rank.finish()).all();
    let got = goes_on(&mut cluster, &[]);
    assert_eq!(*got.first(), Went { restart: 15, checksum: plain(40, 5) }, "{:?}", got.told);
}

#[test]
fn learned_from_the_first_run() {
    // The first checkpoint of an unknown series goes to the prefix, watched; what was learned holds
    // for the next run, which caches from its first one on.
    let cluster = place(&["SCR_LEARN=1", "SCR_FLUSH=0"]);
    for expected in [&["step_5", "step_20"][..], &["step_20"][..]] {
        let got = cluster.run("aa", |rank| steady(20, 5).run(rank));
        assert_eq!(got.first().checksum, plain(20, 5));
        assert_eq!(cluster.steps_on_prefix(), expected, "{:?}", got.told);
        fs::remove_dir_all(cluster.prefix().join("ckpt")).unwrap();
        cluster.lose('a');
    }
}

#[test]
fn two_jobs_on_one_prefix() {
    // The second launch is pass-through with a message; both end well.
    let cluster = place(&[]);
    let first = cluster.run("aa", |rank| {
        let second = std::sync::Mutex::new(None);
        let went = steady(40, 5).run_and(rank, |sim| {
            if sim.step == 15 && rank.rank == 0 {
                let other = || cluster.run("aa", |rank| steady(40, 5).run(rank));
                let other = std::thread::scope(|scope| scope.spawn(other).join().unwrap());
                *second.lock().unwrap() = Some((*other.first(), other.told));
            }
            rank.barrier();
        });
        (went.checksum, second.into_inner().unwrap())
    });
    let (checksum, second) = first.first();
    let (second, told) = second.as_ref().unwrap();
    check_message(told, &["another run uses"]);
    assert_eq!((*checksum, second.checksum), (plain(40, 5), plain(40, 5)));
}

#[test]
fn a_copy_that_was_cut_short() {
    // Its times are all new, as of files that the user has put there himself.
    for bypass in ["SCR_FETCH_BYPASS=0", "SCR_FETCH_BYPASS=1"] {
        let mut cluster = place(&["SCR_FLUSH=1"]);
        cluster.run("aa", |rank| steady(10, 5).run(rank)).all();
        let step = cluster.prefix().join("ckpt/step_10");
        let mut again = |is_cut: bool| {
            if is_cut {
                cut(&step.join("rank_1.dat"));
            }
            touch(&step);
            cluster.lose('a');
            let last = if is_cut { 5 } else { 10 };
            cluster.run_with(&[bypass], "aa", |rank| steady(last, 5).run(rank))
        };
        let whole = again(false);
        assert_eq!((whole.first().restart, &whole.told), (10, &Vec::new()), "{bypass}");
        let got = again(true);
        assert_eq!(got.first().restart, 5, "{bypass}");
        let told = "ckpt/step_10/rank_1.dat has 100 bytes, and had 528 when it was complete";
        check_message(&got.told, &[told, "hidden from the program"]);
    }
}

fn cut(file: &Path) {
    fs::File::options().write(true).open(file).unwrap().set_len(100).unwrap();
}

/// All files of a directory have the times of a minute later, as if they had been copied there.
fn touch(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
        let file = fs::File::options().write(true).open(entry.path()).unwrap();
        file.set_modified(later).unwrap();
    }
}

#[test]
fn contents_that_cannot_be_compared() {
    // The program wrote the first checkpoint to the prefix itself: nobody has a checksum of it.
    let cluster = place(&["SCR_FLUSH=1", "SCR_LEARN=1"]);
    assert_eq!(cluster.run("aa", |rank| steady(5, 5).run(rank)).told, [""; 0]);
    cluster.lose('a');
    let whole = cluster.run("aa", scan);
    assert!(steps(whole.first()) == ["step_5"] && whole.told.is_empty(), "{:?}", whole.told);
    let file = cluster.prefix().join("ckpt/step_5/rank_1.dat");
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 0x55;
    fs::write(&file, bytes).unwrap();
    let got = cluster.run("aa", scan);
    assert_eq!(steps(got.first()), ["step_5"]);
    let told = "ckpt/step_5/rank_1.dat was written to after it was complete";
    check_message(&got.told, &["have no checksum", told]);
}

#[test]
fn it_is_told_where_the_checkpoint_is_that_a_run_finds() {
    for (learn, place_of) in [("SCR_LEARN=0", "in the cache"), ("SCR_LEARN=1", "on /")] {
        let cluster = place(&[learn, "SCR_FLUSH=0"]);
        cluster.run("aa", |rank| steady(40, 5).killed_at(7).run(rank)).all();
        let got = cluster.run("aa", |rank| steady(10, 5).run(rank));
        assert_eq!(got.first().restart, 5, "{:?}", got.told);
        check_message(&got.told, &[&format!("checkpoint 5 is {place_of}"), "(SCR-3101)"]);
    }
}

#[test]
fn what_the_program_has_written_to_the_prefix_is_not_in_the_cache() {
    let pattern = "SCR_CHECKPOINT_PATTERN=ckpt/step_{id}/*";
    let cluster = place(&["SCR_LEARN=1", "SCR_SHARED=0", "SCR_FLUSH=0", pattern]);
    cluster.run("ab", |rank| {
        for step in 1..=4 {
            let _ = rank.files.make_dir("ckpt");
            let _ = rank.files.make_dir(&format!("ckpt/step_{step}"));
            let own = format!("ckpt/step_{step}/rank_{}.dat", rank.rank);
            rank.files.write_file(&own, &[7; 500]).unwrap();
            let all = format!("ckpt/step_{step}/all");
            let file = rank.files.open(&all, libc::O_RDWR | libc::O_CREAT).unwrap();
            file.write_at(&[8; 3000], rank.rank as u64 * 3000).unwrap();
            file.close().unwrap();
            rank.calm();
        }
    });
    let next = cluster.run("ab", |rank| rank.finish());
    let told = "checkpoint 4 is in the cache, but for 6000 bytes on /";
    check_message(&next.told, &[told, "(SCR-3101)"]);
}
