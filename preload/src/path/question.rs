//! A path below the prefix, and what the engine is asked about it.

use std::ffi::{CStr, CString, c_int};

use scr_abi::{Engine, PathAnswer};

use crate::engine::ask::{Answer, ask, ask_whole};
use crate::path::canonical::{self, Located};
use crate::path::disk;
use crate::path::memory::{NameFact, NameKey};
use crate::path::text;

/// The kernel follows as many.
const LINKS_MAX: usize = 40;

pub(crate) struct Question {
    pub engine: &'static Engine,
    pub prefix: &'static [u8],
    pub path: CString,
    /// The name as the program wrote it, to be remembered when it turns out not to be ours, and
    /// whether this is an open for writing.
    pub written: Option<(NameKey, bool)>,
}

/// Tells whether the name takes a cached file for a directory. Guard held.
pub(crate) fn lies_below_file(table: &Engine, prefix: &[u8], located: &Located) -> bool {
    let mut missing = located.missing.clone();
    while let Some(path) = missing.filter(|path| path.as_bytes() != prefix) {
        let (answer, _) = ask(|verdict| (table.lookup)(path.as_ptr(), 0, verdict));
        if matches!(answer, Answer::Redirect(_) | Answer::Stat(_)) {
            return true;
        }
        missing = text::parent(&path).filter(|parent| !disk::is_directory(parent));
    }
    false
}

impl Question {
    /// Goes on, while the answer is "not ours" and the path is a symlink, with what that points to,
    /// which becomes the path: the link lies on the PFS, its target may be in the cache.
    pub(crate) fn ask_following(
        &mut self,
        mut question: impl FnMut(&CStr, *mut PathAnswer),
    ) -> (Answer, u64) {
        for _ in 0..LINKS_MAX {
            let (answer, token, foreign) = ask_whole(|verdict| question(&self.path, verdict));
            if !matches!((&answer, token), (Answer::Pass, 0)) {
                return (answer, token);
            }
            if let Some(target) = canonical::follow(self.prefix, &self.path) {
                self.path = target;
                self.written = None;
                continue;
            }
            if let Some((key, writes)) = self.written
                && foreign
                && canonical::is_no_link(&self.path)
            {
                key.remember(if writes { NameFact::Foreign } else { NameFact::Unwritten });
            }
            return (answer, token);
        }
        (Answer::Pass, 0)
    }

    /// Follows as stat(2) does, or not, as lstat(2).
    pub(crate) fn lookup(&mut self, follow: bool) -> Answer {
        self.look(follow, 0)
    }

    /// Serves a caller that may compare the answer with that of fstat(2).
    pub(crate) fn stat(&mut self, follow: bool) -> Answer {
        self.look(follow, 1)
    }

    fn look(&mut self, follow: bool, compares: c_int) -> Answer {
        let engine = self.engine;
        let look = |path: &CStr, verdict| (engine.lookup)(path.as_ptr(), compares, verdict);
        if follow { self.ask_following(look).0 } else { ask(|verdict| look(&self.path, verdict)).0 }
    }

    pub(crate) fn change(&mut self, follow: bool) -> Answer {
        let engine = self.engine;
        if follow {
            self.ask_following(|path, verdict| (engine.change)(path.as_ptr(), verdict)).0
        } else {
            ask(|verdict| (engine.change)(self.path.as_ptr(), verdict)).0
        }
    }
}
