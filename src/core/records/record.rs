//! What all records have in common: a tree file that is read whole and replaced atomically.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::files::{FileLock, LOCK_WAIT_MAX};
use crate::kvtree::KvTree;

/// A struct that is kept in a tree file of its own.
pub trait Record: Sized {
    /// What the file is called in messages, as "the index".
    const KIND: &'static str;

    /// The tree that the file holds.
    fn to_tree(&self) -> KvTree;

    /// The inverse.
    ///
    /// # Errors
    /// A clause that says what is wrong, as "DSET 18 has no RANKS".
    fn from_tree(tree: &KvTree) -> std::result::Result<Self, String>;

    /// Returns where the file is that counts, if it is not `path`.
    #[must_use]
    fn place(path: &Path) -> PathBuf {
        path.to_owned()
    }

    /// Reads the file; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged or of a newer version, [`Error::Io`] if it cannot be
    /// read.
    fn read(path: &Path) -> Result<Option<Self>> {
        let path = Self::place(path);
        let Some(tree) = KvTree::read_file(&path)? else { return Ok(None) };
        match Self::from_tree(&tree) {
            Ok(record) => Ok(Some(record)),
            Err(what) => Err(Error::corrupt(&path, format!("as {}: {what}", Self::KIND))),
        }
    }

    /// Replaces the file, atomically and durably.
    ///
    /// # Errors
    /// If it cannot be written; the older content is still there.
    fn write(&self, path: &Path) -> Result<()> {
        self.to_tree().write_file(Self::place(path))
    }
}

/// Changes a file that has several writers: reads it (the default if there is none), calls
/// `change`, and writes the result, all under the lock file beside it. Nothing is written if
/// `change` fails.
///
/// # Errors
/// If the lock, the file or `change` fails.
pub fn update<R: Record + Default, T>(
    path: &Path,
    change: impl FnOnce(&mut R) -> Result<T>,
) -> Result<T> {
    update_within(path, LOCK_WAIT_MAX, change)
}

/// Does what [`update`] does, but waits for the lock no longer than `wait_max`.
///
/// # Errors
/// As [`update`].
pub fn update_within<R: Record + Default, T>(
    path: &Path,
    wait_max: Duration,
    change: impl FnOnce(&mut R) -> Result<T>,
) -> Result<T> {
    let _lock = FileLock::acquire(path, wait_max)?;
    let mut record = R::read(path)?.unwrap_or_default();
    let result = change(&mut record)?;
    record.write(path)?;
    Ok(result)
}

/// Does what [`update`] does, with a file that is only a help: a damaged one is as none.
///
/// # Errors
/// If the lock, the file or `change` fails.
pub fn update_or_renew<R: Record + Default, T>(
    path: &Path,
    change: impl FnOnce(&mut R) -> Result<T>,
) -> Result<T> {
    let _lock = FileLock::acquire(path, LOCK_WAIT_MAX)?;
    let mut record = match R::read(path) {
        Err(Error::Corrupt { .. }) => R::default(),
        read => read?.unwrap_or_default(),
    };
    let result = change(&mut record)?;
    record.write(path)?;
    Ok(result)
}

/// Returns the subtree that lists datasets: DSET, or CKPT in files of older versions.
pub(super) fn datasets(tree: &KvTree) -> &KvTree {
    tree.get("DSET").unwrap_or_else(|| tree.child("CKPT"))
}

/// Reads a key that must be a number; `what` names the key's meaning.
pub(super) fn number<T: std::str::FromStr>(
    key: &str,
    what: &str,
) -> std::result::Result<T, String> {
    key.parse().map_err(|_| format!("{key:?} is not {what}"))
}
