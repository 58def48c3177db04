//! Whether nodes, prefix and machine are fit for a job: `scr check-node`, `down-nodes`, `prerun`,
//! `test-runtime`.

use std::os::unix::fs::PermissionsExt;

use scr_core::records::{Nodes, Record as _};

use super::{code, err, out, scr};

#[test]
fn a_directory_has_to_be_there_and_large_enough() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().display().to_string();
    let check = |words: &[&str]| {
        let output = scr(dir.path(), &[&["check-node"], words].concat()).output().unwrap();
        (code(&output), out(&output))
    };
    assert_eq!(check(&[&here]), (Some(0), "PASS\n".to_owned()));
    assert_eq!(check(&["--free", &format!("{here}=1KB")]), (Some(0), "PASS\n".to_owned()));
    let (status, text) = check(&["/no/such/place", &format!("{here}=9000PB")]);
    assert_eq!(status, Some(1));
    assert!(text.starts_with("FAIL: there is no directory /no/such/place\nFAIL: "), "{text}");
    assert!(text.contains("bytes in all, "), "{text}");
    assert!(check(&["--free", &format!("{here}=9000PB")]).1.contains("bytes free, "));
    assert_eq!(check(&["--exit-zero", "/no/such/place"]).0, Some(0));
    assert_eq!(check(&["relative"]).0, Some(2));
    assert_eq!(check(&["/tmp=much"]).0, Some(2));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    std::fs::write(dir.path().join(".scrconf"), "STORE=/no/such/store\nSCR_CNTL_BASE=/tmp\n")
        .unwrap();
    assert!(check(&[]).1.contains("/no/such/store"));
    std::fs::write(dir.path().join(".scrconf"), [0xff; 9]).unwrap();
    assert_eq!(check(&[]).0, Some(2));
}

#[test]
fn a_node_whose_store_is_too_small_is_down_and_logged() {
    let dir = tempfile::tempdir().unwrap();
    let shell = dir.path().join("rsh");
    std::fs::write(&shell, "#!/bin/sh\nshift\neval \"$@\"\n").unwrap();
    std::fs::set_permissions(&shell, PermissionsExt::from_mode(0o755)).unwrap();
    let look = |capacity: &str| {
        let store = format!("STORE={} CAPACITY={capacity}\n", dir.path().display());
        std::fs::write(dir.path().join(".scrconf"), store).unwrap();
        let output = scr(dir.path(), &["down-nodes", "--reason", "--log", "n[1-2]"])
            .env("SCR_REMOTE_SHELL", &shell)
            .envs([("SCR_LOG_ENABLE", "1"), ("SCR_EXCLUDE_NODES", "n2"), ("SCR_RETRIES", "1")])
            .output()
            .unwrap();
        assert_eq!(err(&output), "");
        (code(&output), out(&output))
    };
    assert_eq!(look("1KB"), (Some(1), "n2: it is excluded\n".to_owned()));
    let (status, text) = look("9000PB");
    assert_eq!(status, Some(1));
    assert!(text.starts_with("n1: /") && text.contains("are wanted\nn2: it is excluded"), "{text}");
    let log = std::fs::read_to_string(dir.path().join(".scr/log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[0].contains("event=NODE_FAIL, note=\"n2: it is excluded\""), "{log}");
    assert!(lines[1].contains("note=\"n1: /") && lines[1].contains("are wanted"), "{log}");
}

fn nodes_of_job(job: &str) -> Nodes {
    Nodes { job: job.to_owned(), ..Nodes::default() }
}

#[test]
fn prerun_forgets_an_earlier_allocation_and_no_request() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join(".scr");
    let halt = |words: &[&str]| scr(dir.path(), &[&["halt"], words].concat()).output().unwrap();
    halt(&["--checkpoints", "3"]);
    halt(&["--reason", "SCR_FINALIZE_CALLED"]);
    nodes_of_job("7").write(&state.join("nodes.scr")).unwrap();
    let output = scr(dir.path(), &["prerun"]).env("SCR_JOB_ID", "8").output().unwrap();
    assert_eq!((code(&output), out(&output)), (Some(0), String::new()), "{}", err(&output));
    assert!(!state.join("nodes.scr").exists());
    let shown = out(&halt(&["--list"]));
    assert!(shown.contains("after 3 more") && !shown.contains("own end"), "{shown}");
    std::fs::write(state.join("halt.scr"), "damaged").unwrap();
    assert_eq!(code(&scr(dir.path(), &["prerun"]).output().unwrap()), Some(1));
    assert_eq!(std::fs::read(state.join("halt.scr")).unwrap(), b"damaged");
    let output = scr(dir.path(), &["prerun", "--prefix", "/no/such/place"]).output().unwrap();
    assert_eq!(code(&output), Some(1));
}

#[test]
fn prerun_in_the_middle_of_an_allocation_forgets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".scr")).unwrap();
    nodes_of_job("7").write(&dir.path().join(".scr/nodes.scr")).unwrap();
    let output = scr(dir.path(), &["prerun"]).env("SCR_JOB_ID", "7").output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert!(dir.path().join(".scr/nodes.scr").exists());
}

#[test]
fn what_is_missing_on_the_machine_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let look = |words: &[&str]| {
        let words = [&["test-runtime"], words].concat();
        scr(dir.path(), &words).env("SCR_REMOTE_SHELL", "/no/such/ssh").output().unwrap()
    };
    let output = look(&[]);
    assert_eq!(code(&output), Some(1));
    // The tests' own build has neither shim nor engine.
    for part in ["libscr_preload.so is missing", "/no/such/ssh): it cannot be run", "the engine"] {
        assert!(out(&output).contains(part), "{}", out(&output));
    }
    let all: serde_json::Value = serde_json::from_str(&out(&look(&["--json"]))).unwrap();
    let shell = all.as_array().unwrap().iter().find(|one| one["fault"] == "it cannot be run");
    assert!(shell.is_some(), "{all}");
}
