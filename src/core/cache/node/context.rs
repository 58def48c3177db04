//! What the operations on the cache need to know of a rank.

use std::path::Path;

use super::layout::Layout;
use super::sharing::Sharing;
use super::store::FilemapFile;
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;
use crate::records::DatasetRecord;
use crate::redundancy::{RedundancySet, Scheme};
use crate::transfer::Options;

/// One rank's files of a dataset, wherever that rank runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    pub owner: usize,
    /// Its `dir` is where the files lie here.
    pub record: DatasetRecord,
}

/// What the operations on the cache know of this rank; it lives as long as the launch.
pub struct Ctx<'a> {
    /// On a communicator of our own.
    pub world: &'a dyn Comm,
    /// The ranks of this node, in world order, which share the control directory and the stores;
    /// rank 0 is the node's leader.
    pub node: &'a dyn Comm,
    /// In node order.
    pub node_ranks: &'a [usize],
    /// The leaders of all nodes, in world order; on leaders only.
    pub leaders: Option<&'a dyn Comm>,
    /// Host name, for messages and tags.
    pub host: &'a str,
    /// Directories of this node.
    pub layout: &'a Layout,
    /// Which nodes reach the same store.
    pub sharing: &'a Sharing,
    /// This rank's filemap.
    pub filemap: &'a FilemapFile,
    /// The program's directory on the parallel file system.
    pub prefix: &'a Path,
    /// Schemes and the choice of sets.
    pub protection: &'a dyn Protect,
    /// How files travel between cache and prefix.
    pub transfer: Options,
}

impl Ctx<'_> {
    /// Tells whether this rank acts for its node.
    pub fn is_node_leader(&self) -> bool {
        self.node.rank() == 0
    }

    pub(crate) fn scheme_of(&self, record: &DatasetRecord) -> Result<&dyn Scheme> {
        let type_name = record.descriptor.get_value("TYPE").unwrap_or_default();
        self.protection.scheme(type_name).ok_or_else(|| unknown_scheme(type_name))
    }
}

pub(crate) fn unknown_scheme(type_name: &str) -> Error {
    Error::Missing(format!("no redundancy scheme is called \"{type_name}\""))
}

/// Keeps settings and groups out of the cache.
pub trait Protect: Send + Sync {
    /// The scheme of a descriptor's TYPE.
    fn scheme(&self, type_name: &str) -> Option<&dyn Scheme>;
    /// Chooses sets on the present placement for `descriptor` (TYPE, GROUP, SET_SIZE, STORE, ...).
    /// Returns this rank's set, and the descriptor with GROUP_ID, GROUP_RANK, GROUP_SIZE and the
    /// world ranks of the set. Collective over the world.
    fn choose(&self, descriptor: &KvTree) -> Result<(RedundancySet, KvTree)>;
    /// To be called when protecting has failed on some rank: messages may still be on their way, so
    /// the communicators must not serve again.
    fn forget_failed(&self) {}
    /// [`RedundancySet::piece_bytes`] of all sets.
    fn piece_bytes(&self) -> usize;
    /// Whether the members of one set still lie in different failure groups of `descriptor`. Local;
    /// the same answer on every rank.
    fn is_spread(&self, descriptor: &KvTree, world_ranks: &[usize]) -> bool;
}
