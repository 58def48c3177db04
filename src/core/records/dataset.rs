//! What is true of a dataset as a whole, over all ranks: the form in which index and summary tell
//! it.

use crate::kvtree::KvTree;
use crate::records::RecordKey;
use crate::records::text::{epoch_text, parse_epoch};

/// A dataset, over all ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dataset {
    /// Its id, from 1.
    pub id: u64,
    /// Its name for people, as "ckpt.100".
    pub name: String,
    /// Series, captured id, generation; default for datasets of other writers.
    pub key: RecordKey,
    /// Epoch of the seal; 0 for datasets of other writers.
    pub epoch: u64,
    /// Who ran the job.
    pub user: String,
    /// The job.
    pub job_id: String,
    /// When it was sealed, seconds since 1970.
    pub created_seconds: u64,
    /// Number among the checkpoints; `None` if it is output only.
    pub checkpoint_id: Option<u64>,
    /// It is output: always flushed, never needed for a restart.
    pub is_output: bool,
    /// Files of all ranks.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// All files are there and right.
    pub complete: bool,
}

impl Dataset {
    /// Makes a tree of the keys ID, NAME, KEY, EPOCH, USER, JOBID, CREATED, CKPT, FLAG_OUTPUT,
    /// FILES, SIZE, COMPLETE.
    #[must_use]
    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("ID", self.id);
        tree.set_value("NAME", &self.name);
        tree.set("KEY", self.key.to_tree());
        tree.set_value("EPOCH", epoch_text(self.epoch));
        tree.set_value("USER", &self.user);
        tree.set_value("JOBID", &self.job_id);
        tree.set_value("CREATED", self.created_seconds);
        if let Some(checkpoint_id) = self.checkpoint_id {
            tree.set_value("CKPT", checkpoint_id);
        }
        tree.set_flag("FLAG_OUTPUT", self.is_output);
        tree.set_value("FILES", self.files);
        tree.set_value("SIZE", self.bytes);
        tree.set_value("COMPLETE", u8::from(self.complete));
        tree
    }

    /// Reads what [`Dataset::to_tree`] makes; `None` if a field is missing or malformed.
    #[must_use]
    pub fn from_tree(tree: &KvTree) -> Option<Self> {
        Some(Dataset {
            id: tree.get_u64("ID")?,
            name: tree.get_value("NAME")?.to_owned(),
            key: RecordKey::from_tree(tree.get("KEY")?)?,
            epoch: parse_epoch(tree.get_value("EPOCH")?)?,
            user: tree.get_value("USER")?.to_owned(),
            job_id: tree.get_value("JOBID")?.to_owned(),
            created_seconds: tree.get_u64("CREATED")?,
            checkpoint_id: match tree.get("CKPT") {
                None => None,
                Some(_) => Some(tree.get_u64("CKPT")?),
            },
            is_output: tree.get_flag("FLAG_OUTPUT"),
            files: tree.get_u64("FILES")?,
            bytes: tree.get_u64("SIZE")?,
            complete: tree.get_u64("COMPLETE")? == 1,
        })
    }
}
