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
//! | `recover.rs` | rebuild by the scheme |
//! | `encoding.rs`, `protect_anew.rs` | protection for another placement |
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
//! | `names.rs` | names of what lies in the directories of a node |
//! | `context.rs` | what the operations need to know of a rank |
//! | `origin.rs` | for which prefix the cache of a node was made |
//! | `claims.rs` | what the records claim, and which decision each belongs to |
//! | `shared_store.rs` | who acts in a store of several nodes; its records |
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
mod claims;
mod context;
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
pub(crate) mod names;
mod node_catalog;
mod on_prefix;
mod origin;
mod owner;
mod packed;
mod protect_anew;
mod protection;
pub mod rebuild;
mod recheck;
mod recover;
mod remains;
mod replicate;
mod scatter;
pub mod seal;
mod setback;
mod shared_store;
mod sharing;
mod spare;
mod store;
mod survey;
mod sweep;
mod traces;
mod untouched;

pub use address::{Address, Launches, job_dir};
pub use catalog::{Catalog, CatalogEntry};
pub use context::{Ctx, Protect, Share};
pub use decide::{Claim, Decision, Verdict, decide};
pub use encoder::{Encoded, Encoder, Job as EncoderJob};
pub use encoding::Encoding;
pub use evict::{Evicted, drop_open, evict, find_evicted, keep_spares, remove_evicted, set_aside};
pub use flat::Flat;
pub(crate) use found::Found;
pub(crate) use health::unsealed_dirs;
pub use health::{Damage, Depth, Fault, HeldPart, NodeState};
pub use identity::Takeover;
pub(crate) use identity::{drop_other_size, other_size, size_in};
pub use identity::{finish, holds_value};
pub use judged::{Health, Judged, Prospect, Trouble, judge};
pub use layout::{Layout, Store};
pub use leftovers::Leftovers;
pub use mend::{Left, Mended, Put};
pub(crate) use mend::{mend_node, parts_of};
pub(crate) use names::is_filemap_name;
pub use names::on_node;
pub(crate) use names::sealed_id;
pub use node_catalog::NodeCatalog;
pub(crate) use on_prefix::spoiled_in;
pub use on_prefix::withhold_spoiled;
pub use origin::former_path;
pub use origin::newest_owner;
pub use origin::other_prefix;
pub(crate) use origin::strange_ids;
pub use owner::Owner;
pub use protection::Sets;
pub use rebuild::{Offered, RebuildReport, Stranded, Withheld, rebuild};
pub use recheck::{Damaged, Recheck};
pub(crate) use remains::{Remains, Whole};
pub use replicate::replicate_small;
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
