//! A job that ended all of a sudden, brought to the prefix twice: by its next start, which flushes
//! what the cache has, and by `scr rebuild` from what is left after the loss of a node. Summary,
//! files and index entry are the same bytes.
//!
//! One thing differs by nature: FLUSHED in the index, the second of each copy.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scr_core::operations::publish_directories;
use scr_core::params::{Environment, Inputs, load};
use scr_core::records::{IndexEntry, PrefixIndex, Record as _, Summary, Timestamp};

use super::calls::{CHECKPOINT, launch, same, write};
use super::cluster::Cluster;

/// All files below `dir`, by their paths there.
fn tree(top: &Path, dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(tree(top, &path)),
            false => {
                let name = path.strip_prefix(top).unwrap().to_path_buf();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// The records and files of dataset 1, and its entry in the index with another time.
fn of_dataset(prefix: &Path, name: &str) -> (BTreeMap<PathBuf, Vec<u8>>, IndexEntry) {
    let mut files = tree(prefix, &prefix.join(".scr/scr.dataset.1"));
    files.extend(tree(prefix, &prefix.join(name)));
    let index = PrefixIndex::read(&prefix.join(".scr/index.scr")).unwrap().unwrap();
    assert_eq!(index.current(), Some("scr.dataset.1"));
    let mut entry = index.by_id(1).unwrap().clone();
    assert!(entry.flushed.is_some());
    entry.flushed = Some(Timestamp::from_unix_seconds(0));
    (files, entry)
}

#[test]
fn a_start_and_a_rebuild_bring_the_same_bytes_to_the_prefix() {
    for scheme in ["XOR", "PARTNER", "RS"] {
        let settings = [&*format!("SCR_COPY_TYPE={scheme}"), "SCR_FLUSH=0"];
        let cluster = Cluster::new(&settings);
        let prefix = cluster.prefix();
        let sealed = launch(&cluster, "aabbcc", |session, _| {
            write(session, &prefix, "one", CHECKPOINT, true)
        });
        assert!(same(sealed), "{scheme}");
        assert!(!prefix.join("one").exists(), "{scheme}");

        // What is left of two nodes, and another prefix.
        let elsewhere = tempfile::tempdir().unwrap();
        let (rescue, other) = (elsewhere.path().join("rescue"), elsewhere.path().join("prefix"));
        fs::create_dir(&rescue).unwrap();
        fs::create_dir(&other).unwrap();
        let nodes = ["a", "c"].map(|host| prefix.with_file_name("nodes").join(host));
        let copied = Command::new("cp").arg("-a").args(nodes).arg(&rescue).status().unwrap();
        assert!(copied.success());

        // The seal's time counts, not that of what follows.
        let sealed_at = Timestamp::now();
        while Timestamp::now() == sealed_at {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        launch(&cluster, "aabbcc", |session, _| session.ending.finish());
        let environment: Environment = [
            ("SCR_PREFIX".to_owned(), other.display().to_string()),
            ("SCR_JOB_ID".to_owned(), "1".to_owned()),
            // It was made for another prefix.
            ("SCR_CACHE_ADOPT".to_owned(), "1".to_owned()),
        ]
        .into_iter()
        .collect();
        let settings = load(&Inputs {
            environment: &environment,
            working_directory: elsewhere.path(),
            system_file: Path::new("/no/such/file"),
            program: &[],
        });
        let done = publish_directories(&settings.unwrap(), &environment, &[rescue], None).unwrap();
        assert_eq!((done.published, done.lost), (vec!["one".to_owned()], vec![]), "{scheme}");

        let told = Summary::read_from(&prefix.join(".scr/scr.dataset.1")).unwrap().unwrap().dataset;
        assert_eq!(told.job_id, "1", "{scheme}");
        let (engine, command) = (of_dataset(&prefix, "one"), of_dataset(&other, "one"));
        let names = |of: &BTreeMap<PathBuf, Vec<u8>>| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&engine.0), names(&command.0), "{scheme}");
        assert!(engine.0.len() >= 7, "{scheme}");
        for (name, bytes) in &engine.0 {
            assert!(command.0[name] == *bytes, "{scheme}: {} differs", name.display());
        }
        assert_eq!(engine.1, command.1, "{scheme}");
    }
}
