//! The flush file (000 section 9.4): which datasets are in cache, and which are on their way. It
//! follows the run off the program's path, in the helper thread of rank 0; exact at start and end.
//! And the nodes file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use crate::cache::RebuildReport;
use crate::comm::ranks::ranks_phrase;
use crate::events::Event;
use crate::log;
use crate::machine::{DatasetState, SharedDataset};
use crate::records::{Nodes, Record as _};
use crate::session::rank::runtime::Session;
use crate::transfer::record_places;

/// Ids in cache, and of those the ones that are being flushed in the background.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::session) struct Places {
    /// With the name of what is complete.
    cached: BTreeMap<u64, Option<String>>,
    flushing: BTreeSet<u64>,
}

impl Session {
    /// Brings the flush file up to date, if something has changed since it was last done. For rank
    /// 0; local.
    pub(in crate::session) fn record_places(&self) {
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

    /// Begins this launch's records in the prefix's own folder, with the `events` until now, before
    /// anything is brought into view; what earlier launches left there goes. Local.
    pub(in crate::session) fn begin_records(
        &self,
        hosts: &[String],
        report: &mut RebuildReport,
        events: Vec<Event>,
    ) {
        self.sweep_wanted();
        if self.site.rank == 0 {
            self.sweep_meetings();
            // What a run that was killed has left there; ours is the lease.
            let _ = std::fs::remove_dir_all(self.site.fallback_dir());
            self.begin_log(hosts);
            events.into_iter().for_each(|event| self.event(|| event));
            self.settle_background();
            self.record_nodes(hosts, report);
        }
    }

    /// Writes the nodes file (000 section 9.6): where this launch runs. Of what lies on nodes of
    /// earlier ones, where it has no rank, `report` tells from now on the names of those nodes.
    fn record_nodes(&self, hosts: &[String], report: &mut RebuildReport) {
        let path = self.site.state_dir().join(Nodes::NAME);
        let before = Nodes::read(&path).ok().flatten();
        let (_, job) = self.site.layout.user_and_job();
        let mut now = Nodes::of_launch(hosts, &job);
        let mut former = before.clone().unwrap_or_default();
        former.hosts.retain(|host, _| !now.hosts.contains_key(host));
        // Of each node with the newest dataset that it has a part of.
        for one in report.withheld.iter_mut().rev().filter(|one| !one.deleted) {
            for (host, ranks) in former.hosts_of(&one.absent) {
                if now.hosts.insert(host.to_owned(), former.hosts[host].clone()).is_none() {
                    one.reason.push_str(&out_of_reach(host, &ranks));
                }
            }
        }
        if before.as_ref() == Some(&now) {
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

/// What a person can do about files on a node where this launch has no rank. Nobody here knows
/// whether it still runs.
fn out_of_reach(host: &str, ranks: &[usize]) -> String {
    let ranks = ranks_phrase(ranks);
    format!(
        "; {ranks} ran on {host}, where this launch has no rank: what its cache holds stays there, \
         and a launch with a rank on it can have it again"
    )
}
