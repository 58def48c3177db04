//! The flush file (000 section 9.4): which datasets are in cache, and which are on their way. It
//! follows the run off the program's path, in the helper thread of rank 0; exact at start and end.
//! And the nodes file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use super::machine::{DatasetState, SharedDataset};
use super::runtime::Session;
use crate::events::Event;
use crate::log;
use crate::records::{Nodes, Record as _};
use crate::transfer::record_places;

/// Ids in cache, and of those the ones that are being flushed in the background.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// With the name of what is complete.
    cached: BTreeMap<u64, Option<String>>,
    flushing: BTreeSet<u64>,
}

impl Session {
    /// Brings the flush file up to date, if something has changed since it was last done. For rank
    /// 0; local.
    pub(super) fn record_places(&self) {
        if self.site.rank != 0 {
            return;
        }
        let now = self.find_places();
        let mut told = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() == Some(&now) {
            return;
        }
        match record_places(&self.site.prefix, &now.cached, &now.flushing) {
            Ok(()) => *told = Some(now),
            Err(error) => log::message(1, format_args!("{error}; tried again later")),
        }
    }

    /// Before anything is brought into view: what earlier launches left in the prefix's own folder
    /// goes, and what this one records there begins, with the `events` until now. Local.
    pub(super) fn begin_records(&self, hosts: &[String], events: Vec<Event>) {
        self.sweep_wanted();
        if self.site.rank == 0 {
            self.sweep_meetings();
            // What a run that was killed has left there; ours is the lease.
            let _ = std::fs::remove_dir_all(self.refuge());
            self.begin_log(hosts);
            events.into_iter().for_each(|event| self.event(|| event));
            self.settle_background();
            self.record_nodes(hosts);
        }
    }

    /// Writes the nodes file (000 section 9.6): how many nodes this launch uses.
    fn record_nodes(&self, hosts: &[String]) {
        let path = self.site.state_dir().join(Nodes::NAME);
        let now = Nodes { nodes: hosts.iter().collect::<BTreeSet<_>>().len() as u64 };
        if Nodes::read(&path).ok().flatten() == Some(now) {
            return;
        }
        // A directory or garbage in its place is replaced, too.
        if let Err(error) = now.write(&path) {
            log::message(1, format_args!("{error}"));
        }
    }

    fn find_places(&self) -> Places {
        let mut flushing: BTreeSet<u64> = self.flushes().keys().copied().collect();
        flushing.extend(self.background().as_ref().map(|(id, _)| *id));
        let state = self.state();
        let sealed = |one: &&SharedDataset| {
            let kept = matches!(one.state, DatasetState::Provisional | DatasetState::Confirmed);
            kept && one.id > 0 && !one.on_prefix && state.view.layer(&one.key).is_some()
        };
        let all = (0..self.series.series().len()).flat_map(|at| state.machine.datasets(at));
        let named = |one: &SharedDataset| {
            let complete = one.state == DatasetState::Confirmed;
            (one.id, complete.then(|| self.record_key(&one.key).name()))
        };
        let cached: BTreeMap<_, _> = all.filter(sealed).map(named).collect();
        flushing.retain(|id| cached.contains_key(id));
        Places { cached, flushing }
    }
}
