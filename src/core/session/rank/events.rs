//! What is logged (`SCR_LOG_ENABLE`), and where to. Rank 0 writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use crate::account::deleted::{OUTSIDE_WINDOW, deletions};
use crate::account::log_places::log_sinks;
use crate::account::paces::pace_events;
use crate::events::{Event, EventLog, LoggedJob};
use crate::log::{self, messages};
use crate::machine::DatasetKey;
use crate::params::keys;
use crate::records::{Record as _, RunPassed, RunRecord};
use crate::session::rank::{Rank, lock};
use crate::system::block_signals;
use crate::transfer::Left;

/// How long the end of a run waits for the log.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

impl Rank {
    /// Unless the settings want none.
    pub(crate) fn begin_log(&self, hosts: &[String]) {
        let settings = &self.site.settings;
        self.events.begin.get_or_init(Instant::now);
        if self.site.rank != 0 {
            return;
        }
        let sinks = log_sinks(settings, &self.site.prefix, &self.site.zone);
        if sinks.is_empty() {
            return;
        }
        let (user, job_id) = self.site.layout.user_and_job();
        let job = LoggedJob {
            user,
            job_id,
            job_name: settings.get_optional(keys::JOB_NAME).unwrap_or_default(),
            cluster: settings.get_optional(keys::CLUSTER_NAME).unwrap_or_default(),
            host: self.site.node_name.clone(),
            launch: format!("{:016x}", self.launch),
        };
        let host = self.site.host.clone();
        let begun = EventLog::start(job, sinks, move || {
            block_signals();
            host.enter_thread();
        });
        match begun {
            Ok(begun) => drop(self.events.log.set(begun)),
            Err(error) => {
                log::warn(messages::LOG_FAILED, format_args!("{error}; nothing is logged"))
            }
        }
        self.log_paces_before();
        let nodes = hosts.iter().collect::<BTreeSet<_>>().len();
        let (ranks, prefix) = (self.site.size, self.site.prefix.display());
        self.event(|| Event::new("START").note(format!("{ranks} ranks, {nodes} nodes, {prefix}")));
    }

    pub(crate) fn logs(&self) -> bool {
        self.events.log.get().is_some() && !self.is_child()
    }

    /// Takes an event: it is logged if there is a log, and noted in the run record.
    pub(crate) fn event(&self, event: impl FnOnce() -> Event) {
        let log = self.events.log.get();
        if self.is_child() || log.is_none() && !self.events.run.is_kept() {
            return;
        }
        let event = event();
        self.events.run.note(&event);
        if let Some(log) = log {
            log.tell(event);
        }
    }

    /// Lets `more` add what else there is to say.
    pub(crate) fn dataset_event(
        &self,
        what: &'static str,
        key: &DatasetKey,
        id: u64,
        more: impl FnOnce(Event) -> Event,
    ) {
        self.event(|| more(Event::new(what).dataset(id, self.title(key))));
    }

    pub(crate) fn flush_begun(&self, key: &DatasetKey, id: u64) {
        self.flushes_begun().insert(id, (key.clone(), Instant::now()));
        self.dataset_event("FLUSH_BEGIN", key, id, |event| event.note("in the background"));
    }

    pub(crate) fn log_left(&self, left: &Left) {
        deletions(left, OUTSIDE_WINDOW).for_each(|one| self.event(|| one));
    }

    /// Logs that the prefix has a dataset since a rank of another node has opened a file of it.
    pub(crate) fn log_wanted(&self, id: u64) {
        self.event(|| {
            let record = self.site.filemap.get_id(id);
            let title = record.map(|record| record.key.title()).unwrap_or_default();
            Event::new("PUBLISHED").dataset(id, title).note("another node reads it")
        });
    }

    pub(crate) fn flushes_begun(&self) -> MutexGuard<'_, BTreeMap<u64, (DatasetKey, Instant)>> {
        lock(&self.events.flushes)
    }

    /// Logs what went straight to the prefix on all ranks; the run record has a place of its own
    /// for it.
    pub(crate) fn log_passed(&self, passed: &BTreeMap<String, RunPassed>) {
        let Some(log) = self.events.log.get().filter(|_| !self.is_child()) else { return };
        for (reason, one) in passed {
            let event = Event::new("PASSED").dataset(0, one.example.clone());
            log.tell(event.size(one.files, one.bytes).note(reason.clone()));
        }
    }

    fn log_paces_before(&self) {
        let Some(log) = self.events.log.get() else { return };
        let before = RunRecord::read(&self.site.state_dir().join(RunRecord::NAME));
        let Some(before) = before.ok().flatten().filter(|before| before.end.is_none()) else {
            return;
        };
        let time = before.updated as f64;
        pace_events(&before).into_iter().for_each(|event| log.tell(Event { time, ..event }));
    }

    /// Writes all events, or leaves the log behind.
    pub(crate) fn end_log(&self, what: &'static str) {
        let Some(log) = self.events.log.get().filter(|_| !self.is_child()) else { return };
        let paces = self.events.run.seen(pace_events).unwrap_or_default();
        paces.into_iter().for_each(|event| log.tell(event));
        let begin = self.events.begin.get_or_init(Instant::now);
        log.tell(Event::new(what).seconds(begin.elapsed().as_secs_f64()));
        log.close(CLOSE_LIMIT, self.site.settings.is_chosen(keys::LOG_ENABLE.param.name));
    }
}
