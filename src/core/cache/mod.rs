//! Datasets in node-local storage: records, seal, eviction, rebuild after a restart.
//!
//! | room or file | job |
//! |---|---|
//! | `node` | what a node has: directories, stores, filemaps, and who shares them |
//! | `parted` | files that several nodes have written, at the seal |
//! | `sealing` | how a dataset becomes complete and protected |
//! | `beside` | what is read while the program runs |
//! | `removal` | how datasets leave the cache |
//! | `restart` | what a start makes of the caches |
//! | `offline` | caches of a run that is not there, or is not asked |
//!
//! Collective functions are marked so; all ranks of the world call them in the same order, all get
//! `Ok` or all get `Err` unless communication itself failed.

mod beside;
mod node;
mod offline;
mod parted;
mod removal;
mod restart;
mod sealing;

pub use beside::late::LateChecksums;
pub(crate) use beside::late::contested;
pub(crate) use beside::recheck::Damaged;
pub use beside::recheck::Recheck;
pub(crate) use node::address::Launches;
pub use node::address::{Address, job_dir};
pub(crate) use node::context::Share;
pub use node::context::{Ctx, Protect};
pub use node::layout::{Layout, Store};
pub(crate) use node::names::on_node;
pub(crate) use node::names::{is_filemap_name, sealed_id};
pub(crate) use node::origin::strange_ids;
pub(crate) use node::origin::{former_path, newest_owner, other_prefix};
pub use node::owner::Owner;
pub(crate) use node::owner::{identity_in, launch_tree};
pub use node::sharing::Sharing;
pub(crate) use node::store::files_in_records;
pub use node::store::{FilemapFile, stores_in_records};
pub(crate) use node::store::{all_records, read_records, write_records};
pub(crate) use node::{agree, disk, layout, names};
pub(crate) use offline::flat::Flat;
pub(crate) use offline::found::Found;
pub(crate) use offline::health::unsealed_dirs;
pub use offline::health::{Damage, Depth, Fault, NodeState};
pub use offline::judged::{DamagedFile, Health, Judged, Prospect, judge};
pub(crate) use offline::mend::Mended;
pub use offline::mend::{NotMended, Put};
pub(crate) use offline::mend::{mend_node, parts_of};
pub use offline::remains::PartsWanted;
pub(crate) use offline::remains::{Remains, Whole};
pub use parted::whole::{Dealt, PartedWhole, RankTold};
pub(crate) use removal::evict;
pub use removal::evict::{Evicted, evict, find_evicted, remove_evicted, set_aside};
pub(crate) use removal::evict::{drop_open, keep_spares};
pub(crate) use removal::leftovers::Leftovers;
pub(crate) use removal::setback::{Setback, Setbacks, is_about_the_file, leaves_a_gap};
pub(crate) use removal::sweep::is_dataset_name;
pub use restart::decide::{Claim, Decision, Marks, Verdict, decide};
pub(crate) use restart::identity::holds_value;
pub use restart::identity::{Takeover, finish};
pub(crate) use restart::identity::{drop_other_size, other_size, size_in};
pub(crate) use restart::on_prefix::spoiled_in;
pub use restart::on_prefix::withhold_spoiled;
pub(crate) use restart::rebuild::Withheld;
pub use restart::rebuild::{Offered, RebuildReport, rebuild};
pub use restart::replicate::replicate_small;
pub use sealing::catalog::Catalog;
pub use sealing::catalog::{count_files, whole_files};
pub(crate) use sealing::encoder::{Encoded, Encoder, EncoderJob};
pub use sealing::encoding::Encoding;
pub use sealing::node_catalog::NodeCatalog;
pub use sealing::own_part::SealRequest;
pub(crate) use sealing::own_part::protection_of as redundancy_files_of;
pub use sealing::packed::CatalogEntry;
pub(crate) use sealing::protection::Sets;
pub(crate) use sealing::seal::confirm;
pub use sealing::seal::{IfUntouched, Prepared, commit, prepare, trust};
pub(crate) use sealing::spare::Spare;
pub(crate) use sealing::under_way;
