//! Trees over a group of ranks (000 section 3.2.7). Receiving merges into the tree that is given.

use crate::comm::{Comm, words};
use crate::error::{Error, Result};
use crate::kvtree::KvTree;

/// Sends a tree to rank `to`.
///
/// # Errors
/// [`Error::Comm`] if communication fails.
pub fn send(comm: &dyn Comm, tree: &KvTree, to: usize) -> Result<()> {
    comm.send(&tree.encode(), to)
}

/// Receives a tree from rank `from` and merges it into `into`.
///
/// # Errors
/// [`Error::Comm`] if communication fails, or what came is no tree.
pub fn receive(comm: &dyn Comm, into: &mut KvTree, from: usize) -> Result<()> {
    let bytes = comm.receive(from)?;
    merge_packed(into, &bytes, from)
}

/// Sends `out` to rank `to` while receiving a tree from rank `from`, which is merged into `into`.
///
/// # Errors
/// As [`receive`].
pub fn send_receive(
    comm: &dyn Comm,
    out: &KvTree,
    to: usize,
    into: &mut KvTree,
    from: usize,
) -> Result<()> {
    merge_packed(into, &words::swap(comm, &out.encode(), to, from)?, from)
}

/// Merges the tree of `root` into that of every other rank. Collective.
///
/// # Errors
/// As [`receive`].
pub fn broadcast(comm: &dyn Comm, tree: &mut KvTree, root: usize) -> Result<()> {
    let sent = from_root(comm, tree, root)?;
    if comm.rank() != root {
        tree.merge(&sent);
    }
    Ok(())
}

/// Returns the tree of `root` on every rank; what the others give does not count. Collective.
///
/// # Errors
/// As [`receive`].
pub fn from_root(comm: &dyn Comm, tree: &KvTree, root: usize) -> Result<KvTree> {
    let mut bytes = if comm.rank() == root { tree.encode() } else { Vec::new() };
    comm.broadcast(&mut bytes, root)?;
    unpack(&bytes, root)
}

/// Returns every rank's tree, in rank order, on every rank. Collective.
///
/// # Errors
/// As [`receive`].
pub fn all_gather(comm: &dyn Comm, tree: &KvTree) -> Result<Vec<KvTree>> {
    let all = comm.all_gather(&tree.encode())?;
    all.iter().enumerate().map(|(rank, bytes)| unpack(bytes, rank)).collect()
}

/// Exchanges trees sparsely: each `<rank> / <tree>` of `out` is sent to that rank; what the others
/// sent comes back as `<rank> / <tree>` by sender. Nobody needs to know who sends to it.
/// Collective.
///
/// # Errors
/// As [`receive`]; a key of `out` that is no rank of the group is found after the exchange, so that
/// the others need not wait.
pub fn exchange(comm: &dyn Comm, out: &KvTree) -> Result<KvTree> {
    let mut messages = Vec::with_capacity(out.len());
    let mut wrong = None;
    for (key, tree) in out {
        match key.parse() {
            Ok(rank) if rank < comm.size() => messages.push((rank, tree.encode())),
            _ => wrong = Some(key),
        }
    }
    let mut received = KvTree::new();
    for (from, bytes) in comm.sparse_exchange(messages)? {
        merge_packed(received.child_mut(from), &bytes, from)?;
    }
    match wrong {
        Some(key) => {
            Err(Error::Refused(format!("{key:?} is not a rank of a group of {}", comm.size())))
        }
        None => Ok(received),
    }
}

fn merge_packed(into: &mut KvTree, bytes: &[u8], from: usize) -> Result<()> {
    let tree = unpack(bytes, from)?;
    if into.is_empty() {
        *into = tree;
    } else {
        into.merge(&tree);
    }
    Ok(())
}

fn unpack(bytes: &[u8], from: usize) -> Result<KvTree> {
    KvTree::decode(bytes)
        .map_err(|malformed| Error::Comm(format!("what rank {from} sent is no tree: {malformed}")))
}
