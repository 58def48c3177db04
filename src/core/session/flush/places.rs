//! The flush file (manual 1.1, section 9.4): which datasets are in cache, and which are on their
//! way. It follows the run off the program's path, in the helper thread of rank 0; exact at start
//! and end. And the nodes file.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use crate::account::flush_file::DatasetPlaces;
use crate::cache::RebuildReport;
use crate::comm::ranks::ranks_phrase;
use crate::events::Event;
use crate::launch::meeting::sweep_meetings;
use crate::log;
use crate::machine::{DatasetState, SharedDataset};
use crate::records::{Nodes, Record as _};
use crate::session::flush::Flusher;
use crate::transfer::record_places;

impl Flusher {
    /// Brings the flush file up to date, on rank 0. Local.
    pub(crate) fn record_places(&self) {
        if self.site.rank != 0 {
            return;
        }
        let mut now = self.find_places();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.look(&self.site.prefix, &mut now);
        if places.told.as_ref() == Some(&now) {
            return;
        }
        match record_places(&self.site.prefix, &now.cached, &now.flushing) {
            Ok(()) => places.told = Some(now),
            Err(error) => log::message(1, format_args!("{error}; tried again later")),
        }
    }

    /// Begins this launch's records in the prefix's own folder, with the `events` until now, before
    /// anything comes into view; what earlier launches left there goes. Local.
    pub(crate) fn begin_records(
        &self,
        hosts: &[String],
        report: &mut RebuildReport,
        events: Vec<Event>,
    ) {
        self.updates.sweep_wanted();
        self.unsealed.pulls.sweep();
        if self.site.rank == 0 {
            sweep_meetings(&self.site, self.rank.launch);
            // What a run that was killed has left there; ours is the lease.
            let _ = std::fs::remove_dir_all(self.site.fallback_dir());
            self.rank.begin_log(hosts);
            events.into_iter().for_each(|event| self.rank.event(|| event));
            self.settle_background();
            self.record_nodes(hosts, report);
        }
    }

    /// Writes the nodes file (manual 1.1, section 9.6). Of what lies on nodes where this launch has
    /// no rank, `report` tells the names of those nodes.
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

    fn find_places(&self) -> DatasetPlaces {
        let mut flushing: BTreeMap<_, _> = self.flushes().keys().map(|id| (*id, None)).collect();
        flushing.extend(self.background().as_ref().map(|(id, _)| (*id, None)));
        let state = self.node.state();
        let sealed = |one: &&SharedDataset| {
            let kept = matches!(one.state, DatasetState::Provisional | DatasetState::Confirmed);
            kept && one.id > 0 && !one.on_prefix && state.view.layer(&one.key).is_some()
        };
        let all = (0..self.rank.series.series().len()).flat_map(|at| state.machine.datasets(at));
        let named = |one: &SharedDataset| {
            let complete = one.state == DatasetState::Confirmed;
            (one.id, complete.then(|| self.rank.record_key(&one.key).name()))
        };
        let cached: BTreeMap<_, _> = all.filter(sealed).map(named).collect();
        flushing.retain(|id, _| cached.contains_key(id));
        DatasetPlaces { cached, flushing }
    }
}

/// Nobody here knows whether that node still runs.
fn out_of_reach(host: &str, ranks: &[usize]) -> String {
    let ranks = ranks_phrase(ranks);
    format!(
        "; {ranks} ran on {host}, where this launch has no rank: what its cache holds stays there, \
         and a launch with a rank on it can have it again"
    )
}
