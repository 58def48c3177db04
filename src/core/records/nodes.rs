//! The nodes file: how many nodes the last launch used (000 section 9.6).

use crate::kvtree::KvTree;
use crate::records::record::Record;

/// How many nodes the last launch used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The count.
    pub nodes: u64,
}

impl Nodes {
    /// File name in the prefix's `.scr` directory.
    pub const NAME: &'static str = "nodes.scr";
}

impl Record for Nodes {
    const KIND: &'static str = "the nodes file";

    fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("NODES", self.nodes);
        tree
    }

    fn from_tree(tree: &KvTree) -> Result<Self, String> {
        let nodes = tree.get_u64("NODES").ok_or("no number of NODES")?;
        Ok(Nodes { nodes })
    }
}
