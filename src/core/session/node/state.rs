//! Everything of a rank that changes while the program runs, and that its calls need together.
//!
//! Invariants:
//! * One lock guards the state. It is never held across communication or a wait; what a thread
//!   renames on the PFS meanwhile is noted beside it (`shared.rs`).
//! * Only sync points, start and finish communicate.
//! * When the cache fails a rank for good, routing ends for it, with one message, and for the
//!   others when they hear of it; agreements go on, since the other ranks count on them.

use std::collections::BTreeMap;

use super::moves::Moves;
use crate::handles::{Checksums, Holding, Tokens};
use crate::machine::{DatasetKey, Deletion, FileRef, Machine, Reason};
use crate::namespace::{self as ns, Claimed, ToldElsewhere, Turns, View};
use crate::system::monotonic_ms;

/// Everything that changes.
pub(in crate::session) struct State {
    pub machine: Machine,
    pub view: View,
    pub holdings: BTreeMap<DatasetKey, Holding>,
    pub tokens: Tokens,
    /// Of files that need not be read at the seal.
    pub checksums: Checksums,
    /// Files of which this rank has a private copy and that another one of its node writes, too;
    /// which one, if it is known.
    pub co_writers: BTreeMap<String, Option<usize>>,
    /// What other ranks of the node have claimed, and not said yet what has come of it.
    pub claims: BTreeMap<(String, usize), Claimed>,
    /// What other ranks of the node are changing right now.
    pub turns: Turns,
    /// What other nodes know of names on this rank.
    pub told: ToldElsewhere,
    /// Directories that got their final name.
    pub moves: Moves,
}

impl State {
    /// Notes that `name` belongs to `key` from now on, and is seen there or, with `on_prefix`, on
    /// the PFS.
    pub fn enter_file(&mut self, key: &DatasetKey, name: &str, on_prefix: bool) {
        self.holdings.entry(key.clone()).or_default().files.insert(name.to_string());
        self.view.enter(key, name, on_prefix);
    }

    /// Notes that `name` no longer belongs to `key`.
    pub fn leave_file(&mut self, key: &DatasetKey, name: &str) {
        if let Some(holding) = self.holdings.get_mut(key) {
            holding.files.remove(name);
        }
        if let Some(layer) = self.view.layer_mut(key) {
            layer.set_on_prefix(name, false);
        }
    }

    /// Notes that `name` belongs to no dataset any more.
    pub fn leave_all(&mut self, name: &str) {
        let keys: Vec<_> = self.holdings.keys().cloned().collect();
        keys.iter().for_each(|key| self.leave_file(key, name));
    }

    /// Finds the cached dataset that has the newest content of `name`, if another rank has written
    /// it.
    pub fn of_another(&self, name: &str) -> Option<DatasetKey> {
        let key = self.view.cached_in(name)?;
        let own = self.holdings.get(key).is_some_and(|holding| holding.files.contains(name));
        (!own && !self.view.is_absent(name)).then(|| key.clone())
    }

    /// Notes that the program deletes `file`, which is seen at `place`; tells what the unlink
    /// means.
    pub fn deleted_at(&mut self, file: &FileRef, place: &ns::Place) -> Deletion {
        let left = *place == ns::Place::Prefix && self.machine.is_left_behind(file);
        let told = self.machine.deleted(file, monotonic_ms());
        if left { Deletion::Now } else { told }
    }

    /// Notes that another rank or a child may write the file `name`, if it is one of ours.
    pub fn doubt(&mut self, name: &str) {
        let held = self.holdings.values().any(|holding| holding.files.contains(name));
        let open = self.tokens.doubt(name);
        if held || open {
            self.checksums.doubt(name);
        }
    }

    /// Notes that the prefix has this rank's file of `key`, which stays in that dataset.
    pub fn now_on_prefix(&mut self, key: &DatasetKey, name: &str, reason: Reason) {
        self.machine.moved_to_prefix(key, name, reason);
        self.enter_file(key, name, true);
    }

    /// Notes that `rank` makes, or begins to write, a file of which this one may have a private
    /// copy.
    pub fn note_co_writer(&mut self, name: &str, rank: usize) {
        if self.tokens.shadow_of(name).is_some() {
            self.co_writers.insert(name.to_string(), Some(rank));
        }
    }

    /// Notes that nobody knows any more what the others do.
    pub fn note_all_co_writers(&mut self) {
        for name in self.tokens.shadow_names() {
            self.co_writers.entry(name).or_default();
        }
    }
}
