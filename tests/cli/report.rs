//! `scr report` on what runs have left: a log of several, the record of the last one, neither.

use std::path::Path;

use serde_json::{Value, json};

use super::status::{prefix, record};
use super::{code, err, out, scr};

/// A run that dies after its second checkpoint, and one that goes on from that.
const LOG: &str = "\
2023-11-14T22:13:20: user=me, jobid=7, host=n1, event=START, note=\"4 ranks, 2 nodes, /p\"
2023-11-14T22:13:21: user=me, jobid=7, host=n1, event=STARTED, secs=0.500000
2023-11-14T22:23:20: user=me, jobid=7, host=n1, event=SEALED, dset=1, name=\"c <1>\", secs=2.0, \
files=4, bytes=4000
2023-11-14T22:23:20: user=me, jobid=7, host=n1, event=EXPOSED, dset=1, name=\"c <1>\", \
secs=4.25
2023-11-14T22:23:20: user=me, jobid=7, host=n1, event=CHECKPOINT_END, dset=1, \
name=\"c <1>\", secs=9.0
2023-11-14T22:23:40: user=me, jobid=7, host=n1, event=FLUSH_END, dset=1, \
name=\"c <1>\", secs=20.0, files=4, bytes=4000
2023-11-14T22:33:20: user=me, jobid=7, host=n1, event=SEALED, dset=2, name=\"c 2\", secs=2.0, \
files=4, bytes=4000
2023-11-14T22:33:20: user=me, jobid=7, host=n1, event=CHECKPOINT_END, dset=2, \
name=\"c 2\", secs=9.0
2023-11-14T22:36:20: user=me, jobid=7, host=n1, event=EVICTED, dset=2, name=\"c 2\", \
note=\"given up by the program\"
2023-11-14T22:38:20: user=me, jobid=7, host=n1, event=VOIDED, dset=3, name=\"c 3\", note=\"x\"
2023-11-14T23:13:20: user=me, jobid=8, host=n1, event=START, note=\"4 ranks, 3 nodes, /p\"
2023-11-14T23:13:20: user=me, jobid=8, host=n1, event=OFFERED, dset=2, \
name=\"c 2\", files=4, bytes=4000
2023-11-14T23:13:21: user=me, jobid=8, host=n1, event=STARTED, secs=1.000000
2023-11-14T23:43:20: user=me, jobid=8, host=n1, event=PASSED, dset=0, name=\"run.log\", files=3, \
bytes=300, note=\"it is never quiet\"
2023-11-14T23:43:20: user=me, jobid=8, host=n1, event=END, secs=1800.0
";

fn logged() -> tempfile::TempDir {
    with_log(LOG)
}

fn with_log(log: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join(".scr")).expect("a directory");
    std::fs::write(dir.path().join(".scr/log"), log).expect("a log");
    dir
}

fn ask(dir: &Path, words: &[&str]) -> (Option<i32>, Value) {
    let output = scr(dir, &[&["report", "--json"], words].concat()).output().expect("it runs");
    let value = serde_json::from_str(&out(&output));
    (code(&output), value.unwrap_or_else(|_| panic!("{}{}", out(&output), err(&output))))
}

#[test]
fn what_the_program_has_written_to_the_prefix_is_not_cached() {
    let note = |text: &str| {
        let sealed = "secs=2.0, files=4, bytes=4000";
        LOG.replace(sealed, &format!("{sealed}, note=\"{text}\""))
    };
    for (text, cached) in [("on the prefix", 0), ("on the prefix: 3000 bytes", 1000)] {
        let dir = with_log(&note(text));
        let told = ask(dir.path(), &[]).1["runs"][0].clone();
        assert_eq!((&told["bytes"], &told["cached_bytes"]), (&json!(8000), &json!(2 * cached)));
        let one = &told["datasets"][0];
        assert_eq!((&one["bytes"], &one["cached_bytes"]), (&json!(4000), &json!(cached)));
    }
    let told = ask(logged().path(), &[]).1["runs"][0].clone();
    assert_eq!((&told["bytes"], &told["cached_bytes"]), (&json!(8000), &json!(8000)));
}

#[test]
fn a_log_tells_of_all_runs_what_they_cost_and_what_was_saved() {
    let dir = logged();
    let (status, told) = ask(dir.path(), &[]);
    assert_eq!(status, Some(0));
    assert_eq!(told["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(told["runs"][0]["state"], "died");
    assert_eq!(told["runs"][1]["went_on_from"], json!({ "id": 2, "name": "c 2" }));
    assert_eq!(told["runs"][1]["passed"][0]["bytes"], 300);
    let exposed = |at: usize| &told["runs"][0]["datasets"][at]["exposed_seconds"];
    assert_eq!((exposed(0), exposed(1)), (&json!(4.25), &Value::Null));
    let failure = &told["failures"][0];
    assert_eq!(failure["lost_seconds_at_least"], 300);
    assert_eq!(failure["saved_seconds"], 600);
    // 1500 s and 1800 s of running, one failure; a checkpoint costs 9 s.
    let interval = &told["interval"];
    assert_eq!(
        (&interval["mtbf_seconds"], &interval["cost_seconds"]),
        (&json!(3300.0), &json!(9.0))
    );
    assert_eq!(interval["used_seconds"], 600.0);
    let young = interval["young_seconds"].as_f64().expect("a number");
    assert!((young - 252.7).abs() < 0.1, "{young}");
    let output = scr(dir.path(), &["report"]).output().expect("it runs");
    for part in [
        "1 ended, 1 died",
        "writing them took 18 s, 0.5 % of the time",
        "running time 55 min",
        "flushed   3.91 KiB of 1 in 20 s; 3.91 KiB of 1 were deleted or replaced by the program",
        "saved by the caches: 10 min",
        "a checkpoint costs 9.0 s",
        "one every 10 min was written",
        "it is never quiet",
        "a failure would have taken it: 4.2 s as a rule",
    ] {
        assert!(out(&output).contains(part), "{part}: {}", out(&output));
    }
}

#[test]
fn a_run_of_seconds_has_no_share_of_its_time_told() {
    let dir = logged();
    let line = |second: u32, text: &str| {
        format!("2023-11-14T22:13:2{second}: user=me, jobid=7, host=n1, event={text}\n")
    };
    let log = [
        line(0, "START, note=\"4 ranks, 2 nodes, /p\""),
        line(1, "SEALED, dset=1, name=\"c 1\", secs=1.2, files=4, bytes=4000"),
        line(1, "CHECKPOINT_END, dset=1, name=\"c 1\", secs=1.4"),
        line(1, "END, secs=1.9"),
    ];
    std::fs::write(dir.path().join(".scr/log"), log.concat()).expect("a log");
    let told = out(&scr(dir.path(), &["report"]).output().expect("it runs"));
    assert!(told.contains("writing them took 1.4 s\n"), "{told}");
}

#[test]
fn when_a_run_failed_and_how_fast_each_node_was() {
    let dir = logged();
    let begin = LOG.find("2023-11-14T23:13:20").expect("a second launch");
    let line = |time: &str, text: &str| {
        format!("2023-11-14T{time}: user=me, jobid=7, host=n1, event={text}\n")
    };
    let seen = line("22:40:00", "FAILED, note=\"its launcher has seen it\"");
    let node = |what, node, seconds, bytes| {
        let text = format!("{what}, secs={seconds}, files=0, bytes={bytes}, note=\"{node}\"");
        line("22:38:30", &text)
    };
    let paces = [node("NODE_SEAL", "a", 2, 6000), node("NODE_SEAL", "<b>", 4, 2000)].concat();
    let flushed = node("NODE_FLUSH", "<b>", 10, 2000);
    let text = [&LOG[..begin], &seen, &paces, &flushed, &LOG[begin..]].concat();
    std::fs::write(dir.path().join(".scr/log"), text).expect("a log");
    let told = ask(dir.path(), &[]).1;
    let failure = &told["failures"][0];
    assert_eq!(
        (&failure["failed"], &failure["lost_seconds_at_least"]),
        (&json!("2023-11-14T22:40:00Z"), &json!(400))
    );
    assert_eq!(told["nodes"][0]["node"], "<b>");
    assert_eq!(told["nodes"][1]["sealed_bytes"], 6000);
    assert_eq!(told["runs"][1]["nodes_moved"], json!([]));
    let output = scr(dir.path(), &["report"]).output().expect("it runs");
    for part in ["lost work: 7 min;", "500 B/s", "2.93 KiB/s", "slowest first"] {
        assert!(out(&output).contains(part), "{part}: {}", out(&output));
    }
    let output = scr(dir.path(), &["report", "--html", "r.html"]).output().expect("it runs");
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let page = std::fs::read_to_string(dir.path().join("r.html")).expect("a page");
    assert_eq!(page.matches("<svg role=\"img\" aria-labelledby=").count(), 7);
    assert!(page.contains("Bandwidth by node") && page.contains("&lt;b&gt;: flush"));
}

#[test]
fn a_job_and_a_known_rate_of_failures() {
    let dir = logged();
    let told = ask(dir.path(), &["--job", "7", "--mtbf", "10"]).1;
    assert_eq!(told["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(told["interval"]["mtbf_seconds"], 36_000.0);
    assert_eq!(told["interval"]["mtbf_given"], true);
    let wrong = scr(dir.path(), &["report", "--mtbf", "0"]).output().expect("it runs");
    assert_eq!(code(&wrong), Some(2));
}

#[test]
fn without_a_log_there_is_the_last_run_and_how_to_have_more() {
    let mut last = record();
    last.datasets.values_mut().for_each(|one| one.on_prefix = false);
    let dir = prefix(&last);
    let (status, told) = ask(dir.path(), &[]);
    assert_eq!((status, &told["has_log"]), (Some(0), &json!(false)));
    assert_eq!(told["runs"][0]["datasets"].as_array().map(Vec::len), Some(2));
    assert_eq!(told["interval"]["cost_is_whole"], false);
    let output = scr(dir.path(), &["report"]).output().expect("it runs");
    assert!(out(&output).contains("SCR_LOG_ENABLE=0"), "{}", out(&output));
}

#[test]
fn the_page_needs_nothing_else_and_names_are_text() {
    let dir = logged();
    let here = dir.path().to_str().expect("a path");
    let output = scr(Path::new("/"), &["report", here, "--html", &format!("{here}/r.html")]);
    let output = { output }.output().expect("it runs");
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let page = std::fs::read_to_string(dir.path().join("r.html")).expect("a page");
    for outside in ["http:", "https:", "src=", "@import", "url(", "<script", "c <1>"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg role=\"img\" aria-labelledby=").count(), 6);
    assert!(page.contains("c &lt;1&gt;") && page.contains("prefers-color-scheme: dark"));
    let output = scr(dir.path(), &["report", "--html", "/no/such/place/r.html"]).output();
    assert_eq!(code(&output.expect("it runs")), Some(1));
}

#[test]
fn no_run_and_a_damaged_record_have_exit_statuses_of_their_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let (status, told) = ask(dir.path(), &[]);
    assert_eq!((status, &told["runs"], &told["interval"]), (Some(1), &json!([]), &Value::Null));
    let page = scr(dir.path(), &["report", "--html", "r.html"]).output().expect("it runs");
    assert_eq!(code(&page), Some(1));
    std::fs::create_dir(dir.path().join(".scr")).expect("a directory");
    std::fs::write(dir.path().join(".scr/run.scr"), "text").expect("a file");
    assert_eq!(ask(dir.path(), &[]).0, Some(2));
}
