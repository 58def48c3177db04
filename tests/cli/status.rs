//! `scr status` on what runs have left: a live one, one that ended, one that was killed.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use scr_core::files::lease::{Taken, take};
use scr_core::records::{
    Dataset, FlushState, HaltFile, IndexEntry, Location, PrefixIndex, Record as _, RecordKey,
    RunDataset, RunEnd, RunEvent, RunFlush, RunNode, RunPace, RunPassed, RunRecord, Timestamp,
};
use serde_json::{Value, json};

use super::{code, err, out, scr};

const STARTED: u64 = 1_700_000_000;

/// A run of two nodes with two checkpoints, the older one on the prefix.
pub fn record() -> RunRecord {
    let dataset = |name: &str| RunDataset {
        name: name.into(),
        complete: true,
        in_cache: true,
        files: 4,
        bytes: 4096,
        cached: 3072,
        sealed: STARTED + 10,
        seal_seconds: Some(0.25),
        exposed_seconds: Some(0.75),
        ..RunDataset::default()
    };
    let flush = RunFlush { seconds: Some(1.5), ..RunFlush::default() };
    let older = RunDataset { on_prefix: true, flush, ..dataset("checkpoint 10") };
    let sealed = RunPace { bytes: 8192, nanos: 500_000_000 };
    let node = |ranks| RunNode { ranks, files: 2, bytes: 2048, sealed, ..RunNode::default() };
    let event = RunEvent {
        time: STARTED as f64 + 10.5,
        what: "SEALED".into(),
        text: "checkpoint 20".into(),
    };
    let passed = RunPassed { files: 3, bytes: 300, example: "run.log".into() };
    RunRecord {
        launch: "00000000000000ff".into(),
        user: "me".into(),
        job: "77".into(),
        version: "0.1.0".into(),
        mpi: "Open MPI v4.1.4".into(),
        ranks: 4,
        started: STARTED,
        updated: STARTED + 11,
        patterns: "SCR_CHECKPOINT_PATTERN=ckpt_{id}/**".into(),
        protection: vec!["XOR in /dev/shm, failure group NODE: every checkpoint".into()],
        nodes: [("n1".to_owned(), node(2)), ("n2".to_owned(), node(2))].into(),
        datasets: [(1, older), (2, dataset("checkpoint 20"))].into(),
        events: vec![event],
        passed: [("it is never quiet".to_owned(), passed)].into(),
        ..RunRecord::default()
    }
}

/// A prefix that has it.
pub fn prefix(record: &RunRecord) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join(".scr")).expect("a directory");
    record.write(&dir.path().join(".scr/run.scr")).expect("a record");
    dir
}

fn ask(dir: &Path) -> (Option<i32>, Value) {
    let output = scr(dir, &["status", "--json"]).output().expect("it runs");
    let value = serde_json::from_str(&out(&output));
    (code(&output), value.unwrap_or_else(|_| panic!("{}{}", out(&output), err(&output))))
}

fn screen(dir: &Path) -> String {
    let output = scr(dir, &["status"]).env("TZ", "UTC").output().expect("it runs");
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    out(&output)
}

#[test]
fn a_live_run_is_told_from_one_that_was_killed() {
    let dir = prefix(&record());
    let holder = format!("host n1, process 7, {STARTED}");
    let Taken::Ours(lease) =
        take(&dir.path().join(".scr/lease"), &holder, std::time::Duration::ZERO, || ()).unwrap()
    else {
        panic!("nobody else has it")
    };
    let (status, told) = ask(dir.path());
    assert_eq!(
        (status, &told["state"], &told["holder"]),
        (Some(0), &json!("running"), &json!(holder))
    );
    assert!(screen(dir.path()).contains("running since 2023-11-14 22:13:20"));
    drop(lease);
    assert_eq!(ask(dir.path()).1["state"], "died");
    let text = screen(dir.path());
    assert!(text.contains("it died") && text.contains("cache when last seen"), "{text}");
}

#[test]
fn the_screen_has_what_a_person_asks_for() {
    let dir = prefix(&RunRecord {
        end: Some(RunEnd { how: "END".into(), time: STARTED + 3700 }),
        passed_of_all: true,
        ..record()
    });
    HaltFile { checkpoints_left: Some(3), ..HaltFile::default() }
        .write(&dir.path().join(".scr/halt.scr"))
        .unwrap();
    let mut index = PrefixIndex::default();
    let dataset = written(1, "10");
    index.insert(IndexEntry {
        id: 1,
        dir: "scr.dataset.1".into(),
        complete: true,
        flushed: Some(Timestamp::from_unix_seconds(STARTED + 20)),
        dataset: Some(dataset),
        ..IndexEntry::default()
    });
    index.write(&dir.path().join(".scr/index.scr")).unwrap();
    let text = screen(dir.path());
    for part in [
        "came to its end at 2023-11-14 23:15:00",
        "after 1 h 1 min",
        "4 ranks on 2 nodes, Open MPI v4.1.4",
        "XOR in /dev/shm",
        "from checkpoint 20 (dataset 2) in the caches; without these from checkpoint 10 \
         (dataset 1)",
        "16.00 KiB/s",
        "halt after 3 more checkpoints",
        "checkpoint 20",
        "0.25 s",
        "1.50 s",
        "it is never quiet",
        "run.log",
        "SEALED",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (status, told) = ask(dir.path());
    assert_eq!(status, Some(0));
    assert_eq!(told["state"], "ended");
    assert_eq!(told["restart"]["name"], "checkpoint.10");
    assert_eq!(told["restart"]["flushed"], "2023-11-14T22:13:40Z");
    assert_eq!(told["halt"]["checkpoints"], 3);
    let node = &told["run"]["nodes"]["n2"];
    for (key, value) in [
        ("ranks", 2.0),
        ("files", 2.0),
        ("bytes", 2048.0),
        ("sealed_bytes", 8192.0),
        ("seal_seconds", 0.5),
    ] {
        assert_eq!(node[key].as_f64(), Some(value), "{key}");
    }
    assert_eq!(told["run"]["datasets"][1]["seal_seconds"], 0.25);
    assert_eq!(told["run"]["datasets"][1]["exposed_seconds"], 0.75);
    assert_eq!(told["run"]["passed"][0]["reason"], "it is never quiet");
}

/// A dataset of the series `checkpoint`.
fn written(id: u64, step: &str) -> Dataset {
    let (series, id_in_names) = ("checkpoint".to_owned(), step.to_owned());
    let key = RecordKey { series, id: id_in_names, generation: 0 };
    Dataset { id, name: key.name(), key, ..Dataset::default() }
}

#[test]
fn what_only_caches_have_is_told_of_a_dead_run() {
    let dir = prefix(&record());
    let mut flush = FlushState::default();
    flush.set(2, Location::Cache);
    flush.set_name(2, "checkpoint.20");
    flush.write(&dir.path().join(".scr/flush.scr")).unwrap();
    assert_eq!(ask(dir.path()).1["only_in_caches"], json!([{ "id": 2, "name": "checkpoint.20" }]));
    let line = "only the nodes' caches have checkpoint 20 (dataset 2): scr scavenge";
    assert!(screen(dir.path()).contains(line), "{}", screen(dir.path()));
    // One of a time, with a dot in its name, is older than that of the prefix.
    flush.set_name(2, "checkpoint.0.45");
    flush.write(&dir.path().join(".scr/flush.scr")).unwrap();
    let mut index = PrefixIndex::default();
    index.insert(IndexEntry {
        id: 3,
        dir: "scr.dataset.3".into(),
        complete: true,
        dataset: Some(written(3, "0.5")),
        ..IndexEntry::default()
    });
    index.write(&dir.path().join(".scr/index.scr")).unwrap();
    assert_eq!(ask(dir.path()).1["only_in_caches"], json!([]));
    // A name that a message has is one for commands.
    for name in ["checkpoint 0.5", "checkpoint.0.5", "3"] {
        let output = scr(dir.path(), &["index", "current", name]).output().unwrap();
        assert_eq!(code(&output), Some(0), "{name}: {}", err(&output));
    }
}

#[test]
fn a_flush_is_followed_node_by_node() {
    let dir = prefix(&record());
    let journal = dir.path().join(".scr/journal/2");
    std::fs::create_dir_all(&journal).unwrap();
    for name in ["part.0.scr", "part.2.scr", "staged.0.scr"] {
        File::create(journal.join(name)).unwrap();
    }
    assert!(screen(dir.path()).contains("flushing: 1 of 2 nodes"), "{}", screen(dir.path()));
    let told = ask(dir.path()).1;
    assert_eq!(told["run"]["datasets"][1]["flush_nodes"], json!({ "done": 1, "of": 2 }));
    let bytes = ["bytes", "cached_bytes"].map(|key| &told["run"]["datasets"][1][key]);
    assert_eq!(bytes, [&json!(4096), &json!(3072)]);
}

#[test]
fn no_run_and_a_damaged_record_have_exit_statuses_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let (status, told) = ask(dir.path());
    assert_eq!((status, &told["state"], &told["run"]), (Some(1), &json!("none"), &Value::Null));
    std::fs::create_dir(dir.path().join(".scr")).unwrap();
    std::fs::write(dir.path().join(".scr/run.scr"), "text").unwrap();
    let output = scr(dir.path(), &["status"]).output().unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(err(&output).contains("run.scr is damaged"), "{}", err(&output));
}

#[test]
fn top_is_for_terminals() {
    let dir = prefix(&record());
    let output = scr(dir.path(), &["top"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(err(&output).contains("no terminal") && out(&output).is_empty(), "{}", err(&output));
}
