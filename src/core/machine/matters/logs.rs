//! Files that are never quiet: logs that stay open, or are appended to, all the time. No checkpoint
//! can wait for them, and none needs them. Nothing is concluded from time, but from the checkpoints
//! that begin while a file is open, and its growth beside any checkpoint. A conference tells all
//! ranks its template (the name with the id masked), and each leaves such files alone as soon as it
//! can take them out of the cache.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::state::{LocalDataset, RunFacts, Status};
use crate::machine::terms::{DatasetKey, FileRef, Intent, Knowledge, LeftAlone, Report, name_hash};

/// Checkpoints that begin while a file stays open.
const OPEN_OVER: u64 = 4;

/// Times that a file without id grows for one checkpoint: before it and after it.
const APPENDS_EACH: u32 = 2;

/// Times that a file grows although that is no part of a checkpoint.
const APPENDS_MAX: u32 = 8;

/// The same without ids, where each growth makes a generation of its own.
const APPENDS_MAX_WITHOUT_ID: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restless {
    pub series: usize,
    pub name: String,
    pub template: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Appends {
    /// Its size when it was opened to be changed; `None` if it is not, or was unknown.
    pub size: Option<u64>,
    pub begun: u64,
    pub last: u64,
    /// Appends since then, each after another sync point.
    pub times: u32,
    /// Appends that no checkpoint explains.
    pub unexplained: u32,
}

#[derive(Debug, Clone, Default)]
struct SeriesLogs {
    /// Templates that are never quiet, as all ranks know.
    templates: BTreeSet<u64>,
    /// Templates that this rank leaves alone.
    silenced: BTreeSet<u64>,
    appends: BTreeMap<String, Appends>,
    news: Vec<(String, u64)>,
}

#[derive(Debug, Clone)]
pub struct Logs {
    series: Vec<SeriesLogs>,
}

impl Logs {
    pub fn new(count: usize, knowledge: &[Knowledge]) -> Self {
        let series = (0..count).map(|index| {
            let templates = knowledge.get(index).map(|one| one.restless.clone());
            let templates = templates.unwrap_or_default();
            SeriesLogs { silenced: templates.clone(), templates, ..SeriesLogs::default() }
        });
        Logs { series: series.collect() }
    }

    pub fn shared(&self) -> impl Iterator<Item = &BTreeSet<u64>> {
        self.series.iter().map(|series| &series.templates)
    }

    pub fn templates(&self, series: usize) -> &BTreeSet<u64> {
        &self.series[series].templates
    }

    pub fn take_news(&mut self, series: usize) -> Vec<(String, u64)> {
        std::mem::take(&mut self.series[series].news)
    }

    /// Notes that the program is about to change `file` in place, or to write it anew. `true`: a
    /// checkpoint of which nothing else is known yet goes on in it after a sync point.
    pub fn expect_append(&mut self, facts: &RunFacts, file: &FileRef, intent: Intent) -> bool {
        let has_id = facts.config.series[file.series].has_id;
        if intent.rewrites() {
            let appended = self.series[file.series].appends.remove(&file.name);
            let inside = appended.is_some_and(|appended| appended.unexplained > 0);
            let inside = inside || facts.went_on(file);
            return inside && !has_id && facts.shared.series[file.series].routing.watches();
        }
        let matters = match (has_id, &file.id) {
            (false, _) => intent.appends,
            (true, None) => true,
            (true, Some(id)) => Self::is_outdated(facts, file.series, id),
        };
        if matters {
            let held = facts.holder(file).and_then(|(key, _)| facts.file(&key, &file.name));
            let size = held.map(|held| held.bytes);
            self.series[file.series].appends.entry(file.name.clone()).or_default().size = size;
        }
        false
    }

    fn is_outdated(facts: &RunFacts, series: usize, id: &str) -> bool {
        let mut datasets = facts.series[series].datasets.iter().rev();
        let newest = datasets.find(|dataset| !facts.is_floating(&dataset.key));
        newest.is_some_and(|newest| {
            let restored = facts.shared.find(&newest.key).is_some_and(|shared| shared.restored);
            newest.key.id != id && !restored
        })
    }

    pub fn note_append(&mut self, facts: &mut RunFacts, key: &DatasetKey, name: &str, bytes: u64) {
        let count = facts.agreement.count;
        let has_id = facts.config.series[key.series].has_id;
        let local = &facts.series[key.series];
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
            self.report_loud(facts, key.series, name.to_string(), template);
        }
    }

    pub fn find_open_over(&mut self, facts: &mut RunFacts) {
        let mut found = Vec::new();
        for (index, series) in facts.series.iter().enumerate() {
            let open = |dataset: &&LocalDataset| facts.status(&dataset.key) == Status::Open;
            for (name, file) in series.datasets.iter().filter(open).flat_map(|one| &one.files) {
                if file.open > 0 && series.begun - file.open_since >= OPEN_OVER {
                    found.push((index, name.clone(), file.named.masked));
                }
            }
        }
        found.into_iter().for_each(|(series, name, template)| {
            self.report_loud(facts, series, name, template);
        });
    }

    fn report_loud(&mut self, facts: &mut RunFacts, series: usize, name: String, template: u64) {
        let own = &mut self.series[series];
        let news = &mut own.news;
        if !own.templates.contains(&template) && !news.iter().any(|(_, other)| *other == template) {
            news.push((name, template));
            facts.agreement.changed(1);
        }
    }

    pub fn listen_loud(&mut self, facts: &mut RunFacts, reports: &[Report]) -> Vec<Restless> {
        let mut heard = Vec::new();
        for (series, news) in reports.iter().flat_map(|report| report.series.iter().enumerate()) {
            for (name, template) in &news.restless {
                if self.series[series].templates.insert(*template) {
                    facts.shared.series[series].learned = true;
                    heard.push(Restless { series, name: name.clone(), template: *template });
                }
            }
        }
        heard
    }

    pub fn restless_ahead(&self) -> Vec<(usize, u64)> {
        let ahead = self.series.iter().enumerate().flat_map(|(at, own)| {
            own.templates.difference(&own.silenced).map(move |template| (at, *template))
        });
        ahead.collect()
    }

    pub fn silence(
        &mut self,
        facts: &mut RunFacts,
        series: usize,
        template: u64,
    ) -> Vec<LeftAlone> {
        let open: Vec<DatasetKey> = {
            let open = facts.series[series].datasets.iter();
            let open = open.filter(|dataset| facts.status(&dataset.key) == Status::Open);
            open.map(|dataset| dataset.key.clone()).collect()
        };
        let local = &mut facts.series[series];
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
        facts.agreement.changed(1);
        gone
    }

    pub fn is_silenced(&self, series: usize, template: u64) -> bool {
        self.series[series].silenced.contains(&template)
    }

    pub fn is_left_alone(&self, file: &FileRef) -> bool {
        !self.series[file.series].silenced.is_empty()
            && self.is_silenced(file.series, name_hash(&file.masked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::DatasetState;
    use crate::machine::state::testing::{facts, file, reports, share, write};
    use crate::machine::terms::SeriesReport;

    #[test]
    fn a_file_that_grows_at_sync_points_beside_no_checkpoint_is_never_quiet() {
        // Whether the series has ids; how often it grows until it is found.
        for (has_id, times) in [(true, APPENDS_EACH + APPENDS_MAX + 1), (false, 3)] {
            let (mut facts, mut logs) = (facts(has_id), Logs::new(1, &[]));
            let (key, log) = (DatasetKey::new(0, "", 0), file("", "log"));
            write(&mut facts, &key, &log, 1);
            let found = (1..100).find(|time| {
                facts.agreement.count += 1;
                assert!(!logs.expect_append(&facts, &log, Intent::APPEND));
                let bytes = 10 + u64::from(*time);
                logs.note_append(&mut facts, &key, "log", bytes);
                facts.file_mut(&key, "log").unwrap().bytes = bytes;
                !logs.series[0].news.is_empty()
            });
            assert_eq!(found, Some(times), "{has_id}");
        }
    }

    #[test]
    fn what_all_have_heard_of_is_left_alone_once_this_rank_can() {
        let (mut facts, mut logs) = (facts(true), Logs::new(1, &[]));
        let (key, log) = (DatasetKey::new(0, "1", 0), file("", "log"));
        write(&mut facts, &key, &log, 1);
        share(&mut facts, &key, DatasetState::Open);
        let template = name_hash("log");
        let news = SeriesReport { restless: vec![("log".into(), template)], ..Default::default() };
        for heard in [1, 0] {
            assert_eq!(logs.listen_loud(&mut facts, &reports(news.clone())).len(), heard);
        }
        assert_eq!(logs.restless_ahead(), [(0, template)]);
        assert!(!logs.is_left_alone(&log));
        assert_eq!(logs.silence(&mut facts, 0, template)[0].names, ["log"]);
        assert!(logs.is_left_alone(&log) && logs.restless_ahead().is_empty());
        assert!(facts.file(&key, "log").is_none());
    }
}
