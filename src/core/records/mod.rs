//! Typed views over the durable records.
//!
//! Each reads a tree file ([`crate::kvtree`]) into a struct and writes it back atomically; absent is
//! `None`, damaged is an error that names the file. The keys are those of 000 sections 4, 5 and 9.

mod dataset_record;
mod file_meta;
pub mod text;

pub use dataset_record::{DatasetKey, DatasetRecord, DatasetState};
pub use file_meta::FileMeta;
