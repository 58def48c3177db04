//! What ranks tell each other that bring a file to the prefix.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::{Reader, Writer};
use crate::error::{Error, Result};
use crate::files::Crc32;
use crate::parts::{Extents, NodeLog, Resolved, settle};

/// What all ranks have done to the file.
pub(super) struct RankLists {
    nodes: Vec<Vec<NodeLog>>,
    /// Nodes that have a file with their bytes.
    pub holders: BTreeSet<usize>,
    /// A checksum of all.
    pub sum: u32,
}

impl RankLists {
    /// Makes a rank's list.
    pub fn list(own: &NodeLog, has_file: bool) -> Vec<u8> {
        Writer::new().flags(&[has_file]).raw(&own.to_bytes()).take()
    }

    /// Reads those of all ranks; `nodes` has the node of each.
    pub fn of(lists: &[Vec<u8>], nodes: &[usize]) -> Result<Self> {
        let count = nodes.iter().max().map_or(0, |node| node + 1);
        let (mut by_node, mut holders) = (vec![Vec::new(); count], BTreeSet::new());
        let mut sum = Crc32::new();
        for (rank, (list, node)) in lists.iter().zip(nodes).enumerate() {
            sum.update(list);
            let mut from = Reader::new(list);
            let Some(([has_file], log)) = from.flags().zip(NodeLog::from_bytes(from.rest())) else {
                return Err(Error::Unreadable(format!("the list of rank {rank} cannot be read")));
            };
            // The lowest rank of a node brings its file.
            if has_file && by_node[*node].is_empty() {
                holders.insert(*node);
            }
            by_node[*node].push(log);
        }
        Ok(RankLists { nodes: by_node, holders, sum: sum.value() })
    }

    /// Finds out what it comes to; `lengths` are those of the nodes' files, as far as known.
    pub fn settled(&self, lengths: &BTreeMap<usize, u64>) -> Resolved {
        let joined =
            |(node, ranks): (usize, &Vec<_>)| NodeLog::joined(ranks, lengths.get(&node).copied());
        settle(&self.nodes.iter().enumerate().map(joined).collect::<Vec<_>>())
    }
}

/// A file that has come to the prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PulledOut {
    /// Bytes of which nobody knows who wrote them last; the prefix has those of the highest node.
    pub conflicts: Extents,
    /// Size of the file, bytes.
    pub size: u64,
}

impl PulledOut {
    /// Makes the bytes of how it has ended.
    pub(super) fn told(ended: &std::result::Result<Self, String>) -> Vec<u8> {
        let mut out = Writer::new();
        out.flags(&[ended.is_ok()]);
        match ended {
            Ok(done) => out.word(done.size).raw(done.conflicts.to_text().as_bytes()),
            Err(why) => out.raw(why.as_bytes()),
        };
        out.take()
    }

    /// Reads how it has ended.
    pub(super) fn read(told: &[u8]) -> Result<Self> {
        let mut from = Reader::new(told);
        let mut done = || match from.flags()? {
            [true] => {
                let (size, conflicts) = (from.word()?, Extents::from_text(&from.rest_text()?)?);
                Some(Ok(PulledOut { conflicts, size }))
            }
            [false] => Some(Err(Error::Remote(from.rest_text()?))),
        };
        done().unwrap_or_else(|| Err(Error::Unreadable("nobody knows how it has ended".into())))
    }
}
