//! What the operations on the cache need to know of a rank.

use std::path::Path;

use super::layout::Layout;
use super::sharing::Sharing;
use super::store::FilemapFile;
use crate::comm::Comm;
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::records::DatasetRecord;
use crate::redundancy::{RedundancySet, Scheme};
use crate::transfer::Options;

/// One rank's files of a dataset, wherever that rank is.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// World rank that wrote them.
    pub owner: usize,
    /// Its record; `dir` is where the files lie here.
    pub record: DatasetRecord,
}

/// What the operations on the cache need to know of this rank; it lives as long as the launch.
pub struct Ctx<'a> {
    /// All ranks, on a communicator of our own.
    pub world: &'a dyn Comm,
    /// The ranks of this node, in world order; its rank 0 is the node's leader. They share the
    /// control directory and the stores.
    pub node: &'a dyn Comm,
    /// World ranks of this node, in node order.
    pub node_ranks: &'a [usize],
    /// The leaders of all nodes, in world order; on them only.
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
    #[must_use]
    pub fn is_node_leader(&self) -> bool {
        self.node.rank() == 0
    }
}

/// Finds schemes and redundancy sets, so that the cache needs to know neither settings nor groups.
pub trait Protect: Send + Sync {
    /// The scheme of a descriptor's TYPE.
    fn scheme(&self, type_name: &str) -> Option<&dyn Scheme>;
    /// Chooses sets for `descriptor` (TYPE, GROUP, SET_SIZE, STORE, ...) on the present placement
    /// of the ranks. Returns the set of this rank and the descriptor completed with GROUP_ID,
    /// GROUP_RANK, GROUP_SIZE and the world ranks of the set. Collective over the world.
    fn choose(&self, descriptor: &KvTree) -> Result<(RedundancySet, KvTree)>;
    /// Protecting has failed on some rank, and all know: messages of it may still be on their way,
    /// so that its communicators do not serve again.
    fn forget_failed(&self) {}
    /// [`RedundancySet::piece_bytes`] of all sets.
    fn piece_bytes(&self) -> usize;
    /// Whether the members, `world ranks` of one set, still lie in different failure groups of
    /// `descriptor` on the present placement. Local; the same answer on every rank.
    fn is_spread(&self, descriptor: &KvTree, world_ranks: &[usize]) -> bool;
}
