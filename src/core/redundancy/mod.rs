//! Redundancy schemes behind one trait: SINGLE, PARTNER, XOR (000 section 7, 001, 002).
//!
//! A scheme protects the files of a dataset within a redundancy set: ranks that do not share a
//! failure group. It reads the members' files, writes redundancy files to `<dataset dir>/.scr/`, and
//! gives back the lost ones. All file names are relative to the dataset directory.

use std::path::PathBuf;

use crate::comm::Comm;
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::records::FileMeta;

/// The ranks that protect one another, as seen by one of them.
pub struct RedundancySet {
    /// The members, in set order; the right neighbour is `(rank + 1) % size`.
    pub comm: Box<dyn Comm>,
    /// World rank of each member, in set order.
    pub world_ranks: Vec<usize>,
    /// Host of each member, in set order (a tag for scavenge).
    pub hosts: Vec<String>,
    /// Smallest world rank of the set (000 7.3.2).
    pub group_id: usize,
    /// Ranks in the world.
    pub world_size: usize,
}

/// One rank's part of a dataset in cache.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberData {
    /// Directory of the dataset on this node; it exists.
    pub dir: PathBuf,
    /// Dataset id.
    pub id: u64,
    /// Epoch of the seal; parts with another epoch never combine.
    pub epoch: u64,
    /// The program's files of this rank in index order (the order of concatenation).
    pub files: Vec<FileMeta>,
    /// The rank's record (descriptor, series, ...), opaque here; the right neighbour keeps a copy.
    pub record: KvTree,
}

/// What a scheme left on this rank's node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Protection {
    /// Redundancy files of this rank, relative to the dataset directory.
    pub files: Vec<FileMeta>,
}

/// How a rank enters a rebuild.
pub struct Survivor {
    /// Directory of the dataset on this node; it exists.
    pub dir: PathBuf,
    /// Dataset id.
    pub id: u64,
    /// Epoch that all parts must carry.
    pub epoch: u64,
    /// This rank's part, when all its files are there and right; `None` if anything is missing.
    pub data: Option<MemberData>,
    /// Whether its redundancy files are there too and right.
    pub protection: Option<Protection>,
}

/// A scheme. Calls are collective over the set; all members get `Ok` or all get `Err`.
pub trait Scheme: Send + Sync {
    /// "SINGLE", "PARTNER", "XOR".
    fn name(&self) -> &'static str;
    /// How many members may lose everything.
    fn tolerated_losses(&self) -> usize;
    /// Protects `data`, writes this rank's redundancy files below `<dir>/.scr/` (fsynced).
    fn encode(&self, set: &RedundancySet, data: &MemberData) -> Result<Protection>;
    /// Restores files, record and redundancy files of the members that lost theirs.
    /// `Err(Error::Unrecoverable)` on all members when the losses exceed the scheme.
    fn rebuild(&self, set: &RedundancySet, own: &Survivor) -> Result<(MemberData, Protection)>;
}
