//! The run record: what the last launch on a prefix is, how far it has come, and how it ended. It
//! is for people (`scr status`, `scr doctor`); a start asks whether that run ended by itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use crate::files::modified;
use crate::kvtree::KvTree;
use crate::records::record::{Record, number};

/// The version of the format.
const VERSION: u64 = 1;

/// What is known of a node.
const NODE_KEYS: [&str; 7] =
    ["RANKS", "FILES", "BYTES", "SEALED", "SEAL_NANOS", "FLUSHED", "FLUSH_NANOS"];

/// The last launch on a prefix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunRecord {
    /// Random, one for each launch, as 16 hexadecimal digits.
    pub launch: String,
    /// Who runs it.
    pub user: String,
    /// Id of the job.
    pub job: String,
    /// Version of SCR in the ranks.
    pub version: String,
    /// The MPI of the ranks as it calls itself; empty if it is not known.
    pub mpi: String,
    /// Number of ranks.
    pub ranks: u64,
    /// When it began, seconds since 1970.
    pub started: u64,
    /// When the record was written, seconds since 1970.
    pub updated: u64,
    /// How it ended; `None`: it runs, or was killed.
    pub end: Option<RunEnd>,
    /// A clause about the config file.
    pub config: String,
    /// What somebody has set, by name: value, and where.
    pub settings: BTreeMap<String, (String, String)>,
    /// The patterns in force, in a clause; empty if the program calls SCR.
    pub patterns: String,
    /// How checkpoints are protected, a clause for each scheme in use.
    pub protection: Vec<String>,
    /// What the run was warned of at its start.
    pub warnings: Vec<String>,
    /// By host.
    pub nodes: BTreeMap<String, RunNode>,
    /// By id.
    pub datasets: BTreeMap<u64, RunDataset>,
    /// What happened last, oldest first.
    pub events: Vec<RunEvent>,
    /// Files that went straight to the prefix, by the reason's words.
    pub passed: BTreeMap<String, RunPassed>,
    /// `passed` counts all ranks; before the end it is what rank 0 has seen.
    pub passed_of_all: bool,
    /// No file matched: which name came nearest to a pattern and what differed; empty if the
    /// program wrote nothing.
    pub unmatched: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunEnd {
    /// `END` (MPI_Finalize) or `EXIT` (without it).
    pub how: String,
    /// When, seconds since 1970.
    pub time: u64,
}

/// A node of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunNode {
    /// Number of its ranks.
    pub ranks: u64,
    /// Files of datasets in its caches, without redundancy data.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How fast it has sealed what its ranks wrote into its caches.
    pub sealed: RunPace,
    /// How fast it has copied to the prefix.
    pub flushed: RunPace,
}

/// How fast the ranks of a node move bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunPace {
    /// Bytes that all of them have moved.
    pub bytes: u64,
    /// Nanoseconds that it has taken the slowest of them.
    pub nanos: u64,
}

impl RunPace {
    /// Returns the time in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.nanos as f64 / 1e9
    }
}

/// A dataset of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunDataset {
    /// What people call it, as `checkpoint 30`.
    pub name: String,
    /// It is known to be complete; else it is sealed only.
    pub complete: bool,
    /// Files of it are in the caches.
    pub in_cache: bool,
    /// It is on the prefix.
    pub on_prefix: bool,
    /// Number of its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that have been in the caches.
    pub cached: u64,
    /// When it was sealed, or offered to the program at its start, seconds since 1970; 0: unknown.
    pub sealed: u64,
    /// How long its seal took, in seconds.
    pub seal_seconds: Option<f64>,
    /// Seconds between its last close and its seal, as rank 0 has seen it.
    pub exposed_seconds: Option<f64>,
    /// Its way to the prefix.
    pub flush: RunFlush,
}

/// The flush of a dataset of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFlush {
    /// The dataset has to reach the prefix, by the settings.
    pub due: bool,
    /// One is under way.
    pub under_way: bool,
    /// How long it took, in seconds.
    pub seconds: Option<f64>,
    /// Why the last one failed.
    pub failed: Option<String>,
}

/// Something that happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunEvent {
    /// When, seconds since 1970.
    pub time: f64,
    /// What, as in the log of events.
    pub what: String,
    /// The dataset and more, in words.
    pub text: String,
}

/// Files that went straight to the prefix for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunPassed {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// One of their names.
    pub example: String,
}

impl RunRecord {
    /// File name in the prefix's `.scr` directory.
    pub const NAME: &'static str = "run.scr";

    /// Tells when the last run ended by itself, as the file system in `state_dir` has it: seconds,
    /// nanoseconds. `None`: it was killed, or nobody knows.
    #[must_use]
    pub fn ended(state_dir: &Path) -> Option<(i64, i64)> {
        let path = state_dir.join(Self::NAME);
        RunRecord::read(&path).ok()??.end?;
        path.symlink_metadata().ok().as_ref().map(modified)
    }
}

impl Record for RunRecord {
    const KIND: &'static str = "the run record";

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("VERSION", VERSION);
        for (key, text) in [
            ("LAUNCH", &self.launch),
            ("USER", &self.user),
            ("JOB", &self.job),
            ("SCR", &self.version),
            ("MPI", &self.mpi),
            ("CONFIG", &self.config),
            ("PATTERNS", &self.patterns),
        ] {
            tree.set_value(key, text);
        }
        for (key, count) in
            [("RANKS", self.ranks), ("STARTED", self.started), ("UPDATED", self.updated)]
        {
            tree.set_value(key, count);
        }
        if let Some(end) = &self.end {
            let below = tree.child_mut("END");
            below.set_value("HOW", &end.how);
            below.set_value("TIME", end.time);
        }
        for (name, (value, place)) in &self.settings {
            let below = tree.set_kv("SETTING", name);
            below.set_value("VALUE", value);
            below.set_value("PLACE", place);
        }
        put_list(&mut tree, "PROTECTION", &self.protection);
        put_list(&mut tree, "WARNING", &self.warnings);
        for (host, node) in &self.nodes {
            let [[sealed, seal], [flushed, flush]] =
                [node.sealed, node.flushed].map(|pace| [pace.bytes, pace.nanos]);
            let numbers = [node.ranks, node.files, node.bytes, sealed, seal, flushed, flush];
            let numbers: Vec<_> = NODE_KEYS.into_iter().zip(numbers).collect();
            put_numbers(tree.set_kv("NODE", host), &numbers);
        }
        for (id, dataset) in &self.datasets {
            dataset.put(tree.set_kv("DSET", id));
        }
        for (at, event) in self.events.iter().enumerate() {
            let below = tree.set_kv("EVENT", at);
            below.set_value("TIME", event.time);
            below.set_value("WHAT", &event.what);
            below.set_value("TEXT", &event.text);
        }
        for (reason, passed) in &self.passed {
            let below = tree.set_kv("PASSED", reason);
            put_numbers(below, &[("FILES", passed.files), ("BYTES", passed.bytes)]);
            below.set_value("EXAMPLE", &passed.example);
        }
        tree.set_flag("PASSED_OF_ALL", self.passed_of_all);
        if let Some(nearest) = &self.unmatched {
            tree.set_value("UNMATCHED", nearest);
        }
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        match tree.get_u64("VERSION") {
            Some(VERSION) => {}
            Some(other) => return Err(format!("version {other} is not known")),
            None => return Err("no VERSION".to_owned()),
        }
        let end = tree
            .get("END")
            .map(|end| RunEnd { how: text(end, "HOW"), time: end.get_u64("TIME").unwrap_or(0) });
        let setting =
            |(name, one): (&str, &KvTree)| (name.into(), (text(one, "VALUE"), text(one, "PLACE")));
        let node = |(host, one): (&str, &KvTree)| {
            let [ranks, files, bytes, sealed, seal, flushed, flush] =
                NODE_KEYS.map(|key| one.get_u64(key).unwrap_or(0));
            let pace = |bytes, nanos| RunPace { bytes, nanos };
            let (sealed, flushed) = (pace(sealed, seal), pace(flushed, flush));
            (host.to_owned(), RunNode { ranks, files, bytes, sealed, flushed })
        };
        let passed = |(reason, one): (&str, &KvTree)| {
            let count = |key: &str| one.get_u64(key).unwrap_or(0);
            let (files, bytes) = (count("FILES"), count("BYTES"));
            (reason.to_owned(), RunPassed { files, bytes, example: text(one, "EXAMPLE") })
        };
        let dataset =
            |(id, one): (&str, &KvTree)| Ok((number(id, "a dataset id")?, RunDataset::get(one)));
        Ok(RunRecord {
            launch: text(tree, "LAUNCH"),
            user: text(tree, "USER"),
            job: text(tree, "JOB"),
            version: text(tree, "SCR"),
            mpi: text(tree, "MPI"),
            ranks: tree.get_u64("RANKS").ok_or("no number of RANKS")?,
            started: tree.get_u64("STARTED").ok_or("no time STARTED")?,
            updated: tree.get_u64("UPDATED").unwrap_or(0),
            end,
            config: text(tree, "CONFIG"),
            settings: tree.child("SETTING").iter().map(setting).collect(),
            patterns: text(tree, "PATTERNS"),
            protection: get_list(tree, "PROTECTION"),
            warnings: get_list(tree, "WARNING"),
            nodes: tree.child("NODE").iter().map(node).collect(),
            datasets: tree.child("DSET").iter().map(dataset).collect::<Result<_, String>>()?,
            events: in_order(tree.child("EVENT")).map(RunEvent::get).collect(),
            passed: tree.child("PASSED").iter().map(passed).collect(),
            passed_of_all: tree.get_flag("PASSED_OF_ALL"),
            unmatched: tree.get_value("UNMATCHED").map(str::to_owned),
        })
    }
}

impl RunDataset {
    fn put(&self, tree: &mut KvTree) {
        tree.set_value("NAME", &self.name);
        for (key, on) in [
            ("COMPLETE", self.complete),
            ("CACHE", self.in_cache),
            ("PFS", self.on_prefix),
            ("FLUSHING", self.flush.under_way),
            ("DUE", self.flush.due),
        ] {
            tree.set_flag(key, on);
        }
        put_numbers(tree, &[("FILES", self.files), ("BYTES", self.bytes)]);
        put_numbers(tree, &[("CACHED", self.cached), ("SEALED", self.sealed)]);
        for (key, seconds) in [
            ("SEAL_SECONDS", self.seal_seconds),
            ("EXPOSED_SECONDS", self.exposed_seconds),
            ("FLUSH_SECONDS", self.flush.seconds),
        ] {
            seconds.iter().for_each(|seconds| tree.set_value(key, seconds));
        }
        self.flush.failed.iter().for_each(|why| tree.set_value("FAILED", why));
    }

    fn get(tree: &KvTree) -> RunDataset {
        let count = |key: &str| tree.get_u64(key).unwrap_or(0);
        RunDataset {
            name: text(tree, "NAME"),
            complete: tree.get_flag("COMPLETE"),
            in_cache: tree.get_flag("CACHE"),
            on_prefix: tree.get_flag("PFS"),
            files: count("FILES"),
            bytes: count("BYTES"),
            cached: tree.get_u64("CACHED").unwrap_or(count("BYTES")),
            sealed: count("SEALED"),
            seal_seconds: finite(tree, "SEAL_SECONDS"),
            exposed_seconds: finite(tree, "EXPOSED_SECONDS"),
            flush: RunFlush {
                due: tree.get_flag("DUE"),
                under_way: tree.get_flag("FLUSHING"),
                seconds: finite(tree, "FLUSH_SECONDS"),
                failed: tree.get_value("FAILED").map(str::to_owned),
            },
        }
    }
}

impl RunEvent {
    fn get(tree: &KvTree) -> RunEvent {
        let time = finite(tree, "TIME").unwrap_or(0.0);
        RunEvent { time, what: text(tree, "WHAT"), text: text(tree, "TEXT") }
    }
}

fn text(tree: &KvTree, key: &str) -> String {
    tree.get_value(key).unwrap_or_default().to_owned()
}

/// A number of seconds that can be calculated with.
fn finite(tree: &KvTree, key: &str) -> Option<f64> {
    tree.get_value(key).and_then(|text| f64::from_str(text).ok()).filter(|one| one.is_finite())
}

fn put_numbers(tree: &mut KvTree, numbers: &[(&str, u64)]) {
    numbers.iter().for_each(|(key, count)| tree.set_value(key, count));
}

fn put_list(tree: &mut KvTree, key: &str, list: &[String]) {
    for (at, one) in list.iter().enumerate() {
        tree.child_mut(key).set_value(at, one);
    }
}

fn get_list(tree: &KvTree, key: &str) -> Vec<String> {
    let below = tree.child(key);
    in_order(below).filter_map(|one| one.keys().next().map(str::to_owned)).collect()
}

/// What is below keys that count from 0, in that order.
fn in_order(tree: &KvTree) -> impl Iterator<Item = &KvTree> {
    let mut all: Vec<(u64, &KvTree)> =
        tree.iter().filter_map(|(key, below)| Some((key.parse().ok()?, below))).collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, below)| below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> RunRecord {
        let dataset = RunDataset {
            name: "checkpoint.7".into(),
            complete: true,
            in_cache: true,
            files: 3,
            bytes: 12,
            sealed: 1000,
            seal_seconds: Some(0.25),
            exposed_seconds: Some(0.5),
            flush: RunFlush { failed: Some("no space left".into()), ..RunFlush::default() },
            ..RunDataset::default()
        };
        let event = |at: u32| RunEvent {
            time: f64::from(at) + 0.5,
            what: "SEALED".into(),
            text: format!("checkpoint {at}, \"quoted\""),
        };
        let node = RunNode {
            ranks: 4,
            files: 3,
            bytes: 12,
            sealed: RunPace { bytes: 24, nanos: 5 },
            flushed: RunPace { bytes: 12, nanos: 7 },
        };
        RunRecord {
            launch: "00000000000000ff".into(),
            ranks: 4,
            started: 1000,
            updated: 1001,
            end: Some(RunEnd { how: "END".into(), time: 1001 }),
            settings: [("SCR_FLUSH".into(), ("1".into(), "environment".into()))].into(),
            protection: vec!["XOR".into(), "SINGLE".into()],
            nodes: [("n1".into(), node)].into(),
            datasets: [(7, dataset)].into(),
            events: (0..12).map(event).collect(),
            passed: [("it is never quiet".into(), RunPassed { files: 1, ..Default::default() })]
                .into(),
            passed_of_all: true,
            unmatched: Some(String::new()),
            ..RunRecord::default()
        }
    }

    #[test]
    fn it_comes_back_as_it_was() {
        for record in [example(), RunRecord::default()] {
            assert_eq!(RunRecord::from_tree(&record.to_tree()), Ok(record));
        }
    }

    #[test]
    fn what_is_damaged_is_told() {
        let mut newer = example().to_tree();
        newer.set_value("VERSION", 2);
        assert!(RunRecord::from_tree(&newer).is_err_and(|why| why.contains("version 2")));
        let mut wrong = example().to_tree();
        wrong.set_kv("DSET", "seven");
        assert!(RunRecord::from_tree(&wrong).is_err());
        assert!(RunRecord::from_tree(&KvTree::new()).is_err());
        let mut endless = example().to_tree();
        endless.child_mut("DSET").child_mut("7").set_value("SEAL_SECONDS", "inf");
        let read = RunRecord::from_tree(&endless).expect("a record");
        assert_eq!(read.datasets[&7].seal_seconds, None);
    }
}
