//! What the shim asks of a file that ranks of several nodes write into their caches.

use std::sync::atomic::AtomicU64;

use crate::handles::{LiesAt, Tracked};
use crate::machine::Why;
use crate::parts::Extent;
use crate::session::handles::Handles;

impl Handles {
    /// Holds the calls of groups: [`State::moment`].
    pub fn round(&self) -> &'static AtomicU64 {
        self.node.state().own.groups.round()
    }

    /// Notes that ranks make a blocking collective call on a file of theirs that is no sync point,
    /// and by which they cannot tell one another what they have written.
    pub fn uncounted_call(&self) {
        self.node.state().not_all_told();
    }

    /// Tells whether this node has these bytes of the token's file, and no other has written them
    /// since: what is read of it is what the program would find on the PFS. Else, and if `end` is
    /// the highest number, it is the turn of the file to leave the cache.
    pub fn has(&self, token: u64, begin: u64, end: u64) -> bool {
        let state = self.node.state_to_look();
        let Some(Tracked { key, name, way, .. }) = state.own.tokens.get(token).cloned() else {
            return true;
        };
        if let LiesAt::Part(here) = way {
            return here.has(begin, end) && !state.is_older(token, &name);
        }
        let piece = Extent::new(begin, end);
        if state.has_part(&key, &name, self.site.rank, piece) != Some(false) {
            return true;
        }
        drop(state);
        if end < u64::MAX {
            self.unsealed.note_why(&key, &name, Why::Readers);
        }
        // The writers of this rank stand still only from here on: before, it may have to take part
        // for another file. What fails here fails once more, and is told.
        let _ = self.unsealed.take_turn(&key, &name);
        false
    }

    /// Returns how long the token's file is, bytes; `None`: this rank cannot know.
    pub fn whole_size(&self, token: u64) -> Option<u64> {
        let size = self.node.state_to_look().size_of(token)?;
        size.map_err(|(key, name)| self.unsealed.note_why(&key, &name, Why::Sizes)).ok()
    }
}
