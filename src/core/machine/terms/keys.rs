//! Names of datasets and of files.

use super::names::mask_numbers;

/// Identity of a dataset before it has a number.
///
/// Series without `{id}` have an empty id and count generations; else the generation is 0 until
/// files of a confirmed dataset are written again. An empty id in a series with `{id}` is a
/// *floating* dataset: files without an id (a pointer file) written when no dataset was in
/// progress. A conference gives them to the dataset they belong to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DatasetKey {
    /// Index into [`super::MachineConfig::series`].
    pub series: usize,
    /// What `{id}` captured.
    pub id: String,
    /// Counts rewrites of the same `(series, id)`.
    pub generation: u64,
}

impl DatasetKey {
    pub fn new(series: usize, id: impl Into<String>, generation: u64) -> Self {
        DatasetKey { series, id: id.into(), generation }
    }

    pub fn before(&self) -> Option<DatasetKey> {
        let generation = self.generation.checked_sub(1)?;
        Some(DatasetKey { generation, ..self.clone() })
    }

    pub fn same_group(&self, other: &DatasetKey) -> bool {
        self.series == other.series && self.id == other.id
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRef {
    pub series: usize,
    /// What `{id}` captured; `None` when that pattern has no `{id}`.
    pub id: Option<String>,
    /// Path relative to the prefix.
    pub name: String,
    /// The final name with the captured id replaced by `{id}`; equal to `name` when there is none.
    pub masked: String,
    /// It lies in a directory that will get its final name later: the dataset waits for that.
    pub temporary: bool,
}

impl FileRef {
    /// Makes the file's name for the machine: names in begun datasets differ by numbers, so what is
    /// known of one holds for all.
    pub fn explicit(key: &DatasetKey, name: &str) -> FileRef {
        FileRef {
            series: key.series,
            id: Some(key.id.clone()),
            name: name.to_string(),
            masked: format!("{{id}}/{}", mask_numbers(name, '#')),
            temporary: false,
        }
    }
}
