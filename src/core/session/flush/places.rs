//! The flush file (000 section 9.4): which datasets are in cache, and which are on their way. It
//! follows the run off the program's path, in the helper thread of rank 0; exact at start and end.
//! And the nodes file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::cache::RebuildReport;
use crate::comm::ranks::ranks_phrase;
use crate::events::Event;
use crate::log;
use crate::machine::{DatasetState, SharedDataset};
use crate::records::{Nodes, Record as _};
use crate::session::flush::Flusher;
use crate::transfer::{Watch, record_places};

/// Between two looks at how far flushes have come.
const PERIOD: Duration = Duration::from_secs(1);

/// Ids in cache, and of those the ones that are being flushed in the background.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Places {
    /// With the name of what is complete.
    cached: BTreeMap<u64, Option<String>>,
    /// With the bytes that have come and that are to come, once they were looked at.
    flushing: BTreeMap<u64, Option<(u64, u64)>>,
}

/// What the flush file says, and the flushes that are watched for it.
#[derive(Default)]
pub(in crate::session) struct PlacesTold {
    told: Option<Places>,
    watched: BTreeMap<u64, Watch>,
    looked: Option<Instant>,
}

impl PlacesTold {
    /// Looks how far the flushes in `now` have come, unless that was done a moment ago.
    fn look(&mut self, prefix: &Path, now: &mut Places) {
        self.watched.retain(|id, _| now.flushing.contains_key(id));
        if now.flushing.is_empty() {
            return;
        }
        if self.looked.is_some_and(|looked| looked.elapsed() < PERIOD) {
            let before = self.told.iter().flat_map(|told| &told.flushing);
            before.for_each(|(id, progress)| {
                now.flushing.entry(*id).and_modify(|now| *now = *progress);
            });
            return;
        }
        self.looked = Some(Instant::now());
        for (id, progress) in &mut now.flushing {
            if let Entry::Vacant(place) = self.watched.entry(*id)
                && let Ok(watch) = Watch::new(prefix, *id)
            {
                place.insert(watch);
            }
            let watch = self.watched.get(id).filter(|watch| watch.bytes > 0);
            *progress = watch.map(|watch| (watch.bytes_done(prefix), watch.bytes));
        }
    }
}

impl Flusher {
    /// Brings the flush file up to date, if something has changed since it was last done. For rank
    /// 0; local.
    pub(in crate::session) fn record_places(&self) {
        if self.rank.site.rank != 0 {
            return;
        }
        let mut now = self.find_places();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.look(&self.rank.site.prefix, &mut now);
        if places.told.as_ref() == Some(&now) {
            return;
        }
        match record_places(&self.rank.site.prefix, &now.cached, &now.flushing) {
            Ok(()) => places.told = Some(now),
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
        self.updates.sweep_wanted();
        if self.rank.site.rank == 0 {
            self.rank.sweep_meetings();
            // What a run that was killed has left there; ours is the lease.
            let _ = std::fs::remove_dir_all(self.rank.site.fallback_dir());
            self.rank.begin_log(hosts);
            events.into_iter().for_each(|event| self.rank.event(|| event));
            self.settle_background();
            self.record_nodes(hosts, report);
        }
    }

    /// Writes the nodes file (000 section 9.6): where this launch runs. Of what lies on nodes of
    /// earlier ones, where it has no rank, `report` tells from now on the names of those nodes.
    fn record_nodes(&self, hosts: &[String], report: &mut RebuildReport) {
        let path = self.rank.site.state_dir().join(Nodes::NAME);
        let before = Nodes::read(&path).ok().flatten();
        let (_, job) = self.rank.site.layout.user_and_job();
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
