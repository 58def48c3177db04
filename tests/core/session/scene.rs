//! What tests share that compare a program with itself without SCR, or look at the prefix.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use scr_core::records::{FlushState, Record as _};

use super::cluster::{Cluster, Outcome, Rank};

/// Nodes whose checkpoints have no redundancy, and a prefix.
pub fn place(settings: &[&str]) -> Cluster {
    Cluster::new(&[&["SCR_COPY_TYPE=SINGLE"], settings].concat())
}

/// A program that returns the same on all ranks, with SCR_FLUSH=1 and without SCR, and leaves the
/// same files; returns what it did with SCR.
pub fn same<T: Send + PartialEq + Debug>(
    hosts: &str,
    settings: &[&str],
    program: impl Fn(&Rank) -> T + Sync,
) -> Outcome<T> {
    let settings = [&["SCR_FLUSH=1"], settings].concat();
    let (plain, here) = (place(&[]), place(&settings));
    let want = plain.run_plain(hosts, &program);
    let got = here.run(hosts, &program);
    assert!(want.results == got.results, "{}", difference(&want, &got, &settings));
    let (before, after) = (tree(&plain.prefix()), tree(&here.prefix()));
    assert_same_files(&before, &after, &got.told);
    got
}

/// What differs, in as few words as it can be told.
fn difference<T: Debug>(want: &Outcome<T>, got: &Outcome<T>, settings: &[&str]) -> String {
    let mut text = format!("{settings:?}: {:?}", got.told);
    for (rank, both) in want.results.iter().zip(&got.results).enumerate() {
        let (want, got) = (format!("{:?}", both.0), format!("{:?}", both.1));
        let at = want.bytes().zip(got.bytes()).take_while(|(one, other)| one == other).count();
        let from = at.saturating_sub(200);
        let cut = |text: &str| text.chars().skip(from).take(400).collect::<String>();
        if want != got {
            text +=
                &format!("\nrank {rank}: without SCR ..{}\nwith it ..{}", cut(&want), cut(&got));
        }
    }
    text
}

pub fn assert_same_files(want: &Tree, got: &Tree, told: &[String]) {
    let differs = |name: &&String| want.get(*name) != got.get(*name);
    let wrong: Vec<_> = want.keys().chain(got.keys()).filter(differs).collect();
    assert!(wrong.is_empty(), "files differ: {wrong:?}; {told:?}");
}

/// The content of files by their names.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// All files below a directory, but for those of SCR; links by where they lead.
pub fn tree(top: &Path) -> Tree {
    let mut found = BTreeMap::new();
    for path in below(top) {
        let name = path.strip_prefix(top).unwrap().to_string_lossy().into_owned();
        let bytes = match fs::read_link(&path) {
            Ok(target) => Ok(target.to_string_lossy().into_owned().into_bytes()),
            Err(_) => fs::read(&path),
        };
        match bytes {
            Ok(bytes) if !name.starts_with(".scr/") => drop(found.insert(name, bytes)),
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{name}: {error}"),
            _ => {} // one of SCR's own, or staged a moment ago
        }
    }
    found
}

/// All that lies below a directory and is none.
pub fn below(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => found.extend(below(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

/// One message, with these words.
pub fn check_message(told: &[String], words: &[&str]) {
    assert_eq!(told.len(), 1, "not exactly one message: {told:?}");
    let missing: Vec<_> = words.iter().filter(|word| !told[0].contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} not in the message: {told:?}");
}

impl Cluster {
    /// What the prefix has of the program's files.
    pub fn tree(&self) -> Tree {
        tree(&self.prefix())
    }

    /// The checkpoints of which the prefix has files, by their directories.
    pub fn steps_on_prefix(&self) -> Vec<String> {
        let names = self.tree().into_keys();
        let of = |name: String| name.strip_prefix("ckpt/")?.split('/').next().map(str::to_string);
        let mut steps: Vec<_> = names.filter_map(of).collect();
        steps.sort_by_key(|step| (step.len(), step.clone()));
        steps.dedup();
        steps
    }

    /// The datasets that have a summary on the prefix.
    pub fn datasets(&self) -> Vec<String> {
        let all = fs::read_dir(self.prefix().join(".scr")).into_iter().flatten().flatten();
        let known = all.filter(|entry| entry.path().join("summary.scr").exists());
        let mut names: Vec<_> =
            known.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The files that the caches of the nodes have below their datasets.
    pub fn files_in_cache(&self, hosts: &str) -> Vec<PathBuf> {
        let mut nodes: Vec<char> = hosts.chars().collect();
        nodes.dedup();
        let all = nodes.into_iter().flat_map(|host| below(&self.node(host)));
        all.filter(|path| path.to_string_lossy().contains("/ckpt/")).collect()
    }

    /// Everything that was on the nodes is gone.
    pub fn lose_all(&self, hosts: &str) {
        for host in hosts.chars() {
            let _ = fs::remove_dir_all(self.node(host));
        }
    }
}

/// Waits for an event; a minute is none.
pub fn wait_for(event: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !event() {
        assert!(begun.elapsed().as_secs() < 60, "the event did not come");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Waits until the flush file on the prefix tells that the rank's newest checkpoint is complete.
pub fn wait_until_recorded(rank: &Rank, cluster: &Cluster) {
    let (id, _) = rank.session().node.newest_complete(0).unwrap();
    let path = cluster.prefix().join(".scr").join(FlushState::NAME);
    let state = || FlushState::read(&path).ok().flatten();
    wait_for(|| state().is_some_and(|state| state.name(id).is_some()));
    rank.barrier();
}

/// How many files in caches have that name, parts and copies of them, too.
pub fn cached_as(cluster: &Cluster, hosts: &str, name: &str) -> usize {
    let all = cluster.files_in_cache(hosts).into_iter();
    all.filter(|path| path.to_string_lossy().ends_with(name)).count()
}
