//! `scr scavenge` and `scr copy` where there is nothing, or nothing good.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use scr_core::cache::Address;

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
        (&["copy", "--cntldir", "/tmp"], "is no control directory"),
        (&["scavenge", "--cntldir", "me/control"], "is no control directory"),
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

#[test]
fn the_options_of_the_manuals_name_the_control_directory() {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("me/scr.856");
    let names = Address::new("me", "856", &dir.path().canonicalize().unwrap()).names();
    let own = dir.path().join(names.iter().collect::<PathBuf>());
    fs::create_dir_all(&own).unwrap();
    for path in [dir.path().join("me"), control.clone(), own] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let at = control.to_str().unwrap();
    let words =
        ["copy", "--cntldir", at, "--id", "6", "--buf", "65536", "--crc", "--partner", "n2"];
    let copy = scr(dir.path(), &words).output().unwrap();
    assert_eq!((code(&copy), &*out(&copy)), (Some(0), "copied\n"), "{}", err(&copy));
    let json = scr(dir.path(), &["copy", "--node", "n1", "--json"]).output().unwrap();
    let told: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(told, serde_json::json!({ "node": "n1", "state": "nothing" }));
    let off = scr(dir.path(), &["scavenge"]).env("SCR_ENABLE", "0").output().unwrap();
    assert_eq!(code(&off), Some(0), "{}", out(&off));
    let json = scr(dir.path(), &["scavenge", "--json", "--id", "6"]).output().unwrap();
    let told: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(
        (code(&json), &told["saved"], &told["had_cache"]),
        (Some(1), &false.into(), &false.into())
    );
    let json = scr(dir.path(), &["transfer", "--json"]).output().unwrap();
    let told: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!((code(&json), &told["files"]), (Some(0), &0.into()), "{told}");
}
