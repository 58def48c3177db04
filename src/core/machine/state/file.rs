//! A file of a dataset, as this rank has it.

use crate::machine::terms::{Reason, kind_hash, name_hash};

/// How a file of a dataset without id was begun, as far as learning needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begun {
    /// The program changes it in place at each checkpoint.
    #[default]
    InPlace,
    /// There was none.
    Made,
    Anew,
    /// Made anew, and changed in place after a sync point. If the program makes it anew the next
    /// time, too, that was the rest of a checkpoint.
    GoesOn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum OnPfs {
    #[default]
    No,
    /// A thread brings it, in its turn.
    Coming,
    There,
}

/// A sealed dataset keeps a file that the program has deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deleted {
    #[default]
    No,
    Yes,
    /// Before an agreement could come for it; the PFS is to see both, in due time.
    Early,
    /// After its dataset was complete, which goes on without it.
    Amended,
    /// It has another name; what is made anew under the old one may be of the same checkpoint.
    Renamed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameFacts {
    /// [`name_hash`] of it with the id masked.
    pub masked: u64,
    pub kind: u64,
    pub bare: bool,
    pub temporary: bool,
}

impl NameFacts {
    pub fn of(name: &str, masked: &str, temporary: bool) -> Self {
        let bare = name == masked;
        NameFacts { masked: name_hash(masked), kind: kind_hash(masked), bare, temporary }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalFile {
    pub named: NameFacts,
    pub open: u32,
    /// Checkpoints of the series that had begun when it was opened.
    pub open_since: u64,
    /// Why the PFS has it, and gets what the program writes to it.
    pub on_prefix: Option<Reason>,
    /// All the same, the cache has the content that its dataset was sealed with.
    pub keeps_copy: bool,
    pub deleted: Deleted,
    /// It was moved on the PFS: nothing of it is to come back under this name.
    pub moved: bool,
    pub bytes: u64,
    pub closed_ms: u64,
    /// The first sync point after the last close; `None` before the first close.
    pub closed_before: Option<u64>,
    /// Of its present content, flushes of all ranks apart.
    pub published: OnPfs,
    /// It has been deleted since it was written, by another rank, or before its dataset was sealed.
    pub outlived: bool,
    pub joined: bool,
    pub begun: Begun,
}

impl LocalFile {
    pub fn new(named: NameFacts, on_prefix: Option<Reason>) -> Self {
        LocalFile { named, on_prefix, ..LocalFile::default() }
    }

    pub fn is_deleted(&self) -> bool {
        self.deleted != Deleted::No
    }

    pub fn delete(&mut self) {
        if self.deleted == Deleted::No {
            self.deleted = Deleted::Yes;
        }
    }

    /// Tells whether it was written, and a sync point of `count` has been passed since. What this
    /// rank has made and left empty is for others to write to, unless it has been deleted.
    pub fn is_past(&self, count: u64) -> bool {
        let is_made = matches!(self.begun, Begun::Made | Begun::Anew);
        let is_over = match self.deleted {
            Deleted::No => self.bytes > 0 || !is_made || self.outlived,
            Deleted::Renamed => self.outlived,
            Deleted::Yes | Deleted::Early | Deleted::Amended => true,
        };
        self.open == 0 && is_over && self.closed_before.is_some_and(|sync| sync <= count)
    }

    /// Notes that another rank writes it on the PFS from now on; the sealed dataset has what it
    /// had.
    pub fn share(&mut self) {
        self.keeps_copy |= self.on_prefix.is_none();
        (self.on_prefix, self.moved) = (Some(Reason::Shared), true);
    }

    /// Tells whether it is closed, and its directory has not got its final name yet.
    pub fn is_waiting(&self) -> bool {
        self.named.temporary && self.open == 0 && !self.is_deleted()
    }

    /// Tells whether it is closed, and its content is in the cache alone.
    pub fn is_pending(&self) -> bool {
        self.open == 0
            && self.on_prefix.is_none()
            && self.published == OnPfs::No
            && matches!(self.deleted, Deleted::No | Deleted::Early)
    }
}
