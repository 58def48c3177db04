//! Datasets in node-local storage: records, seal, eviction, rebuild after a restart.
//!
//! | file | job |
//! |---|---|
//! | `address.rs` | where a prefix has its directories; how many launches share a node |
//! | `layout.rs` | directories and their names |
//! | `store.rs` | this rank's filemap in the control directory, crash-safe |
//! | `catalog.rs` | what a dataset holds: path, owner, size of every file of every rank |
//! | `seal.rs` | the two phases of a seal, confirmation |
//! | `marker.rs` | what a node knows of a sealed dataset as a whole |
//! | `encoder.rs` | the encoding of a seal on a thread beside the program |
//! | `spare.rs` | whether a rank has a processor to spare for that |
//! | `evict.rs` | removal: data first, record after |
//! | `leftovers.rs` | what it has left in the store |
//! | `setback.rs` | why the cache could not take a file |
//! | `protection.rs` | redundancy sets on the placement of a launch |
//! | `identity.rs` | which launch a cache belongs to (`launch.scr`) |
//! | `owner.rs` | which prefix a cache was made for |
//! | `scatter.rs`, `distribute.rs` | at a restart: records and files to their owners (001) |
//! | `recover.rs`, `encoding.rs` | rebuild by the scheme, protection for another placement |
//! | `untouched.rs`, `recheck.rs` | which files a start need not read; they are read after it |
//! | `sweep.rs` | what no record names goes |
//! | `decide.rs` | which datasets count at a restart: a pure function |
//! | `survey.rs` | what the records of all ranks say, judged once a node |
//! | `alike.rs` | lists that are much alike, in few bytes |
//! | `rebuild.rs` | the restart itself |
//! | `remains.rs` | what a run has left, brought back by one process |
//! | `flat.rs` | a dataset in one directory, as version 1.1 had it |
//! | `health.rs`, `judged.rs` | what is damaged, and whether that can be repaired |
//! | `mend.rs` | damaged files of a node, replaced by rebuilt ones |
//! | `found.rs`, `traces.rs` | directories of nodes as a person has copied them |
//! | `sharing.rs` | stores that several nodes reach |
//! | `on_prefix.rs` | what a restart asks of files that the prefix has of a cached dataset |
//! | `replicate.rs` | small files of other nodes, copied to every node |
//!
//! Collective functions are marked so; all ranks of the world call them in the same order, all get
//! `Ok` or all get `Err` unless communication itself failed.

mod address;
pub(crate) mod agree;
mod alike;
mod catalog;
mod decide;
pub(crate) mod disk;
mod distribute;
mod encoder;
mod encoding;
pub(crate) mod evict;
mod flat;
mod found;
mod health;
mod identity;
mod judged;
pub mod layout;
mod leftovers;
mod marker;
mod mend;
mod node_catalog;
mod on_prefix;
mod owner;
mod packed;
mod protection;
pub mod rebuild;
mod recheck;
mod recover;
mod remains;
mod replicate;
mod scatter;
pub mod seal;
mod setback;
mod sharing;
mod spare;
mod store;
mod survey;
mod sweep;
mod traces;
mod untouched;

use std::path::Path;

use crate::comm::Comm;
use crate::error::Result;
use crate::kvtree::KvTree;
use crate::records::DatasetRecord;
use crate::redundancy::{RedundancySet, Scheme};
use crate::transfer::Options;

pub use address::{Address, Launches, job_dir};
pub use catalog::{Catalog, CatalogEntry};
pub use decide::{Claim, Decision, Verdict, decide};
pub use encoder::{Encoded, Encoder, Job as EncoderJob};
pub use encoding::Encoding;
pub use evict::{Evicted, drop_open, evict, find_evicted, keep_spares, remove_evicted, set_aside};
pub use flat::Flat;
pub(crate) use found::Found;
pub(crate) use health::unsealed_dirs;
pub use health::{Damage, Depth, Fault, HeldPart, NodeState};
pub(crate) use identity::{drop_other_size, other_size, size_in};
pub use identity::{finish, holds_value};
pub use judged::{Health, Judged, Prospect, Trouble, judge};
pub(crate) use layout::sealed_id;
pub use layout::{Layout, Store, on_node};
pub use leftovers::Leftovers;
pub use mend::{Left, Mended, Put};
pub(crate) use mend::{mend_node, parts_of};
pub use node_catalog::NodeCatalog;
pub(crate) use on_prefix::spoiled_in;
pub use on_prefix::withhold_spoiled;
pub(crate) use owner::strange_ids;
pub use owner::{Owner, former_path, newest_owner, other_prefix};
pub use protection::Sets;
pub use rebuild::{Offered, RebuildReport, Stranded, Takeover, Withheld, rebuild};
pub use recheck::{Damaged, Recheck};
pub(crate) use remains::{Remains, Whole};
pub use replicate::replicate_small;
pub(crate) use scatter::is_filemap_name;
pub(crate) use seal::protection_of as redundancy_files_of;
pub use seal::{
    IfUntouched, Prepared, SealRequest, commit, confirm, is_confirmed, prepare, prepare_encoded,
    trust, void,
};
pub use setback::{Setback, Setbacks, is_about_the_file, leaves_a_gap};
pub use sharing::Sharing;
pub use spare::Spare;
pub use store::{FilemapFile, Held, stores_in_records};
pub(crate) use store::{all_records, read_records, write_records};
pub(crate) use sweep::is_dataset_name;

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
