//! What the hooks report of files that are open, and of the process.

use std::path::Path;

use crate::session::Session;
use crate::session::rank::stage::Milestone;

/// Something that the shim has seen.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// The process ends without MPI_Finalize.
    Exit,
    /// After it, and all that was open is closed.
    Leave,
    /// MPI_Finalize has returned.
    Finalized,
    /// We are a forked child.
    ForkedChild,
    /// The program made this directory.
    Mkdir(&'a Path),
    /// The program is about to make something here that is no regular file.
    Make(&'a Path),
    /// The program opens for writing what lies elsewhere, because of a symbolic link in the name.
    Misled(&'a Path),
    /// The program changed mode, owner or times of this file.
    Attributes(&'a Path),
    /// This file, which it opens to read it, could not be opened in the cache.
    Unreadable(&'a Path),
}

impl Session {
    /// Does what is to be done when something noteworthy has happened.
    pub fn note(&self, note: Note<'_>) {
        match note {
            Note::ForkedChild => {
                self.rank.reach(Milestone::Forked);
                self.counter.leave_to_parent();
            }
            Note::Exit => self.ending.exit(),
            Note::Leave => self.ending.leave(),
            Note::Finalized => _ = self.rank.reach(Milestone::Ended),
            // Attributes are read from the files at the seal.
            Note::Attributes(_) => {}
            Note::Make(path) => self.names.give_way(path),
            Note::Misled(path) => self.stores.misled(path),
            Note::Unreadable(path) => self.stores.unreadable(path),
            Note::Mkdir(path) => {
                if let Some(name) = self.rank.name_of(path)
                    && self.node.state_to_look().view.settle_dir(name)
                {
                    // The other ranks see by its time that it is there again.
                    let now = std::time::SystemTime::now();
                    let touched = std::fs::File::open(path).and_then(|dir| dir.set_modified(now));
                    drop(touched);
                }
            }
        }
    }
}
