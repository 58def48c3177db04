//! `scr scavenge` and `scr copy` where there is nothing, or nothing good.

use super::{code, err, out, scr};

#[test]
fn without_a_run_there_is_nothing_to_save_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().to_str().unwrap();
    let copy = scr(dir.path(), &["copy", "--prefix", prefix]).output().unwrap();
    assert_eq!((code(&copy), out(&copy)), (Some(0), "nothing\n".to_owned()));
    let output = scr(dir.path(), &["scavenge"]).output().unwrap();
    assert_eq!(code(&output), Some(1));
    assert!(out(&output).contains("no node has a cache"), "{}", out(&output));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn bad_arguments_and_nodes_that_do_not_answer() {
    let dir = tempfile::tempdir().unwrap();
    for (words, part) in [
        (&["scavenge", "--prefix", "/no/such/place"][..], "/no/such/place"),
        (&["scavenge", "--nodes", "a["], "no list of hosts"),
        (&["copy", "--prefix", "/no/such/place"], "/no/such/place"),
    ] {
        let output = scr(dir.path(), words).output().unwrap();
        assert_eq!(code(&output), Some(1), "{words:?}");
        assert!(err(&output).contains(part), "{words:?}: {}", err(&output));
    }
    for shell in ["false", "/no/such/shell", "echo"] {
        let output = scr(dir.path(), &["scavenge", "--nodes", "far[1-2]"])
            .env("SCR_REMOTE_SHELL", shell)
            .output()
            .unwrap();
        assert_eq!(code(&output), Some(1), "{shell}");
        assert!(out(&output).contains("nothing comes from far2"), "{shell}: {}", out(&output));
    }
}
