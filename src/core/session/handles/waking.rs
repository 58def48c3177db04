//! Before a name means something else, readers of sealed copies get private ones.

use std::path::Path;

use crate::handles::Tracked;
use crate::session::handles::Handles;

impl Handles {
    /// Gives readers their private copies, before these names mean something else, and takes back
    /// what children have written. Not with the state locked.
    pub(crate) fn wake(&self, which: impl Fn(&Tracked) -> bool) {
        let lazy = self.end_lent().own.tokens.lazy(which);
        lazy.into_iter().for_each(|token| self.site.host.wake(token));
    }

    pub(crate) fn wake_path(&self, path: &Path) {
        if let Some(name) = self.rank.name_of(path) {
            self.wake(|one| one.name == name);
        }
    }
}
