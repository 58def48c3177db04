//! The examples of the manual of version 1.1, by the names that it gives the commands.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use scr_core::kvtree::KvTree;

use super::{code, err, out};

/// Runs `name`, a link to the program, in `dir`.
fn classic(dir: &Path, name: &str, words: &[&str]) -> (Option<i32>, String) {
    let link = dir.join(name);
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_scr"), &link).expect("a link");
    }
    let output = Command::new(link)
        .args(words)
        .current_dir(dir)
        .env_remove("SCR_PREFIX")
        .output()
        .expect("it runs");
    assert_eq!(err(&output), "", "{name} {words:?}");
    (code(&output), out(&output))
}

#[test]
fn lists_of_hosts() {
    let dir = tempfile::tempdir().unwrap();
    let atlas = "atlas[3,5-7,9-11]";
    let two = "atlas[3,5-7,9-11]:atlas[5,7,20]";
    for (words, want) in [
        (&["--count", atlas][..], "7\n"),
        (&["--nth", "3", atlas], "atlas6\n"),
        (&["--minus", two], "atlas[3,6,9-11]\n"),
        (&["--intersection", two], "atlas[5,7]\n"),
        (&["--expand", "atlas[3,5-6]"], "atlas3\natlas5\natlas6\n"),
        (&["--compress", "atlas6,atlas3,atlas5"], "atlas[3,5-6]\n"),
    ] {
        let got = classic(dir.path(), "scr_glob_hosts", words);
        assert_eq!(got, (Some(0), want.to_owned()), "{words:?}");
    }
}

#[test]
fn the_flush_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".scr")).unwrap();
    // That of section 9.4: 18 is in both places, 17 in caches only.
    let mut tree = KvTree::new();
    for (id, place) in [("18", "PFS"), ("18", "CACHE"), ("17", "CACHE")] {
        tree.set_kv("CKPT", id).set_kv("LOCATION", place);
    }
    let ask = |words: &[&str]| {
        let prefix = dir.path().to_str().unwrap();
        classic(dir.path(), "scr_flush_file", &[&["--dir", prefix], words].concat())
    };
    assert_eq!(ask(&["--latest"]).0, Some(1));
    tree.write_file(dir.path().join(".scr/flush.scr")).unwrap();
    assert_eq!(ask(&["--latest"]), (Some(0), "18\n".to_owned()));
    for (option, id, status) in [
        ("--id", "18", 1),
        ("--id", "17", 0),
        ("--needflush", "17", 0),
        ("--needflush", "18", 1),
        ("--id", "6", 1),
    ] {
        assert_eq!(ask(&[option, id]).0, Some(status), "{option} {id}");
    }
}

#[test]
fn the_halt_file_and_the_nodes_file() {
    let dir = tempfile::tempdir().unwrap();
    let (status, text) = classic(dir.path(), "scr_halt", &["--checkpoints", "7"]);
    assert_eq!(status, Some(0));
    assert!(text.contains("halt after 7 more checkpoints"), "{text}");
    let mut tree = KvTree::new();
    tree.set_value("NODES", 4);
    tree.write_file(dir.path().join("nodes.scr")).unwrap();
    let print = |words: &[&str]| classic(dir.path(), "scr_print_hash_file", words);
    assert_eq!(print(&["--indented", "nodes.scr"]), (Some(0), "NODES\n  4\n".to_owned()));
    assert_eq!(print(&["nodes.scr"]), (Some(0), "+- NODES = 4\n".to_owned()));
}
