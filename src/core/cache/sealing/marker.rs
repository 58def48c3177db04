//! Markers: what a node knows of a sealed dataset as a whole.

use std::path::{Path, PathBuf};

use crate::cache::node::names::OWN_FOLDER;
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::records::text::{epoch_text, parse_epoch};

/// A small file in a dataset's own folder with the epoch that it speaks of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Confirmed,
    /// A restart offered the dataset. No rank can have begun to change it since: what the program
    /// writes to such a dataset goes to its next generation.
    Offered,
    /// All ranks were prepared, and had left it alone for longer than it took. A rank that has
    /// begun to change it since has a record that says so; if its node is lost, the restart goes
    /// back behind the change.
    Trusted,
}

impl Marker {
    pub const ALL: [Marker; 3] = [Marker::Confirmed, Marker::Offered, Marker::Trusted];
    /// Markers after which no rank can have changed the dataset.
    pub const FINAL: [Marker; 2] = [Marker::Confirmed, Marker::Offered];

    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(OWN_FOLDER).join(match self {
            Marker::Confirmed => "CONFIRMED",
            Marker::Offered => "OFFERED",
            Marker::Trusted => "TRUSTED",
        })
    }

    pub fn write(self, dir: &Path, epoch: u64) -> Result<()> {
        let mut tree = KvTree::new();
        tree.set_value("EPOCH", epoch_text(epoch));
        tree.write_file(self.path(dir))
    }

    pub fn epoch(self, dir: &Path) -> Option<u64> {
        let tree = KvTree::read_file(self.path(dir)).ok()??;
        parse_epoch(tree.get_value("EPOCH")?)
    }
}
