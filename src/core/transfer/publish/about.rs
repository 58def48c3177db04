//! What index and summary say of a dataset as a whole, from what a rank's record knows.

use std::collections::BTreeMap;

use crate::cache::{CatalogEntry, count_files};
use crate::kvtree::KvTree;
use crate::records::{Dataset, DatasetRecord};
use crate::system;

/// Tag of a record: number of the checkpoint.
pub const TAG_CHECKPOINT: &str = "CKPT";
/// Tag of a record: 1 for output; with a number it is a checkpoint, too.
pub const TAG_OUTPUT: &str = "OUTPUT";
/// Tag of a record: the job that wrote it.
pub const TAG_JOB: &str = "JOBID";
/// Tag of a record: when it was sealed, seconds since 1970.
pub const TAG_CREATED: &str = "CREATED";

/// Makes tags from which [`About::of_record`] makes `dataset`.
pub(crate) fn tags_of(dataset: &Dataset) -> BTreeMap<String, String> {
    let tags = [
        (TAG_CHECKPOINT, dataset.checkpoint_id.map(|number| number.to_string())),
        (TAG_OUTPUT, dataset.is_output.then(|| "1".to_owned())),
        (TAG_JOB, Some(dataset.job_id.clone()).filter(|job| !job.is_empty())),
        (TAG_CREATED, Some(dataset.created_seconds.to_string())),
    ];
    tags.into_iter().filter_map(|(tag, value)| Some((tag.to_owned(), value?))).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct About {
    pub dataset: Dataset,
    pub ranks: usize,
    /// Parts of the journal of its flush; 0: unknown.
    pub parts: usize,
}

impl About {
    /// Makes it of `record`: all but the numbers of files and bytes, which [`About::over`] fills
    /// in.
    pub fn of_record(record: &DatasetRecord, ranks: usize) -> About {
        let tag = |name: &str| record.tags.get(name).cloned().unwrap_or_default();
        let key = &record.key;
        let dataset = Dataset {
            id: record.dataset_id,
            name: key.name(),
            key: key.clone(),
            epoch: record.epoch,
            user: system::user_name(),
            job_id: tag(TAG_JOB),
            created_seconds: tag(TAG_CREATED).parse().unwrap_or_else(|_| system::unix_seconds()),
            checkpoint_id: tag(TAG_CHECKPOINT).parse().ok(),
            is_output: tag(TAG_OUTPUT) == "1",
            complete: true,
            ..Dataset::default()
        };
        About { dataset, ranks, parts: 0 }
    }

    pub fn over(&self, entries: &[CatalogEntry]) -> Dataset {
        let (files, bytes) = count_files(entries);
        Dataset { files, bytes, ..self.dataset.clone() }
    }

    pub fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set("DATASET", self.dataset.to_tree());
        tree.set_value("RANKS", self.ranks);
        tree.set_value("PARTS", self.parts);
        tree
    }

    pub fn from_tree(tree: &KvTree) -> Option<About> {
        let dataset = Dataset::from_tree(tree.get("DATASET")?)?;
        let parts = tree.parse("PARTS").unwrap_or(0);
        Some(About { dataset, ranks: tree.parse("RANKS")?, parts })
    }
}
