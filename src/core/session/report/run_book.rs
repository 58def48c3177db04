//! The run record on the prefix (`<prefix>/.scr/run.scr`): what this launch is and how far it has
//! come, for people who look from outside.
//!
//! Rank 0 keeps it. Events change it in memory; it is written at the start, at the end, and between
//! them by the helper thread, about once a second at most and only when something has changed.
//! Nobody waits for it, and nothing rests on it: an error is a message for those who want details.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::events::{is_chosen, user_and_job};
use crate::cache::NodeCatalog;
use crate::events::Event;
use crate::log;
use crate::records::{Record as _, Refusal, RunDataset, RunEnd, RunEvent, RunNode, RunRecord};
use crate::session::machine::DatasetState;
use crate::session::rank::host::Door;
use crate::session::rank::runtime::Session;
use crate::system::unix_seconds;

/// Between two times that it is written.
const PERIOD: Duration = Duration::from_secs(1);
/// Events that it has.
const EVENTS_MAX: usize = 32;
/// Datasets that it has; those in the caches are never left out.
const DATASETS_MAX: usize = 64;

/// The record of rank 0; nothing on other ranks.
#[derive(Default)]
pub(in crate::session) struct RunBook {
    kept: Mutex<Option<Kept>>,
    /// Held while the record is written, so that the last word is the last.
    writing: Mutex<()>,
}

struct Kept {
    record: RunRecord,
    /// By rank.
    hosts: Vec<String>,
    /// Files and bytes that each node has of a dataset, by id, as of its last seal.
    shares: BTreeMap<u64, BTreeMap<String, (u64, u64)>>,
    changed: bool,
    written: Option<Instant>,
}

/// A dataset as the machine has it now.
struct Seen {
    id: u64,
    name: String,
    complete: bool,
    due: bool,
    on_prefix: bool,
    flushing: bool,
    catalog: Option<NodeCatalog>,
}

impl RunBook {
    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a record here.
    pub fn is_kept(&self) -> bool {
        self.kept().is_some()
    }

    /// Something has happened.
    pub fn note(&self, event: &Event) {
        if let Some(kept) = &mut *self.kept() {
            kept.changed = true;
            if let Some((id, _)) = event.dataset.as_ref().filter(|_| event.what == "SEALED") {
                kept.shares.remove(id);
            }
            apply(&mut kept.record, event);
        }
    }

    /// Changes the record, if there is one here.
    pub fn change(&self, change: impl FnOnce(&mut RunRecord)) {
        if let Some(kept) = &mut *self.kept() {
            kept.changed = true;
            change(&mut kept.record);
        }
    }

    /// Whether it is time to write what has changed.
    fn is_due(&self) -> bool {
        let is_due = |kept: &Kept| {
            kept.changed && kept.written.is_none_or(|written| written.elapsed() >= PERIOD)
        };
        self.kept().as_ref().is_some_and(is_due)
    }
}

impl Session {
    /// Begins the record of this launch, whose ranks run on `hosts`. For rank 0; local.
    pub(in crate::session) fn begin_run(&self, hosts: &[String]) {
        let (site, settings) = (&self.site, &self.site.settings);
        let (user, job) = user_and_job(&site.layout.control_dir);
        let mut nodes: BTreeMap<String, RunNode> = BTreeMap::new();
        for host in hosts {
            nodes.entry(host.clone()).or_default().ranks += 1;
        }
        let chosen = settings.all().filter(|one| is_chosen(settings, &one.named.name()));
        let setting = |one: &crate::params::Setting| {
            (one.named.name(), (one.origin.text.clone(), one.origin.place.clone()))
        };
        // SCR takes part in this one.
        let _ = std::fs::remove_file(site.state_dir().join(Refusal::NAME));
        let by_calls = site.host.door() == Door::Calls;
        let record = RunRecord {
            launch: format!("{:016x}", self.launch),
            user,
            job,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mpi: site.host.mpi(),
            ranks: site.size as u64,
            started: unix_seconds(),
            config: settings.user_file.clone(),
            settings: chosen.map(setting).collect(),
            patterns: if by_calls { String::new() } else { self.series.in_force() },
            protection: self.protection_in_words(),
            warnings: settings.warnings.iter().chain(&site.descriptors.warnings).cloned().collect(),
            nodes,
            ..RunRecord::default()
        };
        let hosts = hosts.to_vec();
        let shares = BTreeMap::new();
        *self.events.run.kept() =
            Some(Kept { record, hosts, shares, changed: true, written: None });
    }

    /// A clause for each scheme in use.
    fn protection_in_words(&self) -> Vec<String> {
        let all = &self.site.descriptors;
        let one = |scheme: &crate::descriptors::RedundancyDesc| {
            let store = scheme.base.display();
            let when = match (scheme.interval, scheme.output) {
                (_, true) => "output".to_owned(),
                (1, _) => "every checkpoint".to_owned(),
                (interval, _) => format!("every checkpoint that {interval} divides"),
            };
            format!("{} in {store}, failure group {}: {when}", scheme.scheme.name(), scheme.group)
        };
        all.redundancy.iter().filter(|scheme| scheme.enabled).map(one).collect()
    }

    /// Writes the record, if something has changed and the last time is a while ago. Local.
    pub(in crate::session) fn record_run_in_time(&self) {
        if self.events.run.is_due() {
            self.record_run();
        }
    }

    /// Writes the record, if it is ours to write. Local.
    pub(in crate::session) fn record_run(&self) {
        if self.is_child() || !self.events.run.is_kept() {
            return;
        }
        let book = &self.events.run;
        let _writing = book.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, here) = (self.datasets_seen(), self.tally.passed_here());
        let record = match &mut *book.kept() {
            None => return,
            Some(kept) => {
                kept.take(seen);
                if !kept.record.passed_of_all {
                    kept.record.passed = here;
                }
                kept.record.updated = unix_seconds();
                (kept.changed, kept.written) = (false, Some(Instant::now()));
                kept.record.clone()
            }
        };
        if let Err(error) = record.write(&self.site.state_dir().join(RunRecord::NAME)) {
            log::message(1, format_args!("{error}; scr status does not see how far the run is"));
        }
    }

    /// The run is over: `how` is `END` or `EXIT`.
    pub(super) fn end_run(&self, how: &str) {
        let end = RunEnd { how: how.to_owned(), time: unix_seconds() };
        self.events.run.change(|record| record.end = Some(end));
        self.record_run();
    }

    fn datasets_seen(&self) -> Vec<Seen> {
        let mut flushing: Vec<u64> = self.flushes().keys().copied().collect();
        flushing.extend(self.background().as_ref().map(|(id, _)| *id));
        let state = self.state_to_look();
        let all = (0..self.series.series().len()).flat_map(|at| state.machine.datasets(at));
        let sealed = all.filter(|one| {
            one.id > 0 && matches!(one.state, DatasetState::Provisional | DatasetState::Confirmed)
        });
        let seen = sealed.map(|one| Seen {
            id: one.id,
            name: self.title(&one.key),
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

impl Kept {
    /// Brings the datasets, and what each node has of them, up to date.
    fn take(&mut self, seen: Vec<Seen>) {
        for dataset in self.record.datasets.values_mut() {
            (dataset.in_cache, dataset.flushing) = (false, false);
        }
        let mut shares = BTreeMap::new();
        for one in seen {
            let dataset = self.record.datasets.entry(one.id).or_default();
            (dataset.name, dataset.complete, dataset.due) = (one.name, one.complete, one.due);
            dataset.in_cache = one.catalog.is_some();
            dataset.on_prefix |= one.on_prefix;
            dataset.flushing = one.flushing;
            let Some(catalog) = one.catalog else { continue };
            (dataset.files, dataset.bytes) = catalog.size();
            let known = self.shares.remove(&one.id);
            shares.insert(one.id, known.unwrap_or_else(|| share_of(&catalog, &self.hosts)));
        }
        self.shares = shares;
        for (host, node) in &mut self.record.nodes {
            let has = || self.shares.values().filter_map(|share| share.get(host));
            node.files = has().map(|(files, _)| files).sum();
            node.bytes = has().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        }
        let mut more = self.record.datasets.len().saturating_sub(DATASETS_MAX);
        self.record.datasets.retain(|_, dataset| {
            let leaves = more > 0 && !dataset.in_cache;
            more -= usize::from(leaves);
            !leaves
        });
    }
}

/// Files and bytes that each node has in its cache.
fn share_of(catalog: &NodeCatalog, hosts: &[String]) -> BTreeMap<String, (u64, u64)> {
    let mut share = BTreeMap::<String, (u64, u64)>::new();
    for entry in catalog.entries().filter(|entry| !entry.meta.on_prefix) {
        let Some(host) = hosts.get(entry.rank) else { continue };
        if !share.contains_key(host) {
            share.insert(host.clone(), (0, 0));
        }
        if let Some((files, bytes)) = share.get_mut(host) {
            (*files, *bytes) = (*files + 1, bytes.saturating_add(entry.meta.size));
        }
    }
    share
}

/// What an event changes in the record.
fn apply(record: &mut RunRecord, event: &Event) {
    let mut text: Vec<String> = Vec::new();
    if let Some((id, name)) = &event.dataset {
        text.push(if *id > 0 { format!("{name} (dataset {id})") } else { name.clone() });
    }
    text.extend(event.seconds.map(|seconds| format!("{seconds:.2} s")));
    text.extend(event.size.map(|(files, bytes)| format!("{files} files, {bytes} bytes")));
    text.extend(Some(event.note.clone()).filter(|note| !note.is_empty()));
    let what = event.what.clone().into_owned();
    record.events.push(RunEvent { time: event.time, what, text: text.join("; ") });
    let more = record.events.len().saturating_sub(EVENTS_MAX);
    record.events.drain(..more);
    let Some((id, name)) = event.dataset.as_ref().filter(|(id, _)| *id > 0) else { return };
    let known = match &*event.what {
        "SEALED" | "OFFERED" => record
            .datasets
            .entry(*id)
            .or_insert_with(|| RunDataset { name: name.clone(), ..RunDataset::default() }),
        _ => match record.datasets.get_mut(id) {
            Some(known) => known,
            None => return,
        },
    };
    match &*event.what {
        "SEALED" => {
            (known.sealed, known.seal_seconds) = (event.time as u64, event.seconds);
            (known.files, known.bytes) = event.size.unwrap_or_default();
        }
        "OFFERED" => {
            known.sealed = event.time as u64;
            (known.files, known.bytes) = event.size.unwrap_or_default();
        }
        "CONFIRMED" => known.complete = true,
        "FLUSH_BEGIN" => (known.flushing, known.failed) = (true, None),
        "FLUSH_END" => {
            (known.flushing, known.on_prefix, known.failed) = (false, true, None);
            known.flush_seconds = event.seconds;
        }
        "FLUSH_FAILED" => {
            (known.flushing, known.failed) = (false, Some(event.note.clone()));
        }
        "EVICTED" => known.in_cache = false,
        "DELETED" => known.on_prefix = false,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_tell_how_far_a_dataset_is() {
        let mut record = RunRecord::default();
        let mut tell = |event: Event| apply(&mut record, &event);
        let of = |what: &'static str| Event::new(what).dataset(3, "checkpoint 30");
        tell(of("FLUSH_END").seconds(9.0));
        tell(of("SEALED").seconds(0.5).size(4, 4096));
        tell(of("CONFIRMED"));
        tell(of("FLUSH_BEGIN"));
        tell(of("FLUSH_FAILED").note("no space left"));
        let one = &record.datasets[&3];
        assert_eq!((one.files, one.bytes, one.seal_seconds), (4, 4096, Some(0.5)));
        assert_eq!(one.failed.as_deref(), Some("no space left"));
        assert!(one.complete && !one.flushing && !one.on_prefix);
        apply(&mut record, &of("FLUSH_END").seconds(2.0));
        let one = &record.datasets[&3];
        assert_eq!((one.flush_seconds, &one.failed, one.on_prefix), (Some(2.0), &None, true));
        assert_eq!(record.events[1].text, "checkpoint 30 (dataset 3); 0.50 s; 4 files, 4096 bytes");
        for _ in 0..2 * EVENTS_MAX {
            apply(&mut record, &Event::new("VOIDED"));
        }
        assert_eq!((record.events.len(), record.datasets.len()), (EVENTS_MAX, 1));
    }

    #[test]
    fn old_datasets_leave_the_record_and_cached_ones_stay() {
        let datasets = (1..=100).map(|id| (id, RunDataset::default())).collect();
        let record = RunRecord { datasets, ..RunRecord::default() };
        let (hosts, shares) = (vec!["n1".into()], BTreeMap::new());
        let mut kept = Kept { record, hosts, shares, changed: true, written: None };
        let catalog = NodeCatalog::of(&crate::cache::Catalog::default(), &[0]);
        let name = "checkpoint 1".to_owned();
        kept.take(vec![Seen {
            id: 1,
            name,
            complete: true,
            due: false,
            on_prefix: false,
            flushing: false,
            catalog: Some(catalog),
        }]);
        let ids: Vec<u64> = kept.record.datasets.keys().copied().collect();
        assert_eq!((ids.len(), ids[0], ids[1]), (DATASETS_MAX, 1, 38));
    }
}
