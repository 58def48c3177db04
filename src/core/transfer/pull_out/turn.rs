//! Which file all ranks of a job bring to the prefix just now: one at a time, since a rank whose
//! writers stand still for one file cannot take part for another.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::files::{create_dirs, remove_tree};
use crate::kvtree::KvTree;
use crate::transfer::prefix::paths::OWN_MODE;

/// The file whose turn it is: name of its dataset's directory, and its own.
pub type PullTurn = (String, String);

/// Where the turn is told, below the prefix.
#[derive(Debug, Clone)]
pub struct PullTurns(PathBuf);

const TURN: &str = "turn";
const WHAT: &str = "what";

impl PullTurns {
    /// Begins with those of a job; `folder` is its own.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        PullTurns(folder)
    }

    /// Returns the folder in which the ranks meet for a file.
    #[must_use]
    pub fn meeting(&self, hash: u64) -> PathBuf {
        self.0.join(format!("{hash:016x}"))
    }

    /// Returns the file whose turn it is.
    #[must_use]
    pub fn now(&self) -> Option<PullTurn> {
        let tree = KvTree::read_file(self.0.join(TURN).join(WHAT)).ok()??;
        Some((tree.get_value("KEY")?.to_owned(), tree.get_value("NAME")?.to_owned()))
    }

    /// Takes the turn for a file, or finds that it is its turn already. `false`: another one's.
    ///
    /// # Errors
    /// The prefix cannot be written.
    pub fn take(&self, rank: usize, turn: &PullTurn) -> Result<bool> {
        if let Some(now) = self.now() {
            return Ok(now == *turn);
        }
        // Two threads of a rank may ask for two files.
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        let made = self.0.join(format!("{TURN}.{rank}.{asked}"));
        remove_tree(&made)?;
        create_dirs(&made, OWN_MODE)?;
        let mut tree = KvTree::new();
        tree.set_value("KEY", &turn.0);
        tree.set_value("NAME", &turn.1);
        tree.write_file(made.join(WHAT))?;
        let there = self.0.join(TURN);
        match fs::rename(&made, &there) {
            Ok(()) => Ok(true),
            // A name that is taken: the errors of different file systems.
            Err(error) if is_taken(&error, &there) => {
                remove_tree(&made)?;
                Ok(self.now().as_ref() == Some(turn))
            }
            Err(error) => Err(Error::io("cannot rename", &made, error)),
        }
    }

    /// Gives the turn back, if it is that of this file.
    pub fn end(&self, turn: &PullTurn) {
        if self.now().as_ref() == Some(turn) {
            let _ = remove_tree(&self.0.join(TURN));
        }
    }

    /// Removes what an earlier launch has left.
    pub fn sweep(&self) {
        let _ = remove_tree(&self.0);
    }
}

fn is_taken(error: &std::io::Error, there: &Path) -> bool {
    let codes = [libc::ENOTEMPTY, libc::EEXIST, libc::EBUSY];
    error.kind() == ErrorKind::DirectoryNotEmpty
        || error.raw_os_error().is_some_and(|code| codes.contains(&code))
        || there.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_the_turn_until_it_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let turns = PullTurns::new(dir.path().join("pulled"));
        let [one, other] = ["a", "b"].map(|name| ("key".to_string(), name.to_string()));
        assert_eq!(turns.now(), None);
        assert!(turns.take(0, &one).unwrap() && turns.take(1, &one).unwrap());
        assert!(!turns.take(1, &other).unwrap());
        turns.end(&other);
        assert_eq!(turns.now(), Some(one.clone()));
        turns.end(&one);
        assert!(turns.take(1, &other).unwrap());
        turns.sweep();
        assert_eq!(turns.now(), None);
    }
}
