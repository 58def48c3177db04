//! A folder on the prefix through which files come from the nodes and go there.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{create_dirs, remove_tree};
use crate::launch::JobPlaces;
use crate::operations::prefix::state_dir;
use crate::records::text::epoch_text;
use crate::system::{random_u64, try_lock};

const OUTSIDE: &str = "outside";
/// Held as long as the folder is in use.
const LOCK: &str = "lock";

/// The folder goes with this value; what a killed process has left is removed by the next one.
#[derive(Debug)]
pub struct Exchange {
    folder: PathBuf,
    name: String,
    _lock: File,
}

impl Exchange {
    /// Makes one.
    pub fn new(prefix: &Path) -> Result<Exchange> {
        let outside = state_dir(prefix).join(OUTSIDE);
        clear_left(&outside);
        let name = epoch_text(random_u64()).trim_start_matches("0x").to_owned();
        let folder = outside.join(&name);
        create_dirs(&folder, 0o700)?;
        // It gets its name when it is held: others remove the folder of one that is not.
        let (new, path) = (folder.join("lock.new"), folder.join(LOCK));
        let lock = File::create(&new).map_err(|e| Error::io("cannot write", &new, e))?;
        // Without locks on this file system nothing of others is removed, either.
        let _ = try_lock(&lock);
        std::fs::rename(&new, &path).map_err(|e| Error::io("cannot rename", &new, e))?;
        Ok(Exchange { folder, name, _lock: lock })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Returns what nodes know it by.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // What stays goes with the next one.
        let _ = remove_tree(&self.folder);
        let _ = self.folder.parent().map(std::fs::remove_dir);
    }
}

fn clear_left(outside: &Path) {
    for entry in std::fs::read_dir(outside).into_iter().flatten().flatten() {
        let lock = File::open(entry.path().join(LOCK));
        if lock.is_ok_and(|lock| matches!(try_lock(&lock), Ok(true))) {
            let _ = remove_tree(&entry.path());
        }
    }
}

pub(super) fn folder_of(places: &JobPlaces, name: &str) -> Result<PathBuf> {
    let folder = state_dir(&places.prefix).join(OUTSIDE).join(name);
    let is_name = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric());
    match is_name && folder.is_dir() {
        true => Ok(folder),
        false => Err(Error::Missing(format!("{} is not there: is the prefix?", folder.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_and_what_a_killed_process_left_goes_with_the_next() {
        let prefix = tempfile::tempdir().unwrap();
        let left = prefix.path().join(".scr/outside/0123");
        std::fs::create_dir_all(&left).unwrap();
        std::fs::write(left.join(LOCK), "").unwrap();
        let one = Exchange::new(prefix.path()).unwrap();
        let other = Exchange::new(prefix.path()).unwrap();
        assert!(!left.exists() && one.path().exists() && other.path().exists());
        drop(one);
        assert!(other.path().exists());
        drop(other);
        assert!(!prefix.path().join(".scr/outside").exists());
    }
}
