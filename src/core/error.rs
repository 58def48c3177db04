//! The one error type of the library. An error carries the sentence that a person reads; the place
//! that handles it adds what was done instead. Nothing here prints.

use std::io;
use std::path::{Path, PathBuf};

use crate::log::messages::{self, Id};

/// Result of every fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong, by kind, since callers act on the kind and never on the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operating system call on a path failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// As "cannot write" or "cannot create the directory".
        action: &'static str,
        /// The file or directory that it happened to.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file's content is not what its format demands (bad magic, checksum, length, field).
    #[error("{} is damaged: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        what: String,
    },
    /// A setting, pattern or descriptor is wrong.
    #[error("{place}: {what}")]
    Config {
        /// `file:line`, or "environment variable X".
        place: String,
        /// What is wrong and what would be right.
        what: String,
    },
    /// Communication with other ranks failed; collectives must not be used any more.
    #[error("communication failed: {0}")]
    Comm(String),
    /// Data is lost beyond what the redundancy scheme covers.
    #[error("cannot be rebuilt: {0}")]
    Unrecoverable(String),
    /// The store has no room.
    #[error("no space in {}: {need_bytes} bytes needed, {free_bytes} free", path.display())]
    NoSpace {
        /// The store.
        path: PathBuf,
        /// Bytes asked for.
        need_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
    },
    /// Another rank or node reported it.
    #[error("{0}")]
    Remote(String),
    /// What another rank, a file or a program said means nothing, or contradicts the rest.
    #[error("{0}")]
    Unreadable(String),
    /// What is asked for is not there.
    #[error("{0}")]
    Missing(String),
    /// What is asked for is not allowed: a name, an argument, a call at the wrong time.
    #[error("{0}")]
    Refused(String),
    /// Somebody else uses it.
    #[error("{0}")]
    Busy(String),
    /// It was asked to end, and has.
    #[error("stopped")]
    Stopped,
    /// No thread or process can be had, or one has ended badly.
    #[error("{0}")]
    Process(String),
    /// What has a message of its own.
    #[error("{text}")]
    Named {
        /// The message.
        id: Id,
        /// What a person reads.
        text: String,
    },
    /// A defect of SCR: something that cannot be.
    #[error("{0}")]
    Defect(String),
}

/// Does a step that can be repeated from what is on the disk a second time if a system call of it
/// has failed: that may be passing, and what cannot be read is taken for lost.
///
/// # Errors
///
/// Those of the second time.
pub fn again<T>(step: impl Fn() -> Result<T>) -> Result<T> {
    match step() {
        Err(Error::Io { .. } | Error::NoSpace { .. }) => step(),
        done => done,
    }
}

impl Error {
    /// Wraps an operating system error; `action` as in "cannot read".
    pub fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Error::Io { action, path: path.as_ref().to_path_buf(), source }
    }

    /// Tells whether a file system, or its user's share of it, is full.
    pub fn is_no_room(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Error::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
            Error::NoSpace { .. } => true,
            _ => false,
        }
    }

    /// Returns the error number for a system call of the program that failed for this reason.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            Error::NoSpace { .. } => libc::ENOSPC,
            _ => libc::EIO,
        }
    }

    /// Makes the error that has the message `id`.
    pub fn named(id: Id, text: impl Into<String>) -> Self {
        Error::Named { id, text: text.into() }
    }

    /// Returns the message that explains an error of this kind.
    pub fn id(&self) -> Id {
        match self {
            Error::Io { .. } => messages::SYSTEM_REFUSED,
            Error::Corrupt { .. } => messages::FILE_DAMAGED,
            Error::Config { .. } => messages::SETTING_WRONG,
            Error::Comm(_) => messages::COMMUNICATION,
            Error::Unrecoverable(_) => messages::CANNOT_BE_REBUILT,
            Error::NoSpace { .. } => messages::NOT_ENOUGH_ROOM,
            Error::Remote(_) => messages::REPORTED_BY_OTHER,
            Error::Unreadable(_) => messages::UNREADABLE,
            Error::Missing(_) => messages::NOT_THERE,
            Error::Refused(_) => messages::REFUSED,
            Error::Busy(_) => messages::IN_USE,
            Error::Stopped => messages::STOPPED,
            Error::Process(_) => messages::PROCESS_FAILED,
            Error::Named { id, .. } => *id,
            Error::Defect(_) => messages::DEFECT,
        }
    }

    /// Makes the error for a damaged file.
    pub fn corrupt(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Error::Corrupt { path: path.as_ref().to_path_buf(), what: what.into() }
    }
}
