//! The restart: what an earlier launch left in the cache is brought back (001 `scr_cache_rebuild`).

use std::path::PathBuf;

use super::{Catalog, Ctx};
use crate::error::Result;
use crate::records::{DatasetKey, FileMeta};

/// Whose cache was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Takeover {
    /// There was none.
    Fresh,
    /// An earlier launch of the same program, prefix and world size.
    Ours,
    /// Another one's: nothing was touched, and this launch must not cache.
    Foreign {
        /// Hosts that hold it.
        hosts: Vec<String>,
    },
}

/// A dataset that the program may restart from.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    /// Dataset id.
    pub id: u64,
    /// Series, captured id, generation.
    pub key: DatasetKey,
    /// Epoch of its seal.
    pub epoch: u64,
    /// Whether it was confirmed.
    pub confirmed: bool,
    /// Directory on this node.
    pub dir: PathBuf,
    /// Store name.
    pub store: String,
    /// This rank's files.
    pub files: Vec<FileMeta>,
    /// All files.
    pub catalog: Catalog,
    /// World ranks whose files were lost and are rebuilt.
    pub rebuilt: Vec<usize>,
    /// World ranks whose files came from another node's cache.
    pub moved: Vec<usize>,
    /// Whether the redundancy was applied anew on the new placement.
    pub reencoded: bool,
    /// Scheme: "XOR", ...
    pub scheme: String,
    /// Seconds for this dataset.
    pub seconds: f64,
}

/// A dataset that is not offered.
#[derive(Debug, Clone, PartialEq)]
pub struct Withheld {
    /// Dataset id; 0 if it was never sealed.
    pub id: u64,
    /// Series, captured id, generation.
    pub key: DatasetKey,
    /// Why, in words for a person.
    pub reason: String,
    /// Gone from the cache already (it can never become whole). If false it stays until the
    /// caller evicts it, which may happen once a newer one is confirmed.
    pub deleted: bool,
}

/// What [`rebuild`] found and did; the same on all ranks but for directories and own files.
#[derive(Debug, Clone, PartialEq)]
pub struct RebuildReport {
    /// Whose cache it was.
    pub takeover: Takeover,
    /// What can be restarted from, lowest id first.
    pub offered: Vec<Offered>,
    /// What cannot.
    pub withheld: Vec<Withheld>,
    /// Largest id ever seen in the cache; 0 if none.
    pub highest_id: u64,
    /// Seconds for everything.
    pub seconds: f64,
}

/// Takes over the cache: scatters the filemaps, brings each dataset's files to where their owners
/// now run, rebuilds lost ones, verifies, and protects anew. `identity` is what a launch must share
/// with the one that left the cache: prefix, world size, patterns, as one line of text.
///
/// Collective. An interrupted rebuild can be repeated.
pub fn rebuild(ctx: &Ctx, identity: &str) -> Result<RebuildReport> {
    todo!()
}
