//! What survives a job: nodes with their caches and records, and the PFS.

use std::collections::{BTreeMap, BTreeSet};

use scr_core::cache::{Claim, Marks};
use scr_core::machine::{DatasetKey, Knowledge};
use scr_core::records;

use super::series::NAMES;

/// How far a file is in its checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Open, or never closed.
    Torn,
    /// Closed, but the program will write it again.
    Draft,
    Final,
}

/// The content of a file: which checkpoint of which launch, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content {
    pub launch: u32,
    pub step: u32,
    pub stage: Stage,
}

impl Content {
    /// What a rebuild from parts that do not fit gives.
    pub const GARBAGE: Content = Content { launch: u32::MAX, step: 0, stage: Stage::Torn };
}

pub type Files = BTreeMap<String, Content>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub id: u64,
    pub number: u64,
    pub epoch: u64,
    /// Prepared; else open.
    pub prepared: bool,
    /// Names and whether they lie on the PFS; as of the seal.
    pub files: Vec<(String, bool)>,
}

impl Record {
    pub fn open() -> Record {
        Record { id: 0, number: 0, epoch: 0, prepared: false, files: Vec::new() }
    }
}

/// What a right neighbour keeps of a rank.
#[derive(Debug, Clone)]
pub struct Copy {
    pub record: Record,
    /// The rank's files at the encode.
    pub files: Files,
    /// The files of the other members at the encode: parity is of use only beside these.
    pub others: Vec<(usize, Files)>,
}

/// A dataset as of one seal: its key and epoch.
pub type Sealed = (DatasetKey, u64);

/// A dataset on a rank.
pub type Part = (usize, DatasetKey);

#[derive(Debug, Clone, Default)]
pub struct Node {
    pub records: BTreeMap<Part, Record>,
    /// Records of what was evicted, until the rank writes its next one.
    pub stale: BTreeMap<Part, Record>,
    pub copies: BTreeMap<Part, Copy>,
    pub files: BTreeMap<Part, Files>,
    /// Confirmed markers, with their epoch.
    pub confirmed: BTreeMap<DatasetKey, u64>,
    /// Markers of datasets that a restart offered, with their epoch.
    pub offered: BTreeMap<DatasetKey, u64>,
    /// Markers of datasets that were left alone for long, with their epoch.
    pub trusted: BTreeMap<DatasetKey, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Single,
    Partner,
    Xor,
}

/// Files that a flush has agreed to publish, so that the next start can complete it.
#[derive(Debug, Clone)]
pub struct Journal {
    /// The dataset, if all of it is published.
    pub key: Option<Sealed>,
    pub staged: Vec<Files>,
}

#[derive(Debug, Clone)]
pub struct Cluster {
    pub scheme: Scheme,
    pub nodes: Vec<Node>,
    /// Where each rank runs, or ran last.
    pub node_of: Vec<usize>,
    /// Nodes lost since the last restart.
    pub lost: BTreeSet<usize>,
    pub pfs: Files,
    pub journal: Option<Journal>,
    /// Datasets that are on the PFS.
    pub index: BTreeSet<Sealed>,
    /// By rank and series.
    pub knowledge: Vec<Vec<Knowledge>>,
}

impl Cluster {
    pub fn new(scheme: Scheme, ranks: usize, nodes: usize, series: usize) -> Cluster {
        Cluster {
            scheme,
            nodes: vec![Node::default(); nodes],
            node_of: (0..ranks).map(|rank| rank * nodes / ranks).collect(),
            lost: BTreeSet::new(),
            pfs: Files::new(),
            journal: None,
            index: BTreeSet::new(),
            knowledge: vec![vec![Knowledge::default(); series]; ranks],
        }
    }

    pub fn node(&mut self, rank: usize) -> &mut Node {
        let node = self.node_of[rank];
        &mut self.nodes[node]
    }

    /// The ranks of the redundancy set of `rank`, in order: the first ranks of all nodes, the
    /// second ones, and so on.
    pub fn set(&self, rank: usize) -> Vec<usize> {
        let ranks = 0..self.node_of.len();
        let level = |rank: usize| {
            (0..rank).filter(|other| self.node_of[*other] == self.node_of[rank]).count()
        };
        let own = level(rank);
        let mut set: Vec<usize> = ranks.filter(|other| level(*other) == own).collect();
        set.sort_by_key(|rank| self.node_of[*rank]);
        set
    }

    /// The rank that keeps a copy of this one's part.
    pub fn right(&self, rank: usize) -> Option<usize> {
        let set = self.set(rank);
        let at = set.iter().position(|member| *member == rank)?;
        let right = set[(at + 1) % set.len()];
        (right != rank && self.scheme != Scheme::Single).then_some(right)
    }

    pub fn lose(&mut self, node: usize) {
        self.nodes[node] = Node::default();
        self.lost.insert(node);
    }

    pub fn own_record(&self, rank: usize, key: &DatasetKey) -> Option<&Record> {
        let part = (rank, key.clone());
        self.nodes.iter().find_map(|node| node.records.get(&part))
    }

    /// The rank's record of one seal: its own, or its neighbour's copy.
    pub fn record(&self, rank: usize, key: &DatasetKey, epoch: u64) -> Option<&Record> {
        let part = (rank, key.clone());
        let own = self.own_record(rank, key).filter(|record| record.epoch == epoch);
        own.or_else(|| {
            let copies = self.nodes.iter().filter_map(|node| node.copies.get(&part));
            let mut records = copies.map(|copy| &copy.record);
            records.find(|record| record.epoch == epoch)
        })
    }

    /// The rank writes a record of its own, and with it all that it knows.
    pub fn written(&mut self, rank: usize) {
        self.node(rank).stale.retain(|(owner, _), _| *owner != rank);
    }

    /// The rank's data is gone; its record goes with the next one, if a newer one outdates it.
    pub fn forget(&mut self, rank: usize, key: &DatasetKey) {
        let (part, node) = ((rank, key.clone()), self.node(rank));
        let record = node.records.remove(&part);
        let newer = |((owner, _), other): (&Part, &Record), id| {
            *owner == rank && other.prepared && other.id > id
        };
        match record.filter(|record| record.id != 0) {
            Some(old) if node.records.iter().any(|one| newer(one, old.id)) => {
                node.stale.insert(part.clone(), old);
            }
            _ => self.written(rank),
        }
        for node in &mut self.nodes {
            node.records.remove(&part);
        }
    }

    /// A start reads what is there.
    pub fn read_stale(&mut self) {
        for node in &mut self.nodes {
            for (part, record) in std::mem::take(&mut node.stale) {
                node.records.entry(part).or_insert(record);
            }
        }
    }

    /// What all records say at a restart.
    pub fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let claim = |((owner, key), record): (&Part, &Record), present| Claim {
                present,
                ..self.claim(at, *owner, key, record)
            };
            let is_there = |key: &DatasetKey| node.records.keys().any(|(_, other)| other == key);
            claims.extend(node.records.iter().map(|one| claim(one, true)));
            claims.extend(node.stale.iter().map(|one| claim(one, is_there(&one.0.1))));
        }
        claims
    }

    fn claim(&self, node: usize, owner: usize, key: &DatasetKey, record: &Record) -> Claim {
        let marked = |markers: &BTreeMap<DatasetKey, u64>| {
            record.prepared && markers.get(key) == Some(&record.epoch)
        };
        Claim {
            key: records::RecordKey {
                series: NAMES[key.series].into(),
                id: key.id.clone(),
                generation: key.generation,
            },
            id: record.id,
            epoch: record.epoch,
            strange: false,
            owner,
            holder: owner,
            prepared: record.prepared && record.id != 0,
            marks: Marks {
                confirmed: marked(&self.nodes[node].confirmed),
                offered: marked(&self.nodes[node].offered),
                trusted: marked(&self.nodes[node].trusted),
            },
            present: true,
            intact: true,
            encodings: Vec::new(),
            scheme: String::new(),
            failures: 1,
            store: String::new(),
        }
    }

    /// The rank's own files, if its record of this seal and all files in it are there.
    fn own_files(&self, rank: usize, key: &DatasetKey, epoch: u64) -> Option<Files> {
        let part = (rank, key.clone());
        let is_it = |record: &Record| record.prepared && record.epoch == epoch;
        let node = self.nodes.iter().find(|node| node.records.get(&part).is_some_and(is_it))?;
        let empty = Files::new();
        let files = node.files.get(&part).unwrap_or(&empty);
        let cached = node.records[&part].files.iter().filter(|(_, on_prefix)| !on_prefix);
        cached.map(|(name, _)| files.get_key_value(name).map(|(k, v)| (k.clone(), *v))).collect()
    }

    /// All ranks' files of a dataset as a rebuild gives them; `None` if the losses exceed the
    /// scheme.
    pub fn rebuild(&self, key: &DatasetKey, epoch: u64) -> Option<Vec<Files>> {
        (0..self.node_of.len()).map(|rank| self.rebuild_rank(rank, key, epoch)).collect()
    }

    fn rebuild_rank(&self, rank: usize, key: &DatasetKey, epoch: u64) -> Option<Files> {
        if let Some(files) = self.own_files(rank, key, epoch) {
            return Some(files);
        }
        let right = self.right(rank)?;
        let copies = &self.nodes[self.node_of[right]].copies;
        let copy = copies.get(&(rank, key.clone())).filter(|copy| copy.record.epoch == epoch)?;
        if self.scheme == Scheme::Partner {
            return Some(copy.files.clone());
        }
        for (other, encoded) in &copy.others {
            let now = self.own_files(*other, key, epoch)?;
            if now != *encoded {
                return Some(copy.files.keys().map(|k| (k.clone(), Content::GARBAGE)).collect());
            }
        }
        Some(copy.files.clone())
    }

    pub fn remove(&mut self, key: &DatasetKey) {
        for node in &mut self.nodes {
            node.records.retain(|(_, other), _| other != key);
            node.copies.retain(|(_, other), _| other != key);
            node.files.retain(|(_, other), _| other != key);
            node.confirmed.remove(key);
            node.offered.remove(key);
            node.trusted.remove(key);
        }
    }

    /// Removes the parts of a dataset whose records are of one seal.
    pub fn remove_seal(&mut self, key: &DatasetKey, id: u64, epoch: u64) {
        for node in &mut self.nodes {
            let is_it = |record: &Record| (record.id, record.epoch) == (id, epoch);
            let records = node.records.iter();
            let gone = records.filter(|((_, other), record)| other == key && is_it(record));
            let gone: Vec<Part> = gone.map(|(part, _)| part.clone()).collect();
            for part in gone {
                node.records.remove(&part);
                node.files.remove(&part);
            }
        }
    }
}
