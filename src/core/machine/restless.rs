//! Files that are never quiet: logs that stay open while checkpoints come and go, or that are
//! appended to all the time. No checkpoint can wait for them, and none needs them: what the PFS has
//! of them is what the program would find without us.
//!
//! Nothing is concluded from time. What counts is how many checkpoints of its series have begun
//! since a file was opened, and how often it grew although no checkpoint was begun.
//!
//! The rank that has such a file finds it; a conference tells all ranks its template (the name with
//! the id masked), and each leaves the files of that template alone ([`Machine::silence`]) as soon
//! as it can take them out of the cache.

use super::Machine;
use super::keys::{DatasetKey, FileRef, Intent};
use super::knowledge::{Why, name_hash};
use super::local::{LocalDataset, Status};
use super::report::Report;

/// Checkpoints that begin while a file stays open.
const OPEN_OVER: u64 = 4;

/// Times that a file without id grows for one checkpoint: before it and after it.
const APPENDS_EACH: u32 = 2;

/// Times that a file grows although that is no part of a checkpoint.
const APPENDS_MAX: u32 = 8;

/// The same in a series without ids, where each makes a generation of its own.
const APPENDS_MAX_WITHOUT_ID: u32 = 2;

/// A name that is never quiet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restless {
    /// Its series.
    pub series: usize,
    /// Relative to the prefix.
    pub name: String,
    /// [`name_hash`] of it with the id masked: what it stands for.
    pub template: u64,
}

/// Files that have left a dataset on this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silenced {
    /// The dataset, which is in progress.
    pub key: DatasetKey,
    /// The files.
    pub names: Vec<String>,
    /// This rank's record says Prepared: set it back to Open.
    pub revoke: bool,
}

impl Machine {
    /// Notes that the program is about to change `file` in place, or to write it anew.
    pub(super) fn expect_append(&mut self, file: &FileRef, intent: Intent) {
        let has_id = self.config.series[file.series].has_id;
        if intent.rewrites() {
            let appended = self.series[file.series].appends.remove(&file.name);
            let inside = appended.is_some_and(|appended| appended.unexplained > 0);
            let inside = inside || self.went_on(file);
            if inside && !has_id && self.shared.series[file.series].routing.watches() {
                // A checkpoint that goes on after a sync point: see `is_changed_again`.
                self.mark_unsafe(file, Why::GoesOn);
            }
            return;
        }
        let matters = match (has_id, &file.id) {
            (false, _) => intent.appends,
            (true, None) => true,
            (true, Some(id)) => self.is_outdated(file.series, id),
        };
        if matters {
            let size = self.holder_bytes(file);
            self.series[file.series].appends.entry(file.name.clone()).or_default().size = size;
        }
    }

    /// A later checkpoint than that of `id` has begun.
    fn is_outdated(&self, series: usize, id: &str) -> bool {
        let mut datasets = self.series[series].datasets.iter().rev();
        let newest = datasets.find(|dataset| !self.is_floating(&dataset.key));
        newest.is_some_and(|newest| {
            let restored = self.shared.find(&newest.key).is_some_and(|shared| shared.restored);
            newest.key.id != id && !restored
        })
    }

    fn holder_bytes(&self, file: &FileRef) -> Option<u64> {
        let mut datasets = self.series[file.series].datasets.iter().rev();
        let holder = datasets.find(|dataset| dataset.holds(&file.name))?;
        holder.files.get(&file.name).map(|held| held.bytes)
    }

    /// Notes that the file was closed, with `bytes` bytes.
    pub(super) fn note_append(&mut self, key: &DatasetKey, name: &str, bytes: u64) {
        let count = self.agreement.count;
        let has_id = self.config.series[key.series].has_id;
        let local = &mut self.series[key.series];
        let begun = local.begun;
        let Some(file) = local.find(key).and_then(|dataset| dataset.files.get(name)) else {
            return;
        };
        let (bare, template) = (file.bare, file.masked);
        let Some(appends) = local.appends.get_mut(name) else { return };
        let grown = appends.size.take().is_some_and(|size| bytes > size);
        if !grown || (appends.times > 0 && appends.last == count) {
            return;
        }
        if appends.begun != begun {
            (appends.begun, appends.times) = (begun, 0);
        }
        (appends.last, appends.times) = (count, appends.times + 1);
        let explained = has_id && bare && appends.times <= APPENDS_EACH;
        appends.unexplained += u32::from(!explained);
        let most = if has_id { APPENDS_MAX } else { APPENDS_MAX_WITHOUT_ID };
        if appends.unexplained > most {
            self.report_loud(key.series, name.to_string(), template);
        }
    }

    /// Finds the files that stay open while checkpoints come and go.
    pub(super) fn find_open_over(&mut self) {
        let mut found = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            let open = |dataset: &&LocalDataset| self.status(&dataset.key) == Status::Open;
            for (name, file) in series.datasets.iter().filter(open).flat_map(|one| &one.files) {
                if file.open > 0 && series.begun - file.open_since >= OPEN_OVER {
                    found.push((index, name.clone(), file.masked));
                }
            }
        }
        found.into_iter().for_each(|(series, name, template)| {
            self.report_loud(series, name, template);
        });
    }

    fn report_loud(&mut self, series: usize, name: String, template: u64) {
        let news = &mut self.series[series].news.restless;
        let known = self.shared.series[series].restless.contains(&template);
        if !known && !news.iter().any(|(_, other)| *other == template) {
            news.push((name, template));
            self.agreement.changed(1);
        }
    }

    /// Takes in which files the ranks have found restless; the same on all of them.
    pub(super) fn listen_loud(&mut self, reports: &[Report]) -> Vec<Restless> {
        let mut heard = Vec::new();
        for (series, news) in reports.iter().flat_map(|report| report.series.iter().enumerate()) {
            let shared = &mut self.shared.series[series];
            for (name, template) in &news.restless {
                if shared.restless.insert(*template) {
                    shared.learned = true;
                    heard.push(Restless { series, name: name.clone(), template: *template });
                }
            }
        }
        heard
    }

    /// Templates, with their series, that this rank has still to leave alone.
    #[must_use]
    pub fn restless_ahead(&self) -> Vec<(usize, u64)> {
        let series = self.shared.series.iter().zip(&self.series).enumerate();
        let ahead = series.flat_map(|(at, (shared, local))| {
            shared.restless.difference(&local.silenced).map(move |template| (at, *template))
        });
        ahead.collect()
    }

    /// Takes the files of the template out of the datasets for good: those that were sealed stay
    /// sealed, but are not flushed any more. The caller has brought what the cache held to the PFS.
    pub fn silence(&mut self, series: usize, template: u64) -> Vec<Silenced> {
        let open: Vec<DatasetKey> = {
            let open = self.series[series].datasets.iter();
            let open = open.filter(|dataset| self.status(&dataset.key) == Status::Open);
            open.map(|dataset| dataset.key.clone()).collect()
        };
        let local = &mut self.series[series];
        let mut gone = Vec::new();
        for dataset in local.datasets.iter_mut().filter(|dataset| open.contains(&dataset.key)) {
            let mut names = Vec::new();
            dataset.files.retain(|name, file| {
                if file.masked == template {
                    names.push(name.clone());
                }
                file.masked != template
            });
            if !names.is_empty() {
                let revoke = std::mem::take(&mut dataset.prepared);
                gone.push(Silenced { key: dataset.key.clone(), names, revoke });
            }
        }
        local.silenced.insert(template);
        local.appends.clear();
        self.agreement.changed(1);
        gone
    }

    /// Tells whether files of the template are left alone on this rank.
    #[must_use]
    pub fn is_silenced(&self, series: usize, template: u64) -> bool {
        self.series[series].silenced.contains(&template)
    }

    /// Tells whether the file is left alone: see [`Machine::is_silenced`].
    pub(super) fn is_left_alone(&self, file: &FileRef) -> bool {
        !self.series[file.series].silenced.is_empty()
            && self.is_silenced(file.series, name_hash(&file.masked))
    }
}
