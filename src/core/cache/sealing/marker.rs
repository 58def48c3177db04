//! Markers: what a node knows of a sealed dataset as a whole.

use std::path::{Path, PathBuf};

use crate::cache::node::names::OWN_FOLDER;
use crate::cache::{Catalog, Ctx};
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::records::text::{epoch_text, parse_epoch};

/// A marker in a dataset's own folder: a small file with the epoch that it speaks of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// The dataset is known to be complete.
    Confirmed,
    /// A restart offered it: no rank can have begun to change it since, for what the program writes
    /// to such a dataset goes to its next generation.
    Offered,
    /// All ranks were prepared, and had left it alone for longer than it took. The program may have
    /// begun to change it since: that rank's record says so, or, if its node is lost, the restart
    /// goes back behind the change.
    Trusted,
}

impl Marker {
    /// All of them.
    pub const ALL: [Marker; 3] = [Marker::Confirmed, Marker::Offered, Marker::Trusted];
    /// Markers after which no rank can have changed the dataset.
    pub const FINAL: [Marker; 2] = [Marker::Confirmed, Marker::Offered];

    /// Returns where the marker lies for the dataset in `dir`.
    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(OWN_FOLDER).join(match self {
            Marker::Confirmed => "CONFIRMED",
            Marker::Offered => "OFFERED",
            Marker::Trusted => "TRUSTED",
        })
    }

    /// Writes it into the dataset in `dir`.
    pub fn write(self, dir: &Path, epoch: u64) -> Result<()> {
        let mut tree = KvTree::new();
        tree.set_value("EPOCH", epoch_text(epoch));
        tree.write_file(self.path(dir))
    }

    /// Reads the marker's epoch in the dataset in `dir`; `None` without a readable one.
    pub fn epoch(self, dir: &Path) -> Option<u64> {
        let tree = KvTree::read_file(self.path(dir)).ok()??;
        parse_epoch(tree.get_value("EPOCH")?)
    }
}

/// Marks dataset `id` on this node; one rank writes for all that share a store. `epoch`: that of
/// its catalogs, if it is known.
pub(super) fn mark(ctx: &Ctx, id: u64, marker: Marker, epoch: Option<u64>) -> Result<()> {
    for store in ctx.led_stores() {
        let dir = ctx.layout.dataset_dir(&store.name, id);
        let epoch = match epoch {
            None => Catalog::read(&dir)?.map(|catalog| catalog.epoch),
            known => known.filter(|_| Catalog::path(&dir).exists()),
        };
        if let Some(epoch) = epoch {
            marker.write(&dir, epoch)?;
        }
    }
    Ok(())
}
