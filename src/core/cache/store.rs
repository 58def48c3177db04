//! This rank's filemap in the control directory.

use std::path::PathBuf;

use crate::error::Result;
use crate::kvtree::KvTree;
use crate::records::{DatasetKey, DatasetRecord};

/// The durable records of one rank. Every change is on disk when the call returns; if it fails, the
/// old state holds, in memory too. May be used from several threads.
pub struct FilemapFile {}

impl FilemapFile {
    /// The filemap of local rank `local_rank` in `control_dir`, owned by world rank `world_rank`.
    /// Reads nothing: what an earlier launch left is taken over by [`super::rebuild::rebuild`].
    pub fn new(control_dir: PathBuf, local_rank: usize, world_rank: usize) -> Self {
        todo!()
    }
    /// The first file of a dataset is about to be opened: state Open, `store` is where it will lie.
    pub fn record_open(&self, key: &DatasetKey, store: &str) -> Result<()> {
        todo!()
    }
    /// Everything of this rank's part is durable: state Prepared.
    pub fn record_prepared(&self, record: DatasetRecord) -> Result<()> {
        todo!()
    }
    /// Back to Open, before a write-open of a file of a sealed but unconfirmed dataset returns.
    pub fn revoke(&self, key: &DatasetKey) -> Result<()> {
        todo!()
    }
    /// Forgets the dataset; its data is gone already.
    pub fn remove(&self, key: &DatasetKey) -> Result<()> {
        todo!()
    }
    /// This rank's record of `key`.
    pub fn get(&self, key: &DatasetKey) -> Option<DatasetRecord> {
        todo!()
    }
    /// This rank's record of dataset `id`.
    pub fn get_id(&self, id: u64) -> Option<DatasetRecord> {
        todo!()
    }
    /// All of this rank's records, by key.
    pub fn records(&self) -> Vec<DatasetRecord> {
        todo!()
    }
}
