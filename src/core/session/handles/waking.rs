//! Before a name means something else, readers of sealed copies get private ones.

use std::path::Path;

use crate::session::rank::holdings::Tracked;
use crate::session::rank::runtime::Session;

impl Session {
    /// The names for which `which` holds are about to mean something else: their readers get
    /// their private copies before, and what children have written is taken back. Not with the
    /// state locked.
    pub(in crate::session) fn wake(&self, which: impl Fn(&Tracked) -> bool) {
        let lazy = self.end_lent().tokens.lazy(which);
        lazy.into_iter().for_each(|token| self.site.host.wake(token));
    }

    /// The same for a path.
    pub(in crate::session) fn wake_path(&self, path: &Path) {
        if let Some(name) = self.name_of(path) {
            self.wake(|one| one.name == name);
        }
    }
}
