//! What the program intends with a file, and what the machine answers.

use super::keys::DatasetKey;
use super::reason::Reason;

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

    pub(in crate::machine) fn rewrites(self) -> bool {
        self.truncates || self.creates
    }
}

/// Where an open for writing goes, and what must be durable before it returns to the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// Not ours: the program's own path on the PFS, no event follows.
    Pass,
    /// The file belongs to a dataset; `Machine::write_closed` (or `open_failed`) follows.
    Dataset(Placed),
    /// A file that must keep its content is opened for update: give the program a private copy of
    /// it and call `Machine::copy_up_closed` at the last close.
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

/// A file has left a dataset in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawn {
    /// The dataset.
    pub key: DatasetKey,
    /// Its durable record has to be revoked.
    pub revoke: bool,
}

/// Files that have left a dataset on this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    /// The dataset, which is in progress.
    pub key: DatasetKey,
    /// The files.
    pub names: Vec<String>,
    /// This rank's record says Prepared: set it back to Open.
    pub revoke: bool,
}

/// A file that waits in a temporary directory, and will not get its final name any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    /// Its dataset.
    pub key: DatasetKey,
    /// Its temporary name.
    pub name: String,
    /// It lies on the PFS.
    pub on_prefix: bool,
}

/// A file that waits for an agreement for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// Its dataset.
    pub key: DatasetKey,
    /// Its name relative to the prefix.
    pub file: String,
    /// It may name a checkpoint, so that it must come after the files of all ranks.
    pub last: bool,
}

/// A file of a dataset that no agreement has come for, deleted by the program some time ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Its dataset; it is in it no longer.
    pub key: DatasetKey,
    /// Its name relative to the prefix.
    pub file: String,
    /// It goes on the PFS, too (else a newer one of that name is there, or will be).
    pub everywhere: bool,
}
