//! What the program intends with a file, and what the machine answers.

use super::keys::DatasetKey;
use super::reason::Reason;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Intent {
    /// O_TRUNC, `creat`, `fopen("w")`, or a rename onto the name.
    pub truncates: bool,
    /// O_CREAT, and the program sees no file of that name now.
    pub creates: bool,
    pub appends: bool,
    /// Several ranks open it by one call, which would make it: it is often emptied then.
    pub together: bool,
}

impl Intent {
    pub const UPDATE: Intent =
        Intent { truncates: false, creates: false, appends: false, together: false };
    pub const REWRITE: Intent = Intent { truncates: true, ..Intent::UPDATE };
    pub const CREATE: Intent = Intent { creates: true, ..Intent::UPDATE };
    pub const APPEND: Intent = Intent { appends: true, ..Intent::UPDATE };

    pub(crate) fn rewrites(self) -> bool {
        self.truncates || self.creates
    }
}

/// Where an open for writing goes, and what must be durable before it returns to the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// The program's own path on the PFS; no event follows.
    Pass,
    /// `Machine::write_closed` (or `open_failed`) follows.
    Dataset(Placed),
    /// A file that must keep its content is opened for update: give the program a private copy of
    /// it, and call `Machine::copy_up_closed` at its last close.
    CopyUp {
        /// It holds the content, in cache or (restored from there) on the PFS.
        from: DatasetKey,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
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
    pub fn is_on_prefix(&self) -> bool {
        self.on_prefix.is_some()
    }
}

/// What the unlink of a file means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    Now,
    /// Unlink it now, but set the record back to Open first: the file was part of a seal that is
    /// void.
    NowAfterRevoke,
    /// Hide the name from now on; [`super::Step::PublishDeletions`] or an eviction removes it.
    Deferred,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// What becomes of the old name. `Deferred`: keep the file where it is (a sealed dataset holds
    /// it), hide its name, and give the new name a hard link or a copy.
    pub from: Option<Deletion>,
    pub to: Placement,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawn {
    pub key: DatasetKey,
    pub revoke: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftAlone {
    pub key: DatasetKey,
    pub names: Vec<String>,
    /// This rank's record says Prepared: set it back to Open.
    pub revoke: bool,
}

/// A file that waits under a temporary name, and will not get its final one any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    pub key: DatasetKey,
    pub name: String,
    pub on_prefix: bool,
}

/// A file that waits for an agreement for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    pub key: DatasetKey,
    pub file: String,
    /// It may name a checkpoint, so that it must come after the files of all ranks.
    pub last: bool,
}

/// A file deleted by the program some time ago, of a dataset that no agreement has come for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    pub key: DatasetKey,
    pub file: String,
    /// It goes on the PFS, too; else a newer one of that name is there, or will be.
    pub everywhere: bool,
}
