//! Names that the program has given to calls of SCR, where no pattern matches them. The shim shows
//! what the cache has of them, so that a program that restarts without SCR's calls finds its files.
//! Whatever the program does to such a file by itself makes it one of the PFS.

use std::path::Path;

use crate::error::{Error, Result};
use crate::machine::Reason;
use crate::namespace::{self as ns, Answer, OpenIntent, Place};
use crate::session::{names::Names, node::State};

impl Names {
    pub(crate) fn open_called(&self, name: &str, intent: OpenIntent) -> Answer {
        if !intent.may_change {
            return self.open_for_reading(name);
        }
        if self.rank.is_child() {
            return Answer::PASS;
        }
        if intent.makes == ns::Makes::OnlyNew {
            return Answer::Fail(libc::EEXIST);
        }
        // What another node has comes to the PFS.
        if !intent.truncate
            && let failed @ Answer::Fail(_) = self.open_for_reading(name)
        {
            return failed;
        }
        let mut state = self.node.state_to_change(&[name]);
        let done = self.hand_over(&mut state, name, !intent.truncate);
        done.map_or_else(|error| Answer::Fail(error.errno()), |()| Answer::PASS)
    }

    /// Returns `None` if no call has named the file.
    pub(crate) fn unlink_called(
        &self,
        state: &mut State,
        name: &str,
        path: &Path,
    ) -> Option<Answer> {
        if self.rank.is_child() || !self.contents.is_called(state, name) {
            return None;
        }
        if !ns::may_create(path) {
            return Some(Answer::Fail(libc::EACCES));
        }
        if let Err(error) = self.leave_called(state, name) {
            return Some(Answer::Fail(error.errno()));
        }
        let is_there = path.symlink_metadata().is_ok();
        Some(if is_there { Answer::PASS } else { Answer::Done })
    }

    /// Brings such files among both names of a rename or a link to the PFS before it.
    pub(crate) fn hand_over_both(
        &self,
        state: &mut State,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<()> {
        for (name, keeps) in [(from, true), (to, false)] {
            if let Some(name) = name.filter(|name| self.contents.is_called(state, name)) {
                self.hand_over(state, name, keeps)?;
            }
        }
        Ok(())
    }

    /// From now on `name` is what the PFS has; with `keeps`, that is what the cache has now.
    fn hand_over(&self, state: &mut State, name: &str, keeps: bool) -> Result<()> {
        let target = self.site.on_prefix(name);
        match state.view.place(name) {
            Place::Cached(_, here) if keeps && !self.rank.has_the_same(name, &here) => {
                let dir = target.parent().unwrap_or(&self.site.prefix);
                std::fs::create_dir_all(dir)
                    .map_err(|e| Error::io("cannot create the directory", dir, e))?;
                self.rank.publish(&here, &target, Reason::ChangedApart)?;
            }
            Place::Elsewhere(..) if keeps => {
                let error = std::io::Error::from_raw_os_error(libc::EXDEV);
                return Err(Error::io("another node has the file", &target, error));
            }
            _ => {}
        }
        self.leave_called(state, name)
    }

    /// Leaves `name` to the PFS for this run, its other ranks, and those that follow.
    pub(crate) fn leave_called(&self, state: &mut State, name: &str) -> Result<()> {
        self.contents.leave_to_prefix(state, name)?;
        state.view.leave_alone(name);
        self.node.note_left(state, name);
        Ok(())
    }
}
