//! What the hooks report of files that are open, and of the process.

use std::path::Path;
use std::sync::atomic::Ordering;

use super::runtime::Session;
use crate::handles::LiesAt;
use crate::system::monotonic_ms;

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
    /// Notes that a write, truncate, fsync or close on the token's file failed.
    pub fn failed(&self, token: u64, errno: i32) {
        let mut state = self.state_to_look();
        let Some(tracked) = state.tokens.get(token).cloned() else { return };
        if matches!(tracked.way, LiesAt::Temporary | LiesAt::Lazy { .. }) || tracked.is_orphan() {
            // It belongs to nothing yet; the program will not rename what it could not write.
            return;
        }
        let reason = std::io::Error::from_raw_os_error(errno);
        let text = format!("writing {} failed: {reason}", tracked.name);
        state.machine.failed(&tracked.key, &text, monotonic_ms());
    }

    /// Does what is to be done when something noteworthy has happened.
    pub fn note(&self, note: Note<'_>) {
        match note {
            Note::ForkedChild => {
                self.child.store(true, Ordering::Relaxed);
                self.counter.leave_to_parent();
            }
            Note::Exit => self.exit(),
            Note::Leave => self.leave(),
            Note::Finalized => self.ended.store(true, Ordering::Relaxed),
            // Attributes are read from the files at the seal.
            Note::Attributes(_) => {}
            Note::Make(path) => self.give_way(path),
            Note::Misled(path) => self.misled(path),
            Note::Unreadable(path) => self.unreadable(path),
            Note::Mkdir(path) => {
                if let Some(name) = self.name_of(path)
                    && self.state_to_look().view.settle_dir(name)
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
