//! Bad input: one clear message each (file, line or path, and what is done instead), and the
//! program's own result is what it is without SCR.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::cluster::Cluster;
use super::scene::{assert_same_files, below, check_message, place};
use super::settings::{killed_at_17, plain};
use super::sim::steady;

/// What is wrong, and the words of the one message about it.
struct Bad {
    settings: &'static [&'static str],
    config: Option<&'static str>,
    words: &'static [&'static str],
}

const BAD: [Bad; 9] = [
    Bad { settings: &["SCR_CONF_FILE=/nowhere.conf"], config: None, words: &["/nowhere.conf"] },
    Bad {
        settings: &[],
        config: Some("SCR_DEBUG=0\nthis is no setting\n"),
        words: &[".scrconf:2"],
    },
    Bad {
        settings: &[],
        config: Some("SCR_CHECKPONT_PATTERN=ckpt/*\n"),
        words: &[".scrconf:1", "SCR_CHECKPOINT_PATTERN"],
    },
    Bad {
        settings: &[],
        config: Some("SCR_CACHE_SIZE=two\n"),
        words: &[".scrconf:1", "SCR_CACHE_SIZE"],
    },
    Bad {
        settings: &["SCR_CHECKPOINT_PATTERN=re:ckpt/("],
        config: None,
        words: &["ckpt/(", "SCR_CHECKPOINT_PATTERN"],
    },
    Bad {
        settings: &["SCR_PREFIX=/nonexistent/prefix"],
        config: None,
        words: &["/nonexistent/prefix"],
    },
    Bad {
        settings: &["SCR_CHECKPOINT_PATTERN=ckpt/**", "SCR_CHECKPOINT_PATTERN_2=ckpt/step_{id}/*"],
        config: None,
        words: &["SCR_CHECKPOINT_PATTERN_2", "match SCR_CHECKPOINT_PATTERN, too", "earlier series"],
    },
    Bad {
        settings: &["SCR_DEBUG=loud"],
        config: None,
        words: &["SCR_DEBUG=loud is wrong", "a level from 0, or yes or no"],
    },
    Bad {
        settings: &["SCR_CHECKPOINT_PATTERN=other/{id}/*"],
        config: None,
        words: &[
            "no checkpoint was protected",
            "ckpt/step_5/rank_",
            "SCR_CHECKPOINT_PATTERN=other/{id}/*",
            "has other where the name has ckpt",
        ],
    },
];

/// The program comes to the same, with the same files, and one message with these words.
fn one_message(cluster: &mut Cluster, words: &[&str]) {
    let plain = place(&[]);
    let want = plain.run_plain("aa", |rank| steady(20, 5).run(rank));
    let got = cluster.run_with(&["SCR_FLUSH=1"], "aa", |rank| steady(20, 5).run(rank));
    assert_eq!(want.results, got.results, "{words:?}: {:?}", got.told);
    check_message(&got.told, words);
    let mut found = cluster.tree();
    found.remove(".scrconf");
    assert_same_files(&plain.tree(), &found, &got.told);
}

#[test]
fn settings_that_are_wrong() {
    for Bad { settings, config, words } in BAD {
        let mut cluster = place(settings);
        if let Some(text) = config {
            fs::write(cluster.prefix().join(".scrconf"), text).unwrap();
        }
        one_message(&mut cluster, words);
    }
}

#[test]
fn a_cache_that_cannot_be_made() {
    let mut cluster = place(&["SCR_CACHE_BASE=/file/cache", "SCR_CNTL_BASE=/file/cache"]);
    fs::create_dir_all(cluster.node('a')).unwrap();
    fs::write(cluster.node('a').join("file"), "not a directory").unwrap();
    one_message(&mut cluster, &["/file/cache"]);
}

#[test]
fn a_config_that_others_may_write_to() {
    let mut cluster = place(&[]);
    let config = cluster.prefix().join(".scrconf");
    fs::write(&config, "SCR_FLUSH=1\n").unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o666)).unwrap();
    one_message(&mut cluster, &[".scrconf", "anyone may write to it (mode 666)", "SCR_CONF_FILE"]);
}

#[test]
fn a_config_of_another_user() {
    let mut cluster = place(&[]);
    let config = cluster.prefix().join(".scrconf");
    fs::write(&config, "SCR_FLUSH=1\n").unwrap();
    if std::os::unix::fs::chown(&config, Some(12345), Some(12345)).is_err() {
        eprintln!("only root can give a file away: not tested");
        return;
    }
    let words = [".scrconf", "it belongs to ", "neither to you nor to root", "SCR_CONF_FILE"];
    one_message(&mut cluster, &words);
}

#[test]
fn variables_that_are_not_text() {
    let mut cluster = place(&[]);
    cluster.set_bytes("SCR_USER_NAME", b"caf\xe9");
    one_message(&mut cluster, &["SCR_USER_NAME", "caf\\xE9", "not UTF-8"]);
    // One of the program's is none of our business; SCR_DEBUG takes a yes.
    let mut cluster = place(&["SCR_DEBUG=yes", "SCR_FLUSH=1"]);
    cluster.set_bytes("TITLE", b"caf\xe9");
    let got = cluster.run("aa", |rank| steady(20, 5).run(rank));
    assert!(got.told.iter().any(|line| line.contains("4 sealed")), "{:?}", got.told);
    assert_eq!(got.first().checksum, plain(20, 5));
}

#[test]
fn a_prefix_whose_name_is_not_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut cluster = place(&[]);
    fs::create_dir_all(cluster.node('a')).unwrap();
    let real = cluster.node('a').join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    let link = cluster.node('a').join("link");
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    cluster.set(&format!("SCR_PREFIX={}", link.display()));
    one_message(&mut cluster, &["not UTF-8 text", "caf\\xE9"]);
}

/// The one record of a run whose path ends like that.
fn record(cluster: &Cluster, end: &str) -> PathBuf {
    let all = [cluster.prefix(), cluster.node('a')].map(|top| below(&top)).concat();
    let mut found = all.into_iter().filter(|path| path.to_string_lossy().ends_with(end));
    let path = found.next().unwrap();
    assert_eq!(found.next(), None);
    path
}

#[test]
fn a_damaged_record_is_named_and_the_restart_has_the_newest() {
    // Step 15 is on the prefix and, but in the last case, in the cache.
    let full = place(&[]);
    let want = *full.run_plain("aa", |rank| steady(40, 5).run(rank)).first();
    for (name, words, cached) in [
        (".scr/index.scr", ["is damaged", "made anew, with 3 datasets"], true),
        ("/filemap_1.scrinfo", ["is damaged", "count as lost"], true),
        (".scr/scr.dataset.3/summary.scr", ["is damaged", "none is hidden"], false),
    ] {
        let mut cluster = place(&["SCR_FLUSH=1"]);
        killed_at_17(&mut cluster, "1");
        if !cached {
            cluster.lose('a');
        }
        let path = record(&cluster, name);
        fs::write(&path, [0xff; 40]).unwrap();
        let got = cluster.run("aa", |rank| steady(40, 5).run(rank));
        assert_eq!((got.first().restart, got.first().checksum), (15, want.checksum), "{name}");
        let named = |line: &&String| line.contains(&path.display().to_string());
        let told: Vec<String> = got.told.iter().filter(named).cloned().collect();
        check_message(&told, &words);
        assert_same_files(&full.tree(), &cluster.tree(), &got.told);
    }
}
