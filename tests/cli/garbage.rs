//! Every command on files that are none: it says so, does not crash, and writes nothing by half.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use scr_core::cache::Address;

use super::{code, err, out, scr};

/// Command lines that read or change records of the prefix.
const LINES: [&[&str]; 47] = [
    &["cat", "x"],
    &["cp", "x", "y"],
    &["exec", "true"],
    &["ls", "-l"],
    &["verify", "--repair"],
    &["verify", "--json", "6"],
    &["doctor"],
    &["doctor", "--json"],
    &["flush-file", "--json"],
    &["halt", "--list", "--json"],
    &["nodes", "--json"],
    &["retries-halt", "--json"],
    &["flush-file"],
    &["flush-file", "--latest"],
    &["flush-file", "--need-flush", "6"],
    &["halt", "--list"],
    &["halt", "--checkpoints", "3"],
    &["halt", "--unset", "all"],
    &["index", "list"],
    &["index", "list", "--json"],
    &["index", "current", "6"],
    &["index", "drop", "6"],
    &["index", "drop-after", "6"],
    &["index", "build"],
    &["index", "add", "6"],
    &["index", "add", "node"],
    &["index", "verify"],
    &["index", "verify", "6", "--sizes", "--json"],
    &["log", "show"],
    &["log", "show", "--database"],
    &["log", "add", "HELLO"],
    &["nodes"],
    &["prerun"],
    &["rebuild"],
    &["rebuild", "node"],
    &["rebuild", "--id", "6", "--json", "node"],
    &["retries-halt"],
    &["scavenge"],
    &["copy"],
    &["copy", "--id", "6", "--json"],
    &["copy", "--cntldir", "node/me/scr.7"],
    &["status"],
    &["status", "--json"],
    &["transfer"],
    &["transfer", "--json"],
    &["transfer", "--command", "stop"],
    &["print", ".scr/index.scr", ".scr/flush.scr", ".scr/halt.scr", ".scr/nodes.scr"],
];

const FILES: [&str; 8] = [
    "index.scr",
    "flush.scr",
    "halt.scr",
    "nodes.scr",
    "refused.scr",
    "run.scr",
    "log",
    "log.sqlite",
];

/// Runs a command, with a cache of its own in the prefix.
fn run(dir: &Path, words: &[&str]) -> std::process::Output {
    let at = dir.join("node");
    scr(dir, words)
        .envs([("SCR_CNTL_BASE", &at), ("SCR_CACHE_BASE", &at)])
        .envs([("SCR_USER_NAME", "me"), ("SCR_JOB_ID", "7"), ("SCR_LOG_ENABLE", "1")])
        .output()
        .expect("it runs")
}

/// It has ended by itself, with one of the exit statuses that are documented, and without a crash.
fn is_well(words: &[&str], output: &std::process::Output) {
    let told = format!("{words:?}: {:?}\n{}{}", output.status, out(output), err(output));
    assert!(output.status.signal().is_none(), "{told}");
    let known = match words[0] {
        "exec" => matches!(code(output), Some(0 | 125)),
        "verify" => matches!(code(output), Some(0..=3)),
        _ => matches!(code(output), Some(0..=2)),
    };
    assert!(known, "{told}");
    assert!(!err(output).contains("panicked"), "{told}");
}

fn files_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => drop(files.insert(path.clone(), std::fs::read(&path).unwrap_or_default())),
        }
    }
    files
}

/// A good halt file, cut off or changed in one place; other bytes; none.
fn damages() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), &["halt", "--checkpoints", "3"]);
    let good = std::fs::read(dir.path().join(".scr/halt.scr")).expect("a halt file");
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 0x55;
    let mut long = good[..20].to_vec();
    long[4..20].fill(0xff);
    vec![
        Vec::new(),
        b"text".to_vec(),
        vec![0xff; 64],
        good[..good.len() - 1].to_vec(),
        changed,
        long,
    ]
}

#[test]
fn damaged_files_are_told_and_nothing_is_left_by_half() {
    for damage in damages() {
        for words in LINES {
            let dir = tempfile::tempdir().unwrap();
            let state = dir.path().join(".scr");
            std::fs::create_dir_all(state.join("scr.dataset.6")).unwrap();
            let own = Address::new("me", "7", &dir.path().canonicalize().unwrap()).names();
            let own = dir.path().join("node").join(own.iter().collect::<PathBuf>());
            std::fs::create_dir_all(&own).unwrap();
            for name in FILES {
                std::fs::write(state.join(name), &damage).unwrap();
            }
            std::fs::write(state.join("scr.dataset.6/summary.scr"), &damage).unwrap();
            for name in ["transfer.scrinfo", "filemap.scrinfo", "filemap_0.scrinfo"] {
                std::fs::write(own.join(name), &damage).unwrap();
            }
            is_well(words, &run(dir.path(), words));
            let halves: Vec<PathBuf> = files_below(dir.path())
                .into_keys()
                .filter(|path| scr_core::files::is_temporary_name(&path.to_string_lossy()))
                .collect();
            assert!(halves.is_empty(), "{words:?}: {halves:?}");
        }
    }
}

#[test]
fn a_command_that_only_looks_changes_nothing() {
    for words in LINES {
        let looks = [
            "list",
            "verify",
            "show",
            "--list",
            "print",
            "nodes",
            "flush-file",
            "retries-halt",
            "status",
        ];
        if !words.iter().any(|word| looks.contains(word)) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        is_well(words, &run(dir.path(), words));
        assert!(files_below(dir.path()).is_empty(), "{words:?}");
        assert!(!dir.path().join(".scr").exists(), "{words:?}");
        let state = dir.path().join(".scr");
        // What should be a file is a directory: it cannot be read.
        FILES.iter().for_each(|name| std::fs::create_dir_all(state.join(name)).unwrap());
        let output = run(dir.path(), words);
        is_well(words, &output);
        assert!(code(&output) != Some(0) && !err(&output).is_empty(), "{words:?}");
        assert!(files_below(dir.path()).is_empty(), "{words:?}");
    }
}

#[test]
fn files_that_change_meanwhile_are_seen_whole() {
    let dir = tempfile::tempdir().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let ordering = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut count = 0;
            while !stop.load(ordering) {
                let number = (count % 9 + 1).to_string();
                let output = run(dir.path(), &["halt", "--checkpoints", &number]);
                assert_eq!(code(&output), Some(0), "{}", err(&output));
                assert_eq!(code(&run(dir.path(), &["log", "add", "HELLO"])), Some(0));
                count += 1;
            }
            count
        });
        for _ in 0..30 {
            for words in [&["halt", "--list"][..], &["log", "show"], &["halt", "--seconds", "5"]] {
                let output = run(dir.path(), words);
                assert_eq!(code(&output), Some(0), "{words:?}: {}", err(&output));
                assert!(!err(&output).contains("no events"), "{}", err(&output));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, ordering);
        let count = writer.join().unwrap();
        assert!(count > 0);
    });
    let shown = out(&run(dir.path(), &["halt", "--list"]));
    assert!(shown.contains("more checkpoints") && shown.contains("5 s before"), "{shown}");
}
