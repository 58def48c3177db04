//! Names of datasets and of files.

use super::names::kind_of;

/// Identity of a dataset before it has a number: series, captured id, generation.
///
/// Series without `{id}` have an empty id and count generations. In a series with `{id}` the
/// generation is 0 until files of a confirmed dataset are written again. An empty id in such a
/// series is a *floating* dataset: files without an id (a pointer file) that were written when no
/// dataset was in progress; a conference gives them to the dataset they belong to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatasetKey {
    /// Index into [`super::MachineConfig::series`].
    pub series: usize,
    /// What `{id}` captured.
    pub id: String,
    /// Counts rewrites of the same `(series, id)`.
    pub generation: u64,
}

impl DatasetKey {
    /// Makes the key of `(series, id, generation)`.
    pub fn new(series: usize, id: impl Into<String>, generation: u64) -> Self {
        DatasetKey { series, id: id.into(), generation }
    }

    /// Returns the key of the generation before; `None` for the first one.
    pub fn before(&self) -> Option<DatasetKey> {
        let generation = self.generation.checked_sub(1)?;
        Some(DatasetKey { generation, ..self.clone() })
    }

    /// Tells whether both are generations of the same `(series, id)`.
    pub fn same_group(&self, other: &DatasetKey) -> bool {
        self.series == other.series && self.id == other.id
    }
}

/// A file of the program that matched a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRef {
    /// The series whose pattern matched.
    pub series: usize,
    /// What `{id}` captured; `None` when that pattern has no `{id}`.
    pub id: Option<String>,
    /// Path relative to the prefix.
    pub name: String,
    /// The same with the captured id replaced by `{id}`; equal to `name` when there is none. Of a
    /// temporary name: that of the final one.
    pub masked: String,
    /// It lies in a directory that will get its final name later: the dataset waits for that.
    pub temporary: bool,
}

impl FileRef {
    /// Makes that of the file `name` in `key`, which the program has begun. Its names differ from
    /// dataset to dataset, mostly by numbers: what is known of one holds for all that have others.
    #[must_use]
    pub fn explicit(key: &DatasetKey, name: &str) -> FileRef {
        FileRef {
            series: key.series,
            id: Some(key.id.clone()),
            name: name.to_string(),
            masked: format!("{{id}}/{}", kind_of(name)),
            temporary: false,
        }
    }
}
