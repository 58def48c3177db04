//! Names of things: datasets, files, and what the program intends with a file.

use super::reason::Reason;

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

/// What an open for writing does to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Intent {
    /// O_TRUNC, `creat`, `fopen("w")`, or a rename onto the name.
    pub truncates: bool,
    /// O_CREAT, and the program sees no file of that name now.
    pub creates: bool,
    /// O_APPEND.
    pub appends: bool,
}

impl Intent {
    /// The file starts anew: whatever the name held before is not part of it.
    pub const REWRITE: Intent = Intent { truncates: true, creates: false, appends: false };
    /// The file is new in what the program sees.
    pub const CREATE: Intent = Intent { truncates: false, creates: true, appends: false };
    /// An existing file is opened for update.
    pub const UPDATE: Intent = Intent { truncates: false, creates: false, appends: false };
    /// An existing file is opened to be appended to.
    pub const APPEND: Intent = Intent { truncates: false, creates: false, appends: true };

    pub(super) fn rewrites(self) -> bool {
        self.truncates || self.creates
    }
}

/// Where an open for writing goes, and what must be durable before it returns to the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Not ours: the program's own path on the PFS, no event follows.
    Pass,
    /// The file belongs to a dataset; [`super::Machine::write_closed`] (or `open_failed`) follows.
    Dataset(Placed),
    /// A file that must keep its content is opened for update: give the program a private copy of
    /// it and call [`super::Machine::copy_up_closed`] at the last close.
    CopyUp {
        /// The dataset that holds the content, in cache or (restored from there) on the PFS.
        from: DatasetKey,
    },
}

/// A file's place in a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The dataset.
    pub key: DatasetKey,
    /// First file of the dataset on this rank: write the durable record (state Open), make its
    /// directory.
    pub begin: bool,
    /// This rank's record says Prepared: set it back to Open, durably, before the open returns.
    pub revoke: bool,
    /// Why the file itself stays on the PFS under its own name; `None`: it goes to the cache.
    pub on_prefix: Option<Reason>,
    /// Another rank of the node has it open and answers for it.
    pub joined: bool,
}

impl Placed {
    /// Tells whether the file itself stays on the PFS.
    #[must_use]
    pub fn is_on_prefix(&self) -> bool {
        self.on_prefix.is_some()
    }
}

/// What the unlink of a file means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// Really unlink it now.
    Now,
    /// Really unlink it now, but set the record back to Open first (it was part of a seal that
    /// was voided).
    NowAfterRevoke,
    /// Hide the name from now on; [`super::Step::PublishDeletions`] or an eviction removes it.
    Deferred,
}

/// What a rename means for its two ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// What becomes of the old name. `Deferred` means: keep the file where it is (a sealed dataset
    /// holds it), hide its name, and give the new name a hard link or a copy.
    pub from: Option<Deletion>,
    /// The dataset of the new name.
    pub to: Placement,
}
