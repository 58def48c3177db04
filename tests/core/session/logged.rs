//! The log of events: one for each thing that happens, and for nothing else.

use std::collections::BTreeSet;
use std::fs;

use scr_core::events::{Logged, parse_line};

use super::cluster::Cluster;
use super::scene::place;
use super::settings::killed_at_17;
use super::sim::{scan, steady};

const LOGGED: &str = "SCR_LOG_ENABLE=1";

/// The log's events, or those that are wanted; the log begins anew.
pub fn events(cluster: &Cluster, wanted: &[&str]) -> Vec<Logged> {
    let path = cluster.prefix().join(".scr/log");
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let all = text.lines().map(|line| parse_line(line).unwrap_or_else(|| panic!("{line}")));
    all.filter(|one| wanted.is_empty() || wanted.contains(&one.get("event"))).collect()
}

#[test]
fn the_text_log_has_the_times_of_the_zone_that_the_launch_was_given() {
    for (zone, offset) in [("Asia/Kolkata", "+05:30: "), ("No/Where", "+00:00: ")] {
        let cluster = place(&["SCR_FLUSH=1", LOGGED, &format!("TZ={zone}")]);
        cluster.run("aa", |rank| steady(10, 5).run(rank));
        let text = fs::read_to_string(cluster.prefix().join(".scr/log")).unwrap();
        assert!(text.lines().count() > 4, "{text}");
        let right = |line: &str| {
            line.get("2026-11-26T02:05:56".len()..).is_some_and(|rest| rest.starts_with(offset))
        };
        assert!(text.lines().all(right), "{text}");
    }
}

/// Event, dataset and note of each.
fn told(found: &[Logged]) -> Vec<[&str; 3]> {
    found.iter().map(|one| ["event", "dset", "note"].map(|key| one.get(key))).collect()
}

/// Whether the program computes just while it writes nothing. The second checkpoint may begin
/// before it is known that the first was complete.
fn take_turns(phases: &[&Logged]) -> bool {
    let (mut computes, mut writes) = (false, BTreeSet::new());
    for one in phases {
        let right = match one.get("event") {
            "COMPUTE_BEGIN" => !std::mem::replace(&mut computes, true) && writes.is_empty(),
            "COMPUTE_END" => std::mem::replace(&mut computes, false),
            "CHECKPOINT_BEGIN" => !computes && writes.insert(one.get("name")),
            _ => writes.remove(one.get("name")),
        };
        if !right {
            return false;
        }
    }
    !computes && writes.is_empty()
}

#[test]
fn what_the_program_computes_before_a_late_seal_is_no_cost_of_the_checkpoint() {
    let cluster = place(&["SCR_FLUSH=0", LOGGED]);
    let computes = std::time::Duration::from_millis(400);
    let got = cluster.run("a", |rank| {
        rank.files.make_dir("ckpt").unwrap();
        let mut took = Vec::new();
        for step in 1..4 {
            let begin = std::time::Instant::now();
            rank.files.make_dir(&format!("ckpt/step_{step}")).unwrap();
            rank.files.write_file(&format!("ckpt/step_{step}/rank_0.dat"), b"state").unwrap();
            std::thread::sleep(computes);
            rank.calm();
            took.push(begin.elapsed());
        }
        rank.finish();
        took
    });
    let costs = events(&cluster, &["CHECKPOINT_END"]);
    let costs: Vec<f64> = costs.iter().map(|one| one.get("secs").parse().unwrap()).collect();
    let rest = got.first().iter().map(|took| (*took - computes).as_secs_f64() + 0.001);
    assert!(
        costs.len() == 3 && costs.iter().zip(rest).all(|(cost, rest)| *cost <= rest),
        "{costs:?}"
    );
}

#[test]
fn phases_and_the_window_are_logged() {
    // Computing and writing take turns; what leaves the prefix is named.
    for flush in [&[][..], &["SCR_FLUSH_ASYNC=1", "SCR_CACHE_SIZE=4"]] {
        let usual = ["SCR_FLUSH=1", "SCR_PREFIX_SIZE=3", LOGGED];
        let cluster = place(&[&usual, flush].concat()).helped();
        let got = cluster.run("aa", |rank| steady(20, 5).run(rank));
        assert_eq!(got.told, [""; 0]);
        let found = events(&cluster, &[]);
        let of = |event: &str| found.iter().filter(|one| one.get("event") == event).collect();
        let is_phase = |one: &&Logged| {
            ["COMPUTE_", "CHECKPOINT_"].iter().any(|kind| one.get("event").starts_with(kind))
        };
        let phases: Vec<&Logged> = found.iter().filter(is_phase).collect();
        let (ends, seals): (Vec<&Logged>, Vec<&Logged>) = (of("CHECKPOINT_END"), of("SEALED"));
        let ids: Vec<_> = ends.iter().map(|one| one.get("dset")).collect();
        assert_eq!(ids, ["1", "2", "3", "4"], "{found:?}");
        assert!(take_turns(&phases), "{found:?}");
        let seconds = |one: &Logged| one.get("secs").parse::<f64>().unwrap();
        let timed = phases.iter().filter(|one| one.get("event").ends_with("END"));
        assert!(timed.map(|one| seconds(one)).all(|it| 0.0 < it && it < 60.0), "{found:?}");
        let longer = ends.iter().zip(&seals).all(|(end, seal)| seconds(end) >= seconds(seal));
        assert!(longer, "{found:?}");
        // From the last close to the end of the seal, in milliseconds.
        let exposed: Vec<&Logged> = of("EXPOSED");
        let ids: Vec<_> = exposed.iter().map(|one| one.get("dset")).collect();
        assert_eq!(ids, ["1", "2", "3", "4"], "{found:?}");
        let mut all = exposed.iter().zip(&seals);
        let longer = all.all(|(exposed, seal)| seconds(seal) - 0.002 <= seconds(exposed));
        assert!(longer, "{found:?}");
        let first: Vec<_> = found.iter().take(3).map(|one| one.get("event")).collect();
        assert_eq!(first, ["START", "STARTED", "COMPUTE_BEGIN"]);
        let gone: Vec<&Logged> = of("DELETED");
        assert_eq!(gone.len(), 1, "{found:?}");
        assert_eq!((gone[0].get("dset"), gone[0].get("name")), ("1", "checkpoint 5"));
        assert!(gone[0].get("note").contains("SCR_PREFIX_SIZE"), "{found:?}");
    }
}

#[test]
fn what_a_start_does_is_logged() {
    // A cache that is taken over or cleared, what goes to the prefix before the program runs, a
    // prefix that is purged.
    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    cluster.run_with(&[LOGGED], "aaa", scan);
    let note = "the cache of a run with 2 ranks";
    let found = events(&cluster, &["TAKEOVER", "PUBLISHED", "WITHHELD"]);
    let kinds: Vec<_> = found.iter().map(|one| one.get("event")).collect();
    assert_eq!(kinds[..2], ["TAKEOVER", "PUBLISHED"], "{found:?}");
    assert!(found[0].get("note") == note && !found[0].get("secs").is_empty(), "{found:?}");
    let last = found.last().unwrap();
    let from = format!("from {note}");
    assert_eq!((last.get("name"), last.get("note")), ("checkpoint 15", &*from));
    cluster.run_with(&["SCR_PREFIX_PURGE=1", LOGGED], "aa", scan);
    let ids = found[1..].iter().rev().map(|one| one.get("dset"));
    let want: Vec<_> = ids.map(|id| ["DELETED", id, "SCR_PREFIX_PURGE=1"]).collect();
    assert_eq!(told(&events(&cluster, &["DELETED"])), want);

    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    cluster.run_with(&["SCR_PREFIX_SIZE=1", LOGGED], "aaa", scan);
    let found = events(&cluster, &["PUBLISHED", "DELETED"]);
    let of = |event: &str| {
        let those = found.iter().filter(|one| one.get("event") == event);
        those.map(|one| (one.get("dset"), one.get("note"))).collect::<Vec<_>>()
    };
    let (come, gone) = (of("PUBLISHED"), of("DELETED"));
    assert!(
        come.len() > 1 && gone.iter().all(|one| one.1.contains("SCR_PREFIX_SIZE")),
        "{found:?}"
    );
    assert!(gone.iter().map(|one| one.0).eq(come.iter().rev().skip(1).rev().map(|one| one.0)));

    let mut cluster = place(&[]);
    killed_at_17(&mut cluster, "0");
    cluster.run_with(&["SCR_GLOBAL_RESTART=1", LOGGED], "aa", scan);
    let found = events(&cluster, &["FLUSH_BEGIN", "FLUSH_END", "CLEARED"]);
    let order: Vec<_> = found.iter().map(|one| (one.get("event"), one.get("dset"))).collect();
    let flush = |id| [("FLUSH_BEGIN", id), ("FLUSH_END", id)];
    assert_eq!(order, [&flush("2")[..], &flush("3"), &[("CLEARED", "")]].concat());
    cluster.run_with(&["SCR_CACHE_PURGE=1", LOGGED], "aa", scan);
    let cleared = ["the cache (SCR_CACHE_PURGE=1)", "the cache: the end of the run"];
    let want = cleared.map(|note| ["CLEARED", "", note]);
    assert_eq!(told(&events(&cluster, &["CLEARED"])), want);
}

#[test]
fn the_end_and_what_the_index_forgets_are_logged() {
    // The cache is cleared once all is on the prefix; what SCR_DROP_AFTER_CURRENT drops is told.
    let mut cluster = place(&["SCR_FLUSH=1", LOGGED]);
    cluster.run("aa", |rank| steady(20, 5).run(rank)).all();
    let want = [["CLEARED", "", "the cache: the end of the run"], ["END", "", ""]];
    assert_eq!(told(&events(&cluster, &["CLEARED", "END"])), want);
    cluster.run_with(&["SCR_CURRENT=10", "SCR_DROP_AFTER_CURRENT=1"], "aa", scan);
    let found = events(&cluster, &["FORGOTTEN", "DELETED"]);
    let names = found.iter().map(|one| ["event", "dset", "name"].map(|key| one.get(key)));
    let want = [["FORGOTTEN", "4", "checkpoint 20"], ["FORGOTTEN", "3", "checkpoint 15"]];
    assert!(names.eq(want), "{found:?}");
}
