//! The run record on the prefix (`<prefix>/.scr/run.scr`), for people who look from outside.
//!
//! Rank 0 keeps it (`report/run_book.rs`); the helper thread writes it at most once a second.
//! Nobody waits for it.

use std::collections::BTreeMap;

use crate::account::run_book::DatasetNow;
use crate::launch::host::Door;
use crate::log;
use crate::machine::DatasetState;
use crate::params::Setting;
use crate::records::{Record as _, Refusal, RunEnd, RunNode, RunRecord};
use crate::session::flush::Flusher;
use crate::system::unix_seconds;

impl Flusher {
    /// Begins the record, on rank 0. Local.
    pub(crate) fn begin_run(&self, hosts: &[String]) {
        if self.site.rank != 0 {
            return;
        }
        let (site, settings) = (&self.site, &self.site.settings);
        let (user, job) = site.layout.user_and_job();
        let mut nodes: BTreeMap<String, RunNode> = BTreeMap::new();
        for host in hosts {
            nodes.entry(host.clone()).or_default().ranks += 1;
        }
        let chosen = settings.all().filter(|one| settings.is_chosen(&one.named.name()));
        let setting =
            |one: &Setting| (one.named.name(), (one.origin.text.clone(), one.origin.place.clone()));
        // SCR takes part in this one.
        let _ = std::fs::remove_file(site.state_dir().join(Refusal::NAME));
        let by_calls = site.host.door() == Door::Calls;
        let record = RunRecord {
            launch: format!("{:016x}", self.rank.launch),
            user,
            job,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mpi: site.host.mpi(),
            ranks: site.size as u64,
            started: unix_seconds(),
            config: settings.user_file.clone(),
            settings: chosen.map(setting).chain(settings.lines_of_program()).collect(),
            patterns: if by_calls { String::new() } else { self.rank.series.in_force() },
            protection: site.descriptors.in_words(),
            warnings: settings
                .warnings
                .iter()
                .cloned()
                .chain(site.descriptors.sentences())
                .collect(),
            nodes,
            ..RunRecord::default()
        };
        self.rank.events.run.begin(record, hosts.to_vec());
    }

    pub(crate) fn record_run_in_time(&self) {
        if self.rank.events.run.is_due() {
            self.record_run();
        }
    }

    pub(crate) fn record_run(&self) {
        if self.rank.is_child() || !self.rank.events.run.is_kept() {
            return;
        }
        let look = || (self.datasets_seen(), self.rank.tally.passed_here());
        self.rank.events.run.write(look, |record| {
            let path = self.site.state_dir().join(RunRecord::NAME);
            if let Err(error) = record.write(&path) {
                log::message(1, format_args!("{error}; scr status does not see the run"));
            }
        });
    }

    /// Writes `END` or `EXIT` into the record. Local.
    pub(crate) fn end_run(&self, how: &str) {
        let end = RunEnd { how: how.to_owned(), time: unix_seconds() };
        self.rank.events.run.change(|record| record.end = Some(end));
        self.record_run();
    }

    fn datasets_seen(&self) -> Vec<DatasetNow> {
        let mut flushing: Vec<u64> = self.flushes().keys().copied().collect();
        flushing.extend(self.background().as_ref().map(|(id, _)| *id));
        let state = self.node.state_to_look();
        let all = (0..self.rank.series.series().len()).flat_map(|at| state.machine.datasets(at));
        let sealed = all.filter(|one| {
            one.id > 0 && matches!(one.state, DatasetState::Provisional | DatasetState::Confirmed)
        });
        let seen = sealed.map(|one| DatasetNow {
            id: one.id,
            name: self.rank.title(&one.key),
            complete: one.state == DatasetState::Confirmed,
            due: one.due,
            on_prefix: one.flushed || one.on_prefix,
            flushing: flushing.contains(&one.id),
            catalog: state
                .view
                .layer(&one.key)
                .filter(|_| !one.on_prefix)
                .and_then(|layer| layer.catalog().cloned()),
        });
        seen.collect()
    }
}
