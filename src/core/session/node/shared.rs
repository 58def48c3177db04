//! The state, and who waits for it: threads of this rank that give files their names on the PFS.
//!
//! A rename there can take as long as the file system likes, and the program's calls need the
//! state. So a thread notes the name, lets the state go, renames, and says what has come of it.
//! Meanwhile only who changes that name waits: nothing could be put right afterwards, when the
//! program has a new file there.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::machine::DatasetKey;
use crate::namespace::is_within;
use crate::restart::thrown::last_change;
use crate::session::{node::State, rank::lock};
use crate::system::test_pause;

#[derive(Debug, Default)]
pub(crate) struct Publishing {
    names: BTreeSet<String>,
    /// So many calls wait, and threads let them go first.
    awaited: usize,
}

impl Publishing {
    pub fn is_over(&self) -> bool {
        self.names.is_empty()
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub fn meets(&self, names: &[&str]) -> bool {
        self.names.iter().any(|one| names.iter().any(|name| is_within(name, one)))
    }
}

pub(super) struct Guarded {
    pub state: State,
    publishing: Publishing,
}

pub(crate) struct StateLock {
    guarded: Mutex<Guarded>,
    settled: Condvar,
}

impl StateLock {
    pub fn new(state: State) -> StateLock {
        let guarded = Guarded { state, publishing: Publishing::default() };
        StateLock { guarded: Mutex::new(guarded), settled: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        // A panic while it was held has ended routing; what is left is still worth saving.
        lock(&self.guarded)
    }

    fn wait<'a>(
        &'a self,
        guarded: MutexGuard<'a, Guarded>,
        until: impl Fn(&Publishing) -> bool,
    ) -> MutexGuard<'a, Guarded> {
        let waited = self.settled.wait_while(guarded, |now| !until(&now.publishing));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_when(
        &self,
        allowed: impl Fn(&State, &Publishing) -> bool,
    ) -> MutexGuard<'_, Guarded> {
        let mut guarded = self.lock();
        let is_allowed = |now: &Guarded| allowed(&now.state, &now.publishing);
        if is_allowed(&guarded) {
            return guarded;
        }
        guarded.publishing.awaited += 1;
        let waited = self.settled.wait_while(guarded, |now| !is_allowed(now));
        let mut guarded = waited.unwrap_or_else(PoisonError::into_inner);
        guarded.publishing.awaited -= 1;
        self.settled.notify_all();
        guarded
    }

    #[cfg(test)]
    pub(super) fn is_awaited(&self) -> bool {
        self.lock().publishing.awaited > 0
    }

    /// Takes a thread's turn to give `name` to its file of `key` by `publish`. `false`: the program
    /// has deleted the file, or the PFS has a newer content.
    pub fn publish(
        &self,
        key: &DatasetKey,
        name: &str,
        publish: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        let mut now = self.wait(self.lock(), |now| now.awaited == 0 && !now.has(name));
        if now.state.machine.is_left_out_now(key, name) {
            return Ok(false);
        }
        now.publishing.names.insert(name.to_string());
        drop(now);
        let _turn = NamingTurn { shared: self, name };
        test_pause("publish.name");
        publish()?;
        let state = &mut self.lock().state;
        state.machine.published(key, name);
        state.view.note_brought(name, last_change);
        Ok(true)
    }
}

/// Its end is the end of the turn, whatever has come of it.
struct NamingTurn<'a> {
    shared: &'a StateLock,
    name: &'a str,
}

impl Drop for NamingTurn<'_> {
    fn drop(&mut self) {
        self.shared.lock().publishing.names.remove(self.name);
        self.shared.settled.notify_all();
    }
}
