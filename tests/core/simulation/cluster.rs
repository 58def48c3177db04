//! What survives a job: nodes with their caches and records, and the PFS.

use std::collections::{BTreeMap, BTreeSet};

use scr_core::session::machine::{DatasetKey, Knowledge, RecordState};

/// The content of a file: which checkpoint of which launch, and whether it was written to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content {
    pub launch: u32,
    pub step: u32,
    pub whole: bool,
}

impl Content {
    /// What a rebuild from parts that do not fit gives.
    pub const GARBAGE: Content = Content { launch: u32::MAX, step: 0, whole: false };
}

/// Files by name.
pub type Files = BTreeMap<String, Content>;

/// A rank's durable record of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub id: u64,
    pub number: u64,
    pub epoch: u64,
    pub state: RecordState,
    pub confirmed: bool,
    pub survived: bool,
    pub on_prefix: bool,
    /// Names and whether they lie on the PFS; as of the seal.
    pub files: Vec<(String, bool)>,
}

impl Record {
    /// The record of a first open.
    pub fn open() -> Record {
        Record {
            id: 0,
            number: 0,
            epoch: 0,
            state: RecordState::Open,
            confirmed: false,
            survived: false,
            on_prefix: false,
            files: Vec::new(),
        }
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

/// A node.
#[derive(Debug, Clone, Default)]
pub struct Node {
    pub records: BTreeMap<Part, Record>,
    pub copies: BTreeMap<Part, Copy>,
    pub files: BTreeMap<Part, Files>,
    /// Confirmed markers, with their epoch.
    pub markers: BTreeMap<DatasetKey, u64>,
}

/// The redundancy scheme of a run.
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

/// All that is durable.
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
    pub knowledge: Vec<Vec<Knowledge>>,
}

impl Cluster {
    pub fn new(scheme: Scheme, ranks: usize, nodes: usize) -> Cluster {
        Cluster {
            scheme,
            nodes: vec![Node::default(); nodes],
            node_of: (0..ranks).map(|rank| rank * nodes / ranks).collect(),
            lost: BTreeSet::new(),
            pfs: Files::new(),
            journal: None,
            index: BTreeSet::new(),
            knowledge: Vec::new(),
        }
    }

    /// The node of a rank.
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

    /// A node dies with all it holds.
    pub fn lose(&mut self, node: usize) {
        self.nodes[node] = Node::default();
        self.lost.insert(node);
    }

    /// Whether the rank's node has been lost since the last restart.
    pub fn is_lost(&self, rank: usize) -> bool {
        self.lost.contains(&self.node_of[rank])
    }

    /// The rank's own record, or its neighbour's copy of one.
    pub fn record(&self, rank: usize, key: &DatasetKey) -> Option<&Record> {
        let part = (rank, key.clone());
        let own = self.nodes.iter().find_map(|node| node.records.get(&part));
        own.or_else(|| {
            let copies = || self.nodes.iter().filter_map(|node| node.copies.get(&part));
            copies().next().filter(|_| self.is_lost(rank)).map(|copy| &copy.record)
        })
    }

    /// The rank's own files, if its record and all files in it are there.
    fn own_files(&self, rank: usize, key: &DatasetKey) -> Option<Files> {
        let part = (rank, key.clone());
        let node = &self.nodes[self.node_of[rank]];
        let record = node.records.get(&part)?;
        let empty = Files::new();
        let files = node.files.get(&part).unwrap_or(&empty);
        let cached = record.files.iter().filter(|(_, on_prefix)| !on_prefix);
        cached.map(|(name, _)| files.get_key_value(name).map(|(k, v)| (k.clone(), *v))).collect()
    }

    /// All ranks' files of a dataset as a rebuild gives them; `None` if the losses exceed the
    /// scheme.
    pub fn rebuild(&self, key: &DatasetKey, epoch: u64) -> Option<Vec<Files>> {
        (0..self.node_of.len()).map(|rank| self.rebuild_rank(rank, key, epoch)).collect()
    }

    fn rebuild_rank(&self, rank: usize, key: &DatasetKey, epoch: u64) -> Option<Files> {
        if let Some(files) = self.own_files(rank, key) {
            return Some(files);
        }
        let right = self.right(rank)?;
        let copies = &self.nodes[self.node_of[right]].copies;
        let copy = copies.get(&(rank, key.clone())).filter(|copy| copy.record.epoch == epoch)?;
        if self.scheme == Scheme::Partner {
            return Some(copy.files.clone());
        }
        for (other, encoded) in &copy.others {
            let now = self.own_files(*other, key)?;
            if now != *encoded {
                return Some(copy.files.keys().map(|k| (k.clone(), Content::GARBAGE)).collect());
            }
        }
        Some(copy.files.clone())
    }

    /// Everything that any rank or marker says of `key` being confirmed in this epoch.
    pub fn has_marker(&self, key: &DatasetKey, epoch: u64) -> bool {
        self.nodes.iter().any(|node| node.markers.get(key) == Some(&epoch))
    }
}
