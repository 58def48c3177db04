//! What the name space answers to a question about a path.

use std::path::PathBuf;

use scr_abi::wire::FileStat;

/// How the program's call goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// As it is, on the PFS; `token` nonzero: the descriptor is tracked.
    Pass {
        /// See [`Answer::Redirect::token`].
        token: u64,
    },
    /// As it is, and no call on this name can concern us until
    /// [`Host::names_changed`](scr_abi::Host::names_changed).
    Foreign,
    /// On this path instead.
    Redirect {
        /// Where the file is.
        path: PathBuf,
        /// Nonzero: the descriptor is tracked, `opened` and `closed` follow.
        token: u64,
    },
    /// It fails with this errno.
    Fail(i32),
    /// It succeeds: all is done.
    Done,
    /// The file is not on this node; this is what stat says about it.
    Known(FileStat),
}

impl Answer {
    /// The program's own path, nothing tracked.
    pub const PASS: Answer = Answer::Pass { token: 0 };

    /// Makes the answer that leads to the file at `path`, nothing tracked.
    pub fn at(path: PathBuf) -> Self {
        Answer::Redirect { path, token: 0 }
    }
}

/// One entry that a directory listing shows beyond, or hides from, what the PFS has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name within the directory.
    pub name: String,
    /// Number of the file, as stat says.
    pub ino: u64,
    /// It is a directory.
    pub is_dir: bool,
    /// It is taken out of the listing.
    pub hide: bool,
}
