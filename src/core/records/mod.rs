//! Typed views over the durable records.
//!
//! Each reads a tree file ([`crate::kvtree`]) into a struct and writes it back atomically; absent
//! is `None`, damaged is an error that names the file. The keys are those of manual 1.1, sections
//! 4, 5 and 9.

pub mod classic;
mod dataset;
mod dataset_record;
mod file_meta;
mod filemap;
mod flush_state;
mod halt_file;
pub(crate) mod learned;
mod nodes;
mod prefix_identity;
mod prefix_index;
mod record;
mod refusal;
mod run_record;
mod summary;
pub mod text;
mod timestamp;
mod transfer_file;
mod zone;

pub use crate::patterns::{PROGRAM, PROGRAM_OUTPUT};
pub use dataset::Dataset;
pub use dataset_record::{DatasetKey, DatasetRecord, DatasetState};
pub use file_meta::{FileMeta, files_from_list, files_to_list};
pub use filemap::{Filemap, MASTER_FILEMAP, MasterFilemap, filemap_name, local_rank_of};
pub use flush_state::{FlushState, Location};
pub use halt_file::{FINALIZE_CALLED, HaltFile};
pub use nodes::{Nodes, RankSet};
pub use prefix_identity::PrefixIdentity;
pub use prefix_index::{IndexEntry, PrefixIndex, Turn};
pub use record::{Record, update, update_or_renew, update_within};
pub use refusal::Refusal;
pub use run_record::{RunDataset, RunEnd, RunEvent, RunNode, RunPace, RunPassed, RunRecord};
pub use summary::{SUMMARY_NAME, Summary};
pub use timestamp::Timestamp;
pub use transfer_file::{Transfer, TransferCommand, TransferFile};
pub use zone::Zone;
