//! What this rank says in a conference, and how it takes what all say.

use std::collections::BTreeSet;

use super::conference::doubts::Doubt;
use super::conference::entry;
use super::conference::votes::{ConferenceState, Vote};
use super::matters::others::{self, Overheard};
use super::matters::{lacking, trust};
use super::parts::Machine;
use super::state::{DatasetState, Deleted, LocalDataset, LocalFile, Status};
use super::terms::{
    DatasetKey, DatasetReport, ProgramWord, Report, SealedNews, SealedReport, SeriesReport,
    SetReport, Why, set_hash,
};

impl Machine {
    /// Makes this rank's part of a conference; `entropy` are fresh random bits.
    pub fn report(&mut self, entropy: u64, now_ms: u64) -> Report {
        self.facts.tick(now_ms);
        self.logs.find_open_over(&mut self.facts);
        let mut report = Report {
            entropy,
            digest: self.digest(),
            halt: self.halt,
            ending: self.facts.ending,
            fallen_back: self.facts.falls_back,
            scarce: self.scarce,
            aside: self.encodings.able,
            series: self.series_reports(),
            ..Report::default()
        };
        for (index, series) in self.facts.series.iter().enumerate() {
            for (at, dataset) in series.datasets.iter().enumerate() {
                let status = self.facts.status(&dataset.key);
                if matches!(status, Status::Open | Status::Provisional) {
                    report.datasets.push(self.dataset_report(index, at));
                }
                if status != Status::Open {
                    report.sealed.extend(self.sealed_report(index, at));
                }
            }
        }
        for dataset in self.facts.series.iter_mut().flat_map(|series| &mut series.datasets) {
            dataset.touched = false;
            dataset.replaced.clear();
        }
        self.facts.agreement.reported();
        report
    }

    fn series_reports(&mut self) -> Vec<SeriesReport> {
        let empty = set_hash(&BTreeSet::new());
        let count = self.facts.series.len();
        let report = |index: usize| {
            let datasets = self.facts.series[index].datasets.iter();
            let writes_nothing = !self.facts.shared.series[index].rewrites
                && self.facts.expected_set(index, datasets) == Some(empty);
            let series = &mut self.facts.series[index];
            let mut report = SeriesReport {
                writes_nothing,
                interval_ms: std::mem::take(&mut series.interval_ms),
                learned: std::mem::take(&mut series.has_new_temporaries),
                distance: self.keeping.take_distance(index),
                restless: self.logs.take_news(index),
                ..self.others.take_news(index)
            };
            self.watch.report(index, &mut report);
            self.verdicts.report(&self.facts, index, &mut report);
            self.deletions.report(index, &mut report);
            report
        };
        (0..count).map(report).collect()
    }

    fn dataset_report(&self, series: usize, at: usize) -> DatasetReport {
        let dataset = &self.facts.series[series].datasets[at];
        let count = |files: usize| u32::try_from(files).unwrap_or(u32::MAX);
        let on_prefix = || dataset.files.values().filter(|file| file.on_prefix.is_some());
        DatasetReport {
            key: dataset.key.clone(),
            open: dataset.open_files(),
            files: count(dataset.files.len()),
            on_prefix: count(on_prefix().count()),
            named_there: count(on_prefix().filter(|file| !file.named.bare).count()),
            bytes: self.facts.cached_bytes(&dataset.key),
            encoding: self.encodings.report(dataset),
            begun: dataset.begun,
            order: dataset.order,
            sealed: self.facts.status(&dataset.key) == Status::Provisional,
            set: SetReport {
                excess: self.facts.excess(dataset),
                covers: trust::covers_last(&self.facts, dataset),
                settled: self.facts.is_settled(dataset),
                lacks: lacking::lacks(&self.facts, series, at),
            },
            word: ProgramWord {
                output: dataset.explicit.is_some_and(|explicit| explicit.output),
                abandoned: !dataset.abandoned.is_empty(),
            },
            quiet_ms: self.facts.quiet_ms(series),
            since_begun_ms: match dataset.begun {
                true => self.facts.clock_ms.saturating_sub(dataset.begun_ms),
                false => 0,
            },
            followed: self.facts.has_successor(&dataset.key),
            invalid: dataset.why_invalid().cloned(),
            replaced: dataset.replaced.clone(),
            after: self.facts.is_floating(&dataset.key).then(|| self.before(dataset)).flatten(),
            returns: dataset.returns,
        }
    }

    /// The newest other dataset that has files of the same names from this rank.
    fn before(&self, floating: &LocalDataset) -> Option<DatasetKey> {
        let mut datasets = self.facts.series[floating.key.series].datasets.iter().rev();
        let newest = datasets.find(|dataset| {
            dataset.key != floating.key
                && dataset.files.keys().any(|name| floating.files.contains_key(name))
        });
        newest.map(|dataset| dataset.key.clone())
    }

    fn sealed_report(&self, series: usize, at: usize) -> Option<SealedReport> {
        let datasets = &self.facts.series[series].datasets;
        let dataset = &datasets[at];
        let shared = self.facts.shared.find(&dataset.key)?;
        let newer = |same_group: bool| {
            datasets[at + 1..].iter().filter(move |newer| {
                self.facts.status(&newer.key) == Status::Confirmed
                    && (!same_group || newer.key.same_group(&dataset.key))
            })
        };
        let kept = || {
            let files = dataset.files.iter();
            let quiet = |file: &LocalFile| !self.logs.is_silenced(series, file.named.masked);
            files.filter(move |(_, file)| {
                !file.is_deleted() && file.on_prefix.is_none() && quiet(file)
            })
        };
        let mut bare = kept().filter(|(_, file)| file.named.bare);
        let news = SealedNews {
            deleted_from: dataset
                .files
                .values()
                .any(|file| matches!(file.deleted, Deleted::Yes | Deleted::Early)),
            live: bare.any(|(name, _)| !newer(false).any(|newer| newer.files.contains_key(name))),
            held: kept().any(|(name, _)| !newer(true).any(|newer| newer.files.contains_key(name))),
            kept: self.facts.is_kept_series(series)
                && kept()
                    .any(|(name, _)| !newer(false).any(|newer| newer.files.contains_key(name))),
        };
        news.is_any().then_some(SealedReport { id: shared.id, news })
    }

    fn take_verdicts(&mut self, series: usize, reports: &[Report]) {
        let parted = self.watch.shared()[series].parted(&self.facts.config);
        for judged in self.verdicts.listen(&mut self.facts, series, reports, &parted) {
            self.watch.judged(&mut self.facts, series, judged);
            if matches!(self.watch.why(series, judged.name), Some(Why::Tries(_))) {
                self.verdicts.judge_again(series, judged.name);
            }
        }
    }

    /// Takes all ranks' reports, in rank order. `false`: the ranks differ in what must be equal, so
    /// agreements have ended on all of them.
    pub fn confer(&mut self, reports: &[Report]) -> bool {
        let digest = self.digest();
        if reports.len() != self.facts.config.nodes.len()
            || reports.iter().any(|report| {
                report.digest != digest || report.series.len() != self.facts.config.series.len()
            })
        {
            self.facts.agreement.disable();
            return false;
        }
        let mut conference = ConferenceState {
            ending: reports.iter().any(|report| report.ending),
            halt: reports.iter().map(|report| report.halt).max().unwrap_or(0),
            entropy: reports.first().map_or(0, |report| report.entropy),
            scarce: reports.iter().any(|report| report.scarce),
            aside: reports.iter().all(|report| report.aside),
            ..ConferenceState::default()
        };
        self.facts.shared.fallen_back |= reports.iter().any(|report| report.fallen_back);
        for series in 0..self.facts.config.series.len() {
            entry::take_series_news(&mut self.facts, series, reports);
            let distance = reports.iter().filter_map(|report| report.series[series].distance);
            self.keeping.note_distance(&mut self.facts, series, distance.max());
            let new = entry::meet(&mut self.facts, series, reports, &mut conference);
            new.iter().for_each(|key| self.keeping.note_course(&mut self.facts, key));
            // After what has begun: a lesson holds from the next checkpoint on.
            self.watch.listen(&mut self.facts, series, reports);
            self.take_verdicts(series, reports);
        }
        entry::number_begins(&mut self.facts, reports);
        entry::take_sealed_news(&mut self.facts, reports);
        self.doubts.iter_mut().for_each(Doubt::reported);
        self.lacking.take_lacks(&self.facts, reports);
        let restless = self.logs.listen_loud(&mut self.facts, reports);
        self.heard = Overheard { restless, ..self.others.listen(&mut self.facts, reports) };
        self.heard.revived.iter().for_each(|name| self.deletions.revive_name(name));
        for index in 0..self.facts.config.series.len() {
            for at in 0..self.facts.shared.series[index].datasets.len() {
                let dataset = &self.facts.shared.series[index].datasets[at];
                if dataset.state != DatasetState::Open {
                    continue;
                }
                let key = dataset.key.clone();
                let mut vote = Vote::of(&key, reports);
                vote.invalid =
                    vote.invalid.or_else(|| others::overwritten(&self.facts, &key, reports));
                self.facts.shared.series[index].datasets[at].word.abandoned = vote.abandoned;
                conference.votes.insert(key, vote);
            }
        }
        conference.quiet = self.trust.quiet_enough(&self.facts, reports);
        self.telling.left_over =
            !conference.floating.is_empty() || !conference.returning.is_empty();
        self.end_conferences += u32::from(conference.ending);
        self.conference = Some(conference);
        true
    }
}
