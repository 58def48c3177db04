//! Trees over a group of ranks.

use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::kvtree::KvTree;

/// Returns the tree of `root` on every rank; what the others give does not count. Collective.
pub fn from_root(comm: &dyn Comm, tree: &KvTree, root: usize) -> Result<KvTree> {
    let mut bytes = if comm.rank() == root { tree.encode() } else { Vec::new() };
    comm.broadcast(&mut bytes, root)?;
    unpack(&bytes, root)
}

/// Returns every rank's tree, in rank order, on every rank. Collective.
pub fn all_gather(comm: &dyn Comm, tree: &KvTree) -> Result<Vec<KvTree>> {
    let all = comm.all_gather(&tree.encode())?;
    all.iter().enumerate().map(|(rank, bytes)| unpack(bytes, rank)).collect()
}

fn unpack(bytes: &[u8], from: usize) -> Result<KvTree> {
    KvTree::decode(bytes)
        .map_err(|malformed| Error::Comm(format!("what rank {from} sent is no tree: {malformed}")))
}
