//! The commands that tell of a job: nodes, directories, environment.

use super::{code, err, out, scr};

const SLURM: [(&str, &str); 4] = [
    ("SLURM_JOB_ID", "77"),
    ("SLURM_JOB_NODELIST", "n[1-3]"),
    ("SLURM_JOB_END_TIME", "1800000000"),
    ("SCR_USER_NAME", "me"),
];

#[test]
fn directories_and_environment_of_a_job() {
    let dir = tempfile::tempdir().unwrap();
    for (words, want) in [
        (&["cntl-dir"][..], "/dev/shm/me/scr.77\n"),
        (&["cntl-dir", "--cache"], "/dev/shm/me/scr.77\n"),
        (&["env", "--job"], "77\n"),
        (&["env", "--user"], "me\n"),
        (&["env", "--nodes"], "n[1-3]\n"),
        (&["env", "--end-time"], "1800000000\n"),
        (&["env", "--manager"], "Slurm\n"),
    ] {
        let output = scr(dir.path(), words).envs(SLURM).output().unwrap();
        assert_eq!((code(&output), &*out(&output)), (Some(0), want), "{words:?}: {}", err(&output));
    }
    let output = scr(dir.path(), &["env", "--json"]).envs(SLURM).output().unwrap();
    assert!(out(&output).contains("\"nodes\": \"n[1-3]\""), "{}", out(&output));
    let output = scr(dir.path(), &["cntl-dir"]).env("SCR_JOB_ID", "a/b").output().unwrap();
    assert_eq!(code(&output), Some(1));
    assert!(err(&output).contains("cannot be part of a path"), "{}", err(&output));
}

#[test]
fn nodes_that_are_no_good_are_listed_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    // A remote shell that reaches n1 only.
    let shell = dir.path().join("rsh");
    std::fs::write(&shell, "#!/bin/sh\nhost=$1; shift\ntest $host = n1 && eval \"$@\"\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&shell, mode).unwrap();
    let look = |words: &[&str]| {
        let output = scr(dir.path(), &[&["down-nodes"], words].concat())
            .env("SCR_REMOTE_SHELL", &shell)
            .env("SCR_EXCLUDE_NODES", "n9")
            .output()
            .unwrap();
        (code(&output), out(&output), err(&output))
    };
    assert_eq!(look(&["n1"]), (Some(0), String::new(), String::new()));
    assert_eq!(look(&["n[1-3]"]).1, "n[2-3]\n");
    let (status, text, _) = look(&["--reason", "--down", "n1", "n[1-2],n9"]);
    assert_eq!(status, Some(1));
    let shell = shell.display();
    let want = format!(
        "n1: it is said to be down\nn2: it does not answer ({shell}: exit status: 1)\n\
         n9: it is excluded\n"
    );
    assert_eq!(text, want);
    assert_eq!(look(&["n["]).0, Some(2));
}

#[test]
fn whether_a_script_may_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let ask = || {
        let output = scr(dir.path(), &["retries-halt"]).output().unwrap();
        (code(&output), out(&output))
    };
    assert_eq!(ask(), (Some(1), String::new()));
    scr(dir.path(), &["halt", "--reason", "maintenance"]).output().unwrap();
    assert_eq!(ask(), (Some(0), "maintenance\n".to_owned()));
    std::fs::write(dir.path().join(".scr/halt.scr"), "no halt file").unwrap();
    assert_eq!(ask().0, Some(2));
}

#[test]
fn a_rebuild_without_copies_has_nothing_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let output = scr(dir.path(), &["rebuild"]).output().unwrap();
    assert_eq!(code(&output), Some(1));
    assert!(out(&output).contains("no node has a cache"), "{}", out(&output));
    let output = scr(dir.path(), &["index", "build"]).output().unwrap();
    assert_eq!((code(&output), &*out(&output)), (Some(0), "the index has 0 datasets\n"));
}
