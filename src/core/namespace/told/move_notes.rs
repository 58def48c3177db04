//! What a restart has to know of renamed directories of which not all ranks have heard: each rank
//! notes its renames in a file of the state folder, before it does them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::notices::Move;
use crate::cache::disk::names_in;
use crate::error::Result;
use crate::files::{has_no_file, remove_empty_dirs, remove_file_if_there};
use crate::kvtree::KvTree;
use crate::log::{self, messages};

/// Begins the names of these files.
const NOTE: &str = "moved.";

/// Directories in such a file. Older ones are sealed.
const NOTED_MAX: usize = 8;

/// The renames that a rank has noted.
#[derive(Debug, Default)]
pub struct MoveNotes {
    noted: VecDeque<Move>,
}

/// Returns the file of a rank.
fn note_of(folder: &Path, rank: usize) -> PathBuf {
    folder.join(format!("{NOTE}{rank}"))
}

impl MoveNotes {
    /// Notes a rename that this rank is about to do.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn add(&mut self, one: Move, folder: &Path, rank: usize) -> Result<()> {
        self.noted.push_back(one);
        if self.noted.len() > NOTED_MAX {
            self.noted.pop_front();
        }
        self.write(folder, rank)
    }

    /// Settles what was told up to the number `told`: all ranks have heard and done it, and nothing
    /// of it has to be taken back.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn settle(&mut self, told: u64, folder: &Path, rank: usize) -> Result<()> {
        let before = self.noted.len();
        self.noted.retain(|one| !one.landed || one.number > told);
        if self.noted.len() == before { Ok(()) } else { self.write(folder, rank) }
    }

    fn write(&self, folder: &Path, rank: usize) -> Result<()> {
        let mut tree = KvTree::new();
        for one in &self.noted {
            let entry = tree.child_mut(&one.to);
            if one.landed {
                entry.set_value("FROM", &one.from);
            }
        }
        tree.write_file(note_of(folder, rank))
    }

    /// Removes the note: nothing is in the cache any more that this rank has renamed.
    pub fn forget(folder: &Path, rank: usize) {
        let _ = remove_file_if_there(&note_of(folder, rank));
    }

    /// Takes back renames of the run before: directories of which not all ranks had heard have
    /// their old names again, those without any file go, unless something `offered` is in them. For
    /// rank 0, before anybody looks.
    pub fn take_back(folder: &Path, prefix: &Path, offered: impl Fn(&str) -> bool) {
        let notes = names_in(folder).unwrap_or_default();
        for path in notes.iter().filter(|note| note.starts_with(NOTE)).map(|note| folder.join(note))
        {
            let tree = KvTree::read_file(&path).unwrap_or_default().unwrap_or_default();
            for (last, entry) in tree.iter() {
                let dir = prefix.join(last);
                match entry.get_value("FROM") {
                    Some(from) => call_as_before(prefix, from, &dir),
                    None if !offered(last) && has_no_file(&dir) => remove_empty_dirs(&dir),
                    None => {}
                }
            }
            let _ = remove_file_if_there(&path); // else looked at again, in vain
        }
    }
}

fn call_as_before(prefix: &Path, from: &str, dir: &Path) {
    let old = prefix.join(from);
    if old.symlink_metadata().is_err()
        && dir.is_dir()
        && let Err(error) = std::fs::rename(dir, &old)
    {
        log::warn(
            messages::RENAME_NOT_UNDONE,
            format_args!(
                "{} may lack files: the run before ended while it got that name, and it cannot \
                 be called {from} again: {error}",
                dir.display()
            ),
        );
    }
}
