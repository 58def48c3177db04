//! Prefixes of the C implementation, and its commands' options.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::{code, err, out, scr, theirs};

fn prefix() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = |id: u64, rank: usize| (format!("ckpt.{id}/f{rank}"), format!("{id} of {rank}"));
    theirs::write(dir.path(), "NAME", &theirs::two(file));
    dir
}

/// Exit status and output of a command on that prefix.
fn on(prefix: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = scr(prefix, words).output().unwrap();
    assert!(!err(&output).contains("panicked"), "{words:?}: {}", err(&output));
    (code(&output), format!("{}{}", out(&output), err(&output)))
}

/// The same of a classic command.
fn classic(prefix: &Path, name: &str, words: &[&str]) -> (Option<i32>, String) {
    let links = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_scr"), links.path().join(name)).unwrap();
    let plain = scr(prefix, words);
    let mut command = Command::new(links.path().join(name));
    command.args(words).current_dir(prefix);
    for (variable, _) in plain.get_envs() {
        command.env_remove(variable);
    }
    let output = command.output().unwrap();
    (code(&output), format!("{}{}", out(&output), err(&output)))
}

#[test]
fn its_datasets_are_listed_compared_and_chosen_and_stay_as_they_are() {
    let dir = prefix();
    let before = theirs::bytes(dir.path());
    let (status, text) = on(dir.path(), &["index", "list"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(status, Some(0), "{text}");
    assert!(lines[1].contains("ckpt.2  incomplete"), "{text}");
    assert!(lines[2].trim_start().starts_with('*') && lines[2].contains("ckpt.1"), "{text}");
    let (status, text) = on(dir.path(), &["index", "verify"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("ckpt.1 (dataset 1): right; 4 files have no checksum"), "{text}");
    let (status, text) = on(dir.path(), &["ls"]);
    assert_eq!((status, &*text), (Some(0), "ckpt.1/f0\nckpt.1/f1\nckpt.1/f2\nckpt.1/f3\n"));
    assert_eq!(on(dir.path(), &["cat", "ckpt.1/f2"]), (Some(0), "1 of 2".to_owned()));
    let (status, text) = on(dir.path(), &["verify"]);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(on(dir.path(), &["index", "current", "ckpt.1"]).0, Some(0));
    let now = theirs::bytes(dir.path());
    assert!(before.iter().all(|(name, bytes)| now.get(name) == Some(bytes)));

    fs::write(dir.path().join("ckpt.1/f3"), "1").unwrap();
    let (status, text) = on(dir.path(), &["index", "verify", "--sizes"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("ckpt.1/f3 has 1 bytes, and had 6"), "{text}");
}

#[test]
fn its_options_mean_what_they_mean_there() {
    let dir = prefix();
    let halt = |words: &[&str]| classic(dir.path(), "scr_halt", words).1;
    assert!(halt(&["--checkpoints", "5", "--after", "+1h"]).contains("5 more checkpoints; halt"));
    assert!(!halt(&["--unset-after"]).contains("halt after 2"), "the time is gone");
    assert!(halt(&["--list"]).contains("5 more checkpoints"));
    assert!(halt(&["-r"]).contains("no halt condition"));
    assert!(halt(&["--list"]).contains("no halt condition"));
    // It was a reason here: it is no action on another prefix.
    let (status, text) = on(dir.path(), &["halt", "-r", "because"]);
    assert!(status != Some(0) && text.contains("because is no directory"), "{text}");

    let exit = |words: &[&str]| classic(dir.path(), "scr_should_exit", words);
    assert_eq!(exit(&[]), (Some(1), String::new()));
    halt(&[]);
    assert_eq!(exit(&["--prefix", "."]), (Some(0), "SCR_HALT\n".to_owned()));

    theirs::leave_cached(dir.path(), 3, "ckpt.3");
    let flush = |words: &[&str]| classic(dir.path(), "scr_flush_file", words);
    assert_eq!(flush(&["--dir", ".", "--needflush", "3"]).0, Some(0));
    assert_eq!(flush(&["--subdir", "3"]), (Some(0), "ckpt.3\n".to_owned()));
    for unknown in ["--list-output", "--before"] {
        let (status, text) = flush(&[unknown, "3"]);
        assert!(status == Some(2) && text.contains(unknown), "{text}");
    }
    assert_eq!(classic(dir.path(), "scr_index", &["--remove", "ckpt.2"]).0, Some(0));
    assert!(!on(dir.path(), &["index", "list"]).1.contains("ckpt.2"));
}

#[test]
fn what_its_program_has_set_tells_where_caches_are() {
    let dir = prefix();
    let line = ["cntl-dir", "--prefix", "."];
    let usual = on(dir.path(), &line).1;
    let text = "SCR_CNTL_BASE=/var/tmp\nSCR_FLUSH=3\n# a comment\n";
    fs::write(dir.path().join(".scr/app.conf"), text).unwrap();
    let (status, text) = on(dir.path(), &line);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.starts_with("/var/tmp/") && !usual.starts_with("/var/tmp/"), "{text}");
}
