//! Typed views over the durable records.
//!
//! Each reads a tree file ([`crate::kvtree`]) into a struct and writes it back atomically; absent
//! is `None`, damaged is an error that names the file. The keys are those of manual 1.1, sections
//! 4, 5 and 9.

mod content;
mod dataset;
mod dataset_record;
mod file_meta;
mod filemap;
mod on_prefix;
mod part;
mod prefix_identity;
mod record;
mod runs;
pub mod text;
mod timestamp;
mod zone;

pub use crate::patterns::{PROGRAM, PROGRAM_OUTPUT};
pub use content::FileContent;
pub use dataset::Dataset;
pub use dataset_record::{DatasetRecord, RecordKey, RecordedState};
pub use file_meta::{FileMeta, files_from_list, files_to_list};
pub use filemap::{Filemap, MASTER_FILEMAP, MasterFilemap, filemap_name};
pub use on_prefix::classic;
pub use on_prefix::flush_state::{FlushState, Location};
pub use on_prefix::index_entry::{FileNames, IndexEntry};
pub use on_prefix::prefix_index::{CourseTurn, PrefixIndex};
pub use on_prefix::summary::{SUMMARY_NAME, Summary};
pub use part::{FilePart, PART_MODE};
pub use prefix_identity::PrefixIdentity;
pub use record::{Record, update, update_or_renew, update_within};
pub use runs::halt_file::{FINALIZE_CALLED, HaltFile};
pub(crate) use runs::learned;
pub use runs::nodes::{Nodes, RankSet};
pub use runs::refusal::Refusal;
pub use runs::run_record::{
    RunDataset, RunEnd, RunEvent, RunFlush, RunNode, RunPace, RunPassed, RunRecord,
};
pub use runs::transfer_file::{Transfer, TransferCommand, TransferFile};
pub use timestamp::{Timestamp, nanoseconds};
pub use zone::Zone;
