//! What a script reads with `--json`: its shape, and that the exit status is the same.

use std::path::Path;

use scr_core::records::{FlushState, Location, Nodes, Record as _};
use serde_json::{Value, json};

use super::{code, err, out, scr};

/// Exit status and answer.
fn ask(dir: &Path, words: &[&str]) -> (Option<i32>, Value) {
    let output = scr(dir, &[words, &["--json"]].concat()).output().expect("it runs");
    let text = out(&output);
    let value = serde_json::from_str(&text);
    (code(&output), value.unwrap_or_else(|_| panic!("{words:?}: {text}{}", err(&output))))
}

fn prefix() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join(".scr")).expect("a directory");
    dir
}

#[test]
fn flush_file() {
    let dir = prefix();
    assert_eq!(ask(dir.path(), &["flush-file"]), (Some(0), json!([])));
    let mut file = FlushState::default();
    file.set(6, Location::Cache);
    file.set_name(6, "checkpoint.6");
    file.set(6, Location::Prefix);
    file.set(7, Location::Cache);
    file.write(&dir.path().join(".scr/flush.scr")).unwrap();
    let want = json!([
        { "id": 6, "name": "checkpoint.6", "locations": ["CACHE", "PFS"] },
        { "id": 7, "name": null, "locations": ["CACHE"] },
    ]);
    assert_eq!(ask(dir.path(), &["flush-file"]), (Some(0), want));
}

#[test]
fn nodes() {
    let dir = prefix();
    let hosts = ["n1", "n1", "n2"].map(str::to_owned);
    let file = Nodes::of_launch(&hosts, "77");
    file.write(&dir.path().join(".scr/nodes.scr")).unwrap();
    let want = json!({ "nodes": 2, "hosts": ["n1", "n2"], "job": "77" });
    assert_eq!(ask(dir.path(), &["nodes"]), (Some(0), want));
}

#[test]
fn halt_and_retries_halt() {
    let dir = prefix();
    let none = json!({ "halt": false, "reason": null });
    assert_eq!(ask(dir.path(), &["retries-halt"]), (Some(1), none));
    let (status, told) = ask(dir.path(), &["halt", "--checkpoints", "3", "--after", "2000000000"]);
    assert_eq!(status, Some(0));
    let want = json!([{
        "prefix": ".", "reason": null, "checkpoints": 3, "after": "2033-05-18T03:33:20Z",
        "before": null, "seconds": null, "due": null,
    }]);
    assert_eq!(told, want);
    assert_eq!(ask(dir.path(), &["halt", "--list"]), (Some(0), want));
    ask(dir.path(), &["halt", "--reason", "maintenance"]);
    assert_eq!(ask(dir.path(), &["halt", "--list"]).1[0]["due"], "maintenance");
    let due = json!({ "halt": true, "reason": "maintenance" });
    assert_eq!(ask(dir.path(), &["retries-halt"]), (Some(0), due));
}

#[test]
fn hosts() {
    let dir = prefix();
    for (words, want) in [
        (&["--count", "n[1-3]"][..], json!(3)),
        (&["--nth", "2", "n[1-3]"], json!("n2")),
        (&["--expand", "n[1-2]"], json!(["n1", "n2"])),
        (&["--compress", "n1,n2"], json!(["n1", "n2"])),
        (&["--minus", "n[1-3]", "n2"], json!(["n1", "n3"])),
        (&["--intersection", "n[1-3]:n[2,9]"], json!(["n2"])),
    ] {
        assert_eq!(ask(dir.path(), &[&["hosts"], words].concat()), (Some(0), want), "{words:?}");
    }
}

#[test]
fn check_node_and_down_nodes() {
    let dir = prefix();
    let here = dir.path().to_string_lossy().into_owned();
    let (status, told) = ask(dir.path(), &["check-node", &here, "/no/such/place"]);
    assert_eq!(status, Some(1));
    assert_eq!(told[0], json!({ "directory": here, "fault": null }));
    assert_eq!(told[1]["directory"], "/no/such/place");
    assert!(told[1]["fault"].as_str().unwrap().contains("no directory"), "{told}");
    let (status, told) = ask(dir.path(), &["down-nodes", "--down", "n1", "n1"]);
    assert_eq!((status, told), (Some(1), json!({ "n1": "it is said to be down" })));
}
