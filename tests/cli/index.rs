//! `scr index add` and `verify`, `scr rebuild` of directories: on prefixes and caches that the
//! library has made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use scr_core::cache;
use scr_core::transfer::flush_sync;

use super::cluster::{self, Cluster, check_files, content, run_and_seal};
use super::{code, err, out, scr};

/// A run on nodes a, b and c with checkpoints 1 and 2 (`ckpt.10`, `ckpt.20`) in its caches.
fn run(scheme: &str) -> Cluster {
    let cluster = Cluster::new();
    run_and_seal(&cluster, "abc", &[1, 2], scheme);
    cluster
}

/// The same on the prefix.
fn flushed() -> Cluster {
    let cluster = run("XOR");
    let outcome = cluster.launch("abc").run(|ctx| {
        cache::rebuild(ctx, cluster::IDENTITY).expect("a start");
        [1, 2].iter().for_each(|id| drop(flush_sync(ctx, *id, &|_| false).expect("a flush")));
    });
    assert!(outcome.results.iter().all(Option::is_some));
    cluster
}

/// Exit status and output of a command on that prefix.
fn on(prefix: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = scr(prefix, words).output().expect("it runs");
    assert!(!err(&output).contains("panicked"), "{words:?}: {}", err(&output));
    (code(&output), format!("{}{}", out(&output), err(&output)))
}

#[test]
fn verify_finds_what_is_missing_short_or_other() {
    let cluster = flushed();
    let prefix = cluster.prefix();
    let right = "ckpt.20 (dataset 2): right\nckpt.10 (dataset 1): right\n".to_owned();
    assert_eq!(on(&prefix, &["index", "verify"]), (Some(0), right));
    assert_eq!(on(&prefix, &["index", "verify", "ckpt.10", "--sizes"]).0, Some(0));

    // The same size and time, and another content: only the checksum tells.
    let path = prefix.join("ckpt/20/rank_2.dat");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let good = fs::read(&path).unwrap();
    let mut other = good.clone();
    other[5] ^= 1;
    fs::write(&path, &other).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(on(&prefix, &["index", "verify", "--sizes"]).0, Some(0));
    let (status, text) = on(&prefix, &["index", "verify"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("ckpt.20 (dataset 2): wrong\n    ckpt/20/rank_2.dat has not"), "{text}");
    fs::write(&path, &good[..7]).unwrap();
    fs::remove_file(prefix.join("ckpt/20/rank_0.dat")).unwrap();
    let (status, text) = on(&prefix, &["index", "verify", "--sizes", "--json"]);
    assert_eq!(status, Some(1), "{text}");
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["right"], false);
    assert_eq!(told["datasets"][0]["condition"], "wrong");
    assert_eq!(told["datasets"][0]["faults"].as_array().unwrap().len(), 2, "{text}");
    assert_eq!(told["datasets"][1]["condition"], "right");
    assert_eq!(on(&prefix, &["index", "verify", "1"]).0, Some(0), "the other one is right");
    // It has changed nothing.
    let (_, listed) = on(&prefix, &["index", "list"]);
    assert_eq!(listed.matches("complete").count(), 2, "{listed}");
}

#[test]
fn verify_compares_the_index_with_the_summaries() {
    let cluster = flushed();
    let prefix = cluster.prefix();
    let (index, summary) = (prefix.join(".scr/index.scr"), prefix.join(".scr/scr.dataset.1"));
    fs::rename(&summary, prefix.join("away")).unwrap();
    let (status, text) = on(&prefix, &["index", "verify"]);
    assert_eq!(status, Some(1));
    assert!(text.contains("its summary is missing"), "{text}");
    fs::rename(prefix.join("away"), &summary).unwrap();
    let good = fs::read(summary.join("summary.scr")).unwrap();
    fs::write(summary.join("summary.scr"), &good[..30]).unwrap();
    assert_eq!(on(&prefix, &["index", "verify"]).0, Some(1));
    fs::copy(prefix.join(".scr/scr.dataset.2/summary.scr"), summary.join("summary.scr")).unwrap();
    let (status, text) = on(&prefix, &["index", "verify"]);
    assert_eq!(status, Some(1));
    assert!(text.contains("of another dataset"), "{text}");
    fs::write(summary.join("summary.scr"), &good).unwrap();

    let whole = fs::read(&index).unwrap();
    fs::remove_file(&index).unwrap();
    let (status, text) = on(&prefix, &["index", "verify"]);
    assert_eq!(status, Some(1));
    assert!(text.contains("scr index build"), "{text}");
    fs::write(&index, &whole[..20]).unwrap();
    assert_eq!(on(&prefix, &["index", "verify"]).0, Some(2));
    fs::write(&index, &whole).unwrap();
    assert_eq!(on(&prefix, &["index", "verify", "ckpt.90"]).0, Some(2));
    assert_eq!(on(&prefix, &["index", "verify", "--prefix", "/no/such/place"]).0, Some(2));
    assert_eq!(on(&prefix, &["index", "verify"]).0, Some(0));
    let empty = tempfile::tempdir().unwrap();
    let (status, text) = on(empty.path(), &["index", "verify"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("has no dataset"), "{text}");
}

#[test]
fn what_was_dropped_is_added_again_if_its_files_are_there() {
    let cluster = flushed();
    let prefix = cluster.prefix();
    let listed = on(&prefix, &["index", "list"]).1;
    for name in ["2", "ckpt.20", "scr.dataset.2", ".scr/scr.dataset.2"] {
        assert_eq!(on(&prefix, &["index", "drop", "2"]).0, Some(0));
        assert!(!on(&prefix, &["index", "list"]).1.contains("ckpt.20"));
        // A damaged index that is made anew does not bring it back.
        assert_eq!(on(&prefix, &["index", "build"]).1, "the index has 1 datasets\n");
        let added = on(&prefix, &["index", "add", name]);
        assert_eq!(added, (Some(0), "the index has ckpt.20 (dataset 2)\n".into()), "{name}");
        assert_eq!(on(&prefix, &["index", "list"]).1, listed, "{name}");
        assert_eq!(on(&prefix, &["index", "add", name]).0, Some(0), "it is there");
    }
    assert_eq!(on(&prefix, &["index", "add", "1", "--current"]).0, Some(0));
    let current = on(&prefix, &["index", "list"]).1;
    assert!(current.lines().any(|line| line.starts_with(" *") && line.contains("ckpt.10")));

    on(&prefix, &["index", "drop", "2"]);
    fs::remove_file(prefix.join("ckpt/20/rank_2.dat")).unwrap();
    let (status, text) = on(&prefix, &["index", "add", "2"]);
    assert_eq!(status, Some(1));
    assert!(text.contains("rank_2.dat is missing"), "{text}");
    assert!(prefix.join(".scr/scr.dataset.2/summary.scr.dropped").exists());
    for name in ["7", "ckpt.90", "scr.dataset.9", "/no/such/place"] {
        assert_eq!(on(&prefix, &["index", "add", name]).0, Some(1), "{name}");
    }
    assert_eq!(on(&prefix, &["index", "add"]).0, Some(2));
}

/// Copies of the nodes' caches but for that of node b, as a person makes them.
fn rescue(cluster: &Cluster) -> std::path::PathBuf {
    let to = cluster.prefix().with_file_name("rescue");
    for host in ["a", "c"] {
        fs::create_dir_all(&to).expect("a directory");
        let status = std::process::Command::new("cp")
            .arg("-a")
            .args([cluster.node(host), to.join(host)])
            .status()
            .expect("it runs");
        assert!(status.success());
        // Of these runs it does not tell the number of ranks.
        fs::remove_file(to.join(host).join("control/launch.scr")).expect("it is there");
    }
    to
}

#[test]
fn rebuild_brings_back_what_copies_of_caches_hold() {
    for scheme in ["XOR", "PARTNER", "RS"] {
        let cluster = run(scheme);
        let (prefix, rescue) = (cluster.prefix(), rescue(&cluster));
        let words = ["rebuild", "--json", rescue.to_str().unwrap()];
        let (status, text) = on(&prefix, &words);
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &told["saved"]), (Some(0), &true.into()), "{scheme}: {text}");
        assert_eq!(told["published"].as_array().unwrap().len(), 2, "{scheme}: {text}");
        for (step, rank) in [10, 20].iter().flat_map(|step| [0, 1, 2].map(|rank| (*step, rank))) {
            check_files(&prefix, &content(step, rank));
        }
        assert_eq!(on(&prefix, &["index", "verify"]).0, Some(0), "{scheme}");
        // Once more: it is there already.
        let (status, text) = on(&prefix, &["rebuild", rescue.to_str().unwrap()]);
        assert_eq!((status, text.lines().count()), (Some(0), 1), "{scheme}: {text}");
        assert!(!prefix.join(".scr/rebuild").exists());
    }
}

#[test]
fn the_older_names_rebuild_too() {
    let cluster = run("XOR");
    let (prefix, rescue) = (cluster.prefix(), rescue(&cluster));
    fs::remove_dir_all(rescue.join("c")).unwrap();
    // As the manual of version 1.1 has it: all files of a checkpoint in one directory.
    let merged = prefix.with_file_name("merged");
    for host in ["a", "c"] {
        let from = cluster.node(host).join("ram/scr.dataset.1").join(".");
        fs::create_dir_all(&merged).unwrap();
        std::process::Command::new("cp").arg("-a").arg(from).arg(&merged).status().unwrap();
    }
    let link = prefix.with_file_name("scr_rebuild_xor");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_scr"), &link).unwrap();
    let files = ["1_of_3_in_0.xor", "3_of_3_in_0.xor"].map(|name| merged.join(".scr").join(name));
    let call = |words: &[&str], count: usize| {
        let mut command = std::process::Command::new(&link);
        command.args(words).args(&files[..count]).current_dir(&prefix).output().unwrap()
    };
    for (words, count, part) in [
        (&["3", "3"][..], 2, "less than SIZE"),
        (&["3", "1"], 1, "but the missing one"),
        (&["2", "1", "/no/such/file"], 0, "is no file"),
    ] {
        let output = call(words, count);
        assert_eq!(code(&output), Some(1), "{words:?}");
        assert!(err(&output).contains(part), "{words:?}: {}", err(&output));
    }
    let output = call(&["3", "1"], 2);
    assert_eq!((code(&output), &*out(&output)), (Some(0), "ckpt.10 is on the prefix now\n"));
    (0..3).for_each(|rank| check_files(&prefix, &content(10, rank)));

    let link = prefix.with_file_name("scr_index");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_scr"), &link).unwrap();
    let output = std::process::Command::new(link)
        .args(["--prefix", prefix.to_str().unwrap(), "--add", rescue.to_str().unwrap()])
        .output()
        .unwrap();
    // Of two nodes' parts of the other checkpoint one alone is left.
    assert_eq!(code(&output), Some(1), "{}", out(&output));
    assert!(out(&output).contains("ckpt.20 is lost"), "{}", out(&output));
    assert!(on(&prefix, &["index", "list"]).1.contains("incomplete"));
}

#[test]
fn directories_of_no_use_are_refused() {
    let cluster = run("SINGLE");
    let (prefix, rescue) = (cluster.prefix(), rescue(&cluster));
    let path = rescue.to_str().unwrap();
    let refused = |words: &[&str], part: &str| {
        let (status, text) = on(&prefix, words);
        assert!(!prefix.join(".scr").exists(), "{words:?}: nothing is made");
        assert_eq!(status, Some(1), "{words:?}: {text}");
        assert!(text.contains(part), "{words:?}: {text}");
        assert!(!prefix.join(".scr/rebuild").exists(), "{words:?}");
    };
    refused(&["rebuild", "/no/such/place"], "/no/such/place");
    refused(&["rebuild", prefix.to_str().unwrap()], "has no dataset of a run");
    refused(&["rebuild", path], "how many ranks");
    let filemap = rescue.join("a/control/filemap_0.scrinfo");
    fs::write(&filemap, "text").unwrap();
    refused(&["rebuild", path], "how many ranks");
    fs::remove_file(&filemap).unwrap();
    refused(&["rebuild", path], "how many ranks");
    assert_eq!(on(&prefix, &["rebuild", "--id", "1"]).0, Some(2));
    // Nobody can read it; root cannot without the rights to read everything.
    let closed = rescue.join("a/ram");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let plain = scr(&prefix, &["rebuild", path]);
    let mut bound = Command::new("setpriv");
    bound.args(["--bounding-set", "-dac_override,-dac_read_search"]);
    bound.arg(plain.get_program()).args(plain.get_args()).current_dir(&prefix);
    let mut command = if fs::read_dir(&closed).is_ok() { bound } else { plain };
    let output = command.output().unwrap();
    assert_eq!((code(&output), prefix.join(".scr").exists()), (Some(1), false));
    assert!(err(&output).contains("cannot list"), "{}", err(&output));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}
