//! One copy of a dataset on the prefix, as the index has it.

use std::collections::BTreeSet;

use crate::files;
use crate::kvtree::KvTree;
use crate::records::record::number;
use crate::records::{Dataset, Timestamp};

/// Whose the names of a dataset's files are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileNames {
    /// Nobody's that is known: the dataset has not been complete.
    #[default]
    Unknown,
    /// Its own.
    Own,
    /// Another dataset's, whose files have replaced this one's.
    Taken,
    /// Another dataset's, but this one's files are kept beside.
    Kept,
}

impl FileNames {
    /// Tells whether they are another dataset's.
    #[must_use]
    pub fn are_taken(self) -> bool {
        matches!(self, FileNames::Taken | FileNames::Kept)
    }
}

/// One copy of a dataset on the prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Dataset id.
    pub id: u64,
    /// Directory with its records, relative to that of the index.
    pub dir: String,
    /// All its files are there, as far as is known.
    pub complete: bool,
    /// When it was copied here.
    pub flushed: Option<Timestamp>,
    /// When a launch began to restart from it.
    pub fetched: BTreeSet<Timestamp>,
    /// When that failed.
    pub failed: BTreeSet<Timestamp>,
    /// The program has said that it could not restart from it, be it here or in the cache.
    pub refused: bool,
    /// Id of the dataset whose files have taken the names of this one's: a newer one, or an older
    /// one that the run went back to.
    pub replaced_by: Option<u64>,
    /// All its files are below its directory here; what is not replaced is to get its names back.
    pub kept: bool,
    /// Id of the first dataset that came here after the run went back to before this one.
    pub abandoned_by: Option<u64>,
    /// The dataset; `None` in entries of older versions.
    pub dataset: Option<Dataset>,
}

impl IndexEntry {
    /// Tells whether a launch may restart from it: complete, its files still under their names, and
    /// no failed attempt since it was copied here, but for one that was followed by a good one, nor
    /// one that the program itself has called so.
    #[must_use]
    pub fn is_restorable(&self) -> bool {
        // An attempt can fail in the same second in which the copy was made: that counts.
        let good = self.flushed.max(self.fetched.last().copied());
        let failed_since = match self.failed.last() {
            None => false,
            Some(failed) => good.is_none_or(|good| *failed >= good),
        };
        self.complete && !failed_since && !self.refused && self.replaced_by.is_none()
    }

    /// Returns whose the names of its files are.
    #[must_use]
    pub fn file_names(&self) -> FileNames {
        match (self.complete, self.replaced_by) {
            (false, _) => FileNames::Unknown,
            (true, None) => FileNames::Own,
            (true, Some(_)) if self.kept => FileNames::Kept,
            (true, Some(_)) => FileNames::Taken,
        }
    }

    /// Tells whether its files are below its directory, and another has their names.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.file_names() == FileNames::Kept
    }

    pub(super) fn to_tree(&self) -> KvTree {
        let mut tree = KvTree::new();
        tree.set_value("COMPLETE", u8::from(self.complete));
        if let Some(flushed) = self.flushed {
            tree.set_value("FLUSHED", flushed);
        }
        tree.set_flag("KEPT", self.kept);
        tree.set_flag("REFUSED", self.refused);
        for (key, times) in [("FETCHED", &self.fetched), ("FAILED", &self.failed)] {
            for time in times {
                tree.set_kv(key, time);
            }
        }
        for (key, id) in [("REPLACED", self.replaced_by), ("ABANDONED", self.abandoned_by)] {
            if let Some(id) = id {
                tree.set_value(key, id);
            }
        }
        if let Some(dataset) = &self.dataset {
            tree.set("DATASET", dataset.to_tree());
        }
        tree
    }

    pub(super) fn from_tree(id: u64, dir: &str, tree: &KvTree) -> Result<Self, String> {
        if !files::is_safe_relative(dir) {
            return Err(format!("the directory {dir:?} is not below the index"));
        }
        let times = |key: &str| tree.child(key).keys().map(str::parse).collect::<Result<_, _>>();
        let flushed: BTreeSet<Timestamp> = times("FLUSHED")?;
        let id_of = |key| tree.get_value(key).map(|id| number(id, "a dataset id")).transpose();
        let dataset = match tree.get("DATASET") {
            None => None,
            Some(fields) => {
                let dataset = Dataset::from_tree(fields).filter(|dataset| dataset.id == id);
                Some(dataset.ok_or_else(|| format!("dataset {id} has a bad field"))?)
            }
        };
        Ok(IndexEntry {
            id,
            dir: dir.to_owned(),
            complete: tree.get_flag("COMPLETE"),
            // Merged files can have several; the last copy is the one that is there.
            flushed: flushed.last().copied(),
            fetched: times("FETCHED")?,
            failed: times("FAILED")?,
            refused: tree.get_flag("REFUSED"),
            replaced_by: id_of("REPLACED")?,
            kept: tree.get_flag("KEPT"),
            abandoned_by: id_of("ABANDONED")?,
            dataset,
        })
    }
}
