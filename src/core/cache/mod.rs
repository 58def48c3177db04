//! Datasets in node-local storage: records, seal, eviction, rebuild after a restart.
//!
//! | room or file | job |
//! |---|---|
//! | `node` | what a node has: directories, stores, filemaps, and who shares them |
//! | `sealing` | how a dataset becomes complete and protected |
//! | `removal` | how datasets leave the cache |
//! | `restart` | what a start makes of the caches |
//! | `offline` | caches of a run that is not there, or is not asked |
//!
//! Collective functions are marked so; all ranks of the world call them in the same order, all get
//! `Ok` or all get `Err` unless communication itself failed.

mod node;
mod offline;
mod removal;
mod restart;
mod sealing;

pub use node::address::{Address, Launches, job_dir};
pub use node::context::{Ctx, Protect, Share};
pub use node::layout::{Layout, Store};
pub use node::names::on_node;
pub(crate) use node::names::{is_filemap_name, sealed_id};
pub(crate) use node::origin::strange_ids;
pub use node::origin::{former_path, newest_owner, other_prefix};
pub use node::owner::Owner;
pub use node::sharing::Sharing;
pub use node::store::{FilemapFile, Held, stores_in_records};
pub(crate) use node::store::{all_records, read_records, write_records};
pub(crate) use node::{agree, disk, layout, names};
pub use offline::flat::Flat;
pub(crate) use offline::found::Found;
pub(crate) use offline::health::unsealed_dirs;
pub use offline::health::{Damage, Depth, Fault, HeldPart, NodeState};
pub use offline::judged::{Health, Judged, Prospect, Trouble, judge};
pub use offline::mend::{Left, Mended, Put};
pub(crate) use offline::mend::{mend_node, parts_of};
pub(crate) use offline::remains::{Remains, Whole};
pub(crate) use removal::evict;
pub use removal::evict::{
    Evicted, drop_open, evict, find_evicted, keep_spares, remove_evicted, set_aside,
};
pub use removal::leftovers::Leftovers;
pub use removal::setback::{Setback, Setbacks, is_about_the_file, leaves_a_gap};
pub(crate) use removal::sweep::is_dataset_name;
pub use restart::decide::{Claim, Decision, Verdict, decide};
pub use restart::identity::{Takeover, finish, holds_value};
pub(crate) use restart::identity::{drop_other_size, other_size, size_in};
pub(crate) use restart::on_prefix::spoiled_in;
pub use restart::on_prefix::withhold_spoiled;
pub use restart::rebuild::{Offered, RebuildReport, Stranded, Withheld, rebuild};
pub use restart::recheck::{Damaged, Recheck};
pub use restart::replicate::replicate_small;
pub use sealing::catalog::{Catalog, CatalogEntry};
pub use sealing::encoder::{Encoded, Encoder, Job as EncoderJob};
pub use sealing::encoding::Encoding;
pub use sealing::node_catalog::NodeCatalog;
pub use sealing::protection::Sets;
pub(crate) use sealing::seal::protection_of as redundancy_files_of;
pub use sealing::seal::{
    IfUntouched, Prepared, SealRequest, commit, confirm, is_confirmed, prepare, prepare_encoded,
    trust, void,
};
pub use sealing::spare::Spare;
pub(crate) use sealing::under_way;
