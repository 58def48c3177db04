//! Files that are never quiet: logs that stay open while checkpoints come and go, or that are
//! appended to all the time. No checkpoint can wait for them, and none needs them: what the PFS has
//! of them is what the program would find without us.
//!
//! Nothing is concluded from time. What counts is how many checkpoints of its series have begun
//! since a file was opened, and how often it grew although no checkpoint was begun.
//!
//! The rank that has such a file finds it; a conference tells all ranks its template (the name with
//! the id masked), and each leaves the files of that template alone ([`Logs::silence`]) as soon
//! as it can take them out of the cache.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::state::dataset::{LocalDataset, Standing};
use crate::machine::state::ledger::MachineLedger;
use crate::machine::terms::answers::{Intent, LeftAlone};
use crate::machine::terms::keys::{DatasetKey, FileRef};
use crate::machine::terms::knowledge::Knowledge;
use crate::machine::terms::names::name_hash;
use crate::machine::terms::report::Report;

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

/// How often a file was appended to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Appends {
    /// Its size when it was opened to be changed; `None` if it is not, or was unknown.
    pub size: Option<u64>,
    /// Checkpoints that had begun at the last append.
    pub begun: u64,
    /// Sync points passed at the last append.
    pub last: u64,
    /// Appends since then, each after another sync point.
    pub times: u32,
    /// All that no checkpoint explains.
    pub unexplained: u32,
}

/// Such files of a series. A template is the [`name_hash`] of a name with the id masked.
#[derive(Debug, Clone, Default)]
struct SeriesLogs {
    /// Templates that are never quiet, as all ranks know.
    templates: BTreeSet<u64>,
    /// Those that this rank leaves alone.
    silenced: BTreeSet<u64>,
    /// Files that are appended to, by name.
    appends: BTreeMap<String, Appends>,
    /// Names and templates found since the last report.
    news: Vec<(String, u64)>,
}

/// The matter of files that are never quiet.
#[derive(Debug, Clone)]
pub struct Logs {
    series: Vec<SeriesLogs>,
}

impl Logs {
    /// Begins with what earlier launches have found in each of `count` series.
    pub fn new(count: usize, knowledge: &[Knowledge]) -> Self {
        let series = (0..count).map(|index| {
            let templates = knowledge.get(index).map(|one| one.restless.clone());
            let templates = templates.unwrap_or_default();
            SeriesLogs { silenced: templates.clone(), templates, ..SeriesLogs::default() }
        });
        Logs { series: series.collect() }
    }

    /// Returns what is equal on all ranks, by series.
    pub fn shared(&self) -> impl Iterator<Item = &BTreeSet<u64>> {
        self.series.iter().map(|series| &series.templates)
    }

    /// Returns what is to be stored of a series.
    pub fn templates(&self, series: usize) -> &BTreeSet<u64> {
        &self.series[series].templates
    }

    /// Takes what this rank has found, for a report.
    pub fn take_news(&mut self, series: usize) -> Vec<(String, u64)> {
        std::mem::take(&mut self.series[series].news)
    }

    /// Notes that the program is about to change `file` in place, or to write it anew.
    /// `true`: a checkpoint of which nothing else is known yet goes on in it after a sync point.
    pub fn expect_append(
        &mut self,
        ledger: &MachineLedger,
        file: &FileRef,
        intent: Intent,
    ) -> bool {
        let has_id = ledger.config.series[file.series].has_id;
        if intent.rewrites() {
            let appended = self.series[file.series].appends.remove(&file.name);
            let inside = appended.is_some_and(|appended| appended.unexplained > 0);
            let inside = inside || ledger.went_on(file);
            return inside && !has_id && ledger.shared.series[file.series].routing.watches();
        }
        let matters = match (has_id, &file.id) {
            (false, _) => intent.appends,
            (true, None) => true,
            (true, Some(id)) => Self::is_outdated(ledger, file.series, id),
        };
        if matters {
            let size = Self::holder_bytes(ledger, file);
            self.series[file.series].appends.entry(file.name.clone()).or_default().size = size;
        }
        false
    }

    fn holder_bytes(ledger: &MachineLedger, file: &FileRef) -> Option<u64> {
        let mut datasets = ledger.series[file.series].datasets.iter().rev();
        let holder = datasets.find(|dataset| dataset.holds(&file.name))?;
        holder.files.get(&file.name).map(|held| held.bytes)
    }

    /// A later checkpoint than that of `id` has begun.
    fn is_outdated(ledger: &MachineLedger, series: usize, id: &str) -> bool {
        let mut datasets = ledger.series[series].datasets.iter().rev();
        let newest = datasets.find(|dataset| !ledger.is_floating(&dataset.key));
        newest.is_some_and(|newest| {
            let restored = ledger.shared.find(&newest.key).is_some_and(|shared| shared.restored);
            newest.key.id != id && !restored
        })
    }

    /// Notes that the file was closed, with `bytes` bytes.
    pub fn note_append(
        &mut self,
        ledger: &mut MachineLedger,
        key: &DatasetKey,
        name: &str,
        bytes: u64,
    ) {
        let count = ledger.agreement.count;
        let has_id = ledger.config.series[key.series].has_id;
        let local = &ledger.series[key.series];
        let begun = local.begun;
        let Some(file) = local.find(key).and_then(|dataset| dataset.files.get(name)) else {
            return;
        };
        let (bare, template) = (file.named.bare, file.named.masked);
        let Some(appends) = self.series[key.series].appends.get_mut(name) else { return };
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
            self.report_loud(ledger, key.series, name.to_string(), template);
        }
    }

    /// Finds the files that stay open while checkpoints come and go.
    pub fn find_open_over(&mut self, ledger: &mut MachineLedger) {
        let mut found = Vec::new();
        for (index, series) in ledger.series.iter().enumerate() {
            let open = |dataset: &&LocalDataset| ledger.status(&dataset.key) == Standing::Open;
            for (name, file) in series.datasets.iter().filter(open).flat_map(|one| &one.files) {
                if file.open > 0 && series.begun - file.open_since >= OPEN_OVER {
                    found.push((index, name.clone(), file.named.masked));
                }
            }
        }
        found.into_iter().for_each(|(series, name, template)| {
            self.report_loud(ledger, series, name, template);
        });
    }

    fn report_loud(
        &mut self,
        ledger: &mut MachineLedger,
        series: usize,
        name: String,
        template: u64,
    ) {
        let own = &mut self.series[series];
        let news = &mut own.news;
        if !own.templates.contains(&template) && !news.iter().any(|(_, other)| *other == template) {
            news.push((name, template));
            ledger.agreement.changed(1);
        }
    }

    /// Takes in which files the ranks have found restless; the same on all of them.
    pub fn listen_loud(&mut self, ledger: &mut MachineLedger, reports: &[Report]) -> Vec<Restless> {
        let mut heard = Vec::new();
        for (series, news) in reports.iter().flat_map(|report| report.series.iter().enumerate()) {
            for (name, template) in &news.restless {
                if self.series[series].templates.insert(*template) {
                    ledger.shared.series[series].learned = true;
                    heard.push(Restless { series, name: name.clone(), template: *template });
                }
            }
        }
        heard
    }

    /// Does what `Machine::restless_ahead` does.
    pub fn restless_ahead(&self) -> Vec<(usize, u64)> {
        let ahead = self.series.iter().enumerate().flat_map(|(at, own)| {
            own.templates.difference(&own.silenced).map(move |template| (at, *template))
        });
        ahead.collect()
    }

    /// Does what `Machine::silence` does.
    pub fn silence(
        &mut self,
        ledger: &mut MachineLedger,
        series: usize,
        template: u64,
    ) -> Vec<LeftAlone> {
        let open: Vec<DatasetKey> = {
            let open = ledger.series[series].datasets.iter();
            let open = open.filter(|dataset| ledger.status(&dataset.key) == Standing::Open);
            open.map(|dataset| dataset.key.clone()).collect()
        };
        let local = &mut ledger.series[series];
        let mut gone = Vec::new();
        for dataset in local.datasets.iter_mut().filter(|dataset| open.contains(&dataset.key)) {
            let mut names = Vec::new();
            dataset.files.retain(|name, file| {
                if file.named.masked == template {
                    names.push(name.clone());
                }
                file.named.masked != template
            });
            if !names.is_empty() {
                let revoke = std::mem::take(&mut dataset.prepared);
                gone.push(LeftAlone { key: dataset.key.clone(), names, revoke });
            }
        }
        self.series[series].silenced.insert(template);
        self.series[series].appends.clear();
        ledger.agreement.changed(1);
        gone
    }

    /// Does what `Machine::is_silenced` does.
    pub fn is_silenced(&self, series: usize, template: u64) -> bool {
        self.series[series].silenced.contains(&template)
    }

    /// Tells whether the file is left alone: see [`Logs::is_silenced`].
    pub fn is_left_alone(&self, file: &FileRef) -> bool {
        !self.series[file.series].silenced.is_empty()
            && self.is_silenced(file.series, name_hash(&file.masked))
    }
}
