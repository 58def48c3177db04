//! What this rank says in a conference, and how it takes what all say.

use std::collections::BTreeSet;

use super::conference::doubts::Doubt;
use super::conference::entry;
use super::conference::votes::{Conference, Vote};
use super::matters::others::{self, Overheard};
use super::matters::{lacking, trust};
use super::parts::Machine;
use super::state::dataset::{LocalDataset, Standing};
use super::state::file::{Deleted, LocalFile};
use super::state::shared::DatasetState;
use super::terms::keys::DatasetKey;
use super::terms::names::set_hash;
use super::terms::report::{
    DatasetReport, ProgramWord, Report, SealedNews, SealedReport, SeriesReport, SetReport,
};

impl Machine {
    /// Makes this rank's part of a conference; `entropy` are fresh random bits.
    pub fn report(&mut self, entropy: u64, now_ms: u64) -> Report {
        self.ledger.tick(now_ms);
        self.logs.find_open_over(&mut self.ledger);
        let mut report = Report {
            entropy,
            digest: self.digest(),
            halt: self.halt,
            ending: self.ledger.ending,
            fallen_back: self.ledger.falls_back,
            scarce: self.scarce,
            aside: self.encodings.able,
            series: self.series_reports(),
            datasets: Vec::new(),
            sealed: Vec::new(),
        };
        for (index, series) in self.ledger.series.iter().enumerate() {
            for (at, dataset) in series.datasets.iter().enumerate() {
                let status = self.ledger.status(&dataset.key);
                if matches!(status, Standing::Open | Standing::Provisional) {
                    report.datasets.push(self.dataset_report(index, at));
                }
                if status != Standing::Open {
                    report.sealed.extend(self.sealed_report(index, at));
                }
            }
        }
        for dataset in self.ledger.series.iter_mut().flat_map(|series| &mut series.datasets) {
            dataset.touched = false;
            dataset.replaced.clear();
        }
        self.ledger.agreement.reported();
        report
    }

    fn series_reports(&mut self) -> Vec<SeriesReport> {
        let empty = set_hash(&BTreeSet::new());
        let count = self.ledger.series.len();
        let report = |index: usize| {
            let datasets = self.ledger.series[index].datasets.iter();
            let writes_nothing = !self.ledger.shared.series[index].rewrites
                && self.ledger.expected_set(index, datasets) == Some(empty);
            let series = &mut self.ledger.series[index];
            let mut report = SeriesReport {
                writes_nothing,
                interval_ms: std::mem::take(&mut series.interval_ms),
                learned: std::mem::take(&mut series.has_new_temporaries),
                distance: self.keeping.take_distance(index),
                restless: self.logs.take_news(index),
                ..self.others.take_news(index)
            };
            self.watch.report(index, &mut report);
            self.deletions.report(index, &mut report);
            report.unsafe_names.extend(self.others.take_joined(index));
            report
        };
        (0..count).map(report).collect()
    }

    fn dataset_report(&self, series: usize, at: usize) -> DatasetReport {
        let dataset = &self.ledger.series[series].datasets[at];
        let count = |files: usize| u32::try_from(files).unwrap_or(u32::MAX);
        DatasetReport {
            key: dataset.key.clone(),
            open: dataset.open_files(),
            files: count(dataset.files.len()),
            on_prefix: count(
                dataset.files.values().filter(|file| file.on_prefix.is_some()).count(),
            ),
            bytes: self.ledger.cached_bytes(&dataset.key),
            encoding: self.encodings.report(dataset),
            begun: dataset.begun,
            order: dataset.order,
            sealed: self.ledger.status(&dataset.key) == Standing::Provisional,
            set: SetReport {
                complete: self.ledger.looks_complete(dataset),
                covers: trust::covers_last(&self.ledger, dataset),
                settled: self.ledger.is_settled(dataset),
                lacks: lacking::lacks(&self.ledger, series, at),
            },
            word: ProgramWord {
                output: dataset.explicit.is_some_and(|explicit| explicit.output),
                abandoned: !dataset.abandoned.is_empty(),
            },
            quiet_ms: self.ledger.quiet_ms(series),
            since_begun_ms: match dataset.begun {
                true => self.ledger.clock_ms.saturating_sub(dataset.begun_ms),
                false => 0,
            },
            followed: self.ledger.has_successor(&dataset.key),
            invalid: dataset.why_invalid().cloned(),
            replaced: dataset.replaced.clone(),
            after: self.ledger.is_floating(&dataset.key).then(|| self.before(dataset)).flatten(),
            returns: dataset.returns,
        }
    }

    /// The newest dataset that has files of the same names from this rank.
    fn before(&self, floating: &LocalDataset) -> Option<DatasetKey> {
        let mut datasets = self.ledger.series[floating.key.series].datasets.iter().rev();
        let newest = datasets.find(|dataset| {
            dataset.key != floating.key
                && dataset.files.keys().any(|name| floating.files.contains_key(name))
        });
        newest.map(|dataset| dataset.key.clone())
    }

    fn sealed_report(&self, series: usize, at: usize) -> Option<SealedReport> {
        let datasets = &self.ledger.series[series].datasets;
        let dataset = &datasets[at];
        let shared = self.ledger.shared.find(&dataset.key)?;
        let newer = |same_group: bool| {
            datasets[at + 1..].iter().filter(move |newer| {
                self.ledger.status(&newer.key) == Standing::Confirmed
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
            kept: self.ledger.is_kept_series(series)
                && kept()
                    .any(|(name, _)| !newer(false).any(|newer| newer.files.contains_key(name))),
        };
        news.is_any().then_some(SealedReport { id: shared.id, news })
    }

    /// Takes all ranks' reports (in rank order), the same on all ranks. `false`: the ranks differ
    /// in what must be equal; agreements have ended on all of them.
    pub fn confer(&mut self, reports: &[Report]) -> bool {
        let digest = self.digest();
        if reports.len() != self.ledger.config.world_size()
            || reports.iter().any(|report| {
                report.digest != digest || report.series.len() != self.ledger.config.series.len()
            })
        {
            self.ledger.agreement.disable();
            return false;
        }
        let mut conference = Conference {
            ending: reports.iter().any(|report| report.ending),
            halt: reports.iter().map(|report| report.halt).max().unwrap_or(0),
            entropy: reports.first().map_or(0, |report| report.entropy),
            scarce: reports.iter().any(|report| report.scarce),
            aside: reports.iter().all(|report| report.aside),
            ..Conference::default()
        };
        self.ledger.shared.fallen_back |= reports.iter().any(|report| report.fallen_back);
        for series in 0..self.ledger.config.series.len() {
            entry::take_series_news(&mut self.ledger, series, reports);
            self.watch.listen(&mut self.ledger, series, reports);
            let distance = reports.iter().filter_map(|report| report.series[series].distance);
            self.keeping.note_distance(&mut self.ledger, series, distance.max());
            let new = entry::meet(&mut self.ledger, series, reports, &mut conference);
            new.iter().for_each(|key| self.keeping.note_course(&mut self.ledger, key));
        }
        entry::number_begins(&mut self.ledger, reports);
        entry::take_sealed_news(&mut self.ledger, reports);
        self.doubts.iter_mut().for_each(Doubt::reported);
        self.lacking.take_lacks(&self.ledger, reports);
        let restless = self.logs.listen_loud(&mut self.ledger, reports);
        self.heard = Overheard { restless, ..self.others.listen(&mut self.ledger, reports) };
        self.heard.revived.iter().for_each(|name| self.deletions.revive_name(name));
        for index in 0..self.ledger.config.series.len() {
            for at in 0..self.ledger.shared.series[index].datasets.len() {
                let key = self.ledger.shared.series[index].datasets[at].key.clone();
                let mut vote = Vote::of(&key, reports);
                vote.invalid =
                    vote.invalid.or_else(|| others::overwritten(&self.ledger, &key, reports));
                let dataset = &mut self.ledger.shared.series[index].datasets[at];
                if dataset.state == DatasetState::Open {
                    dataset.word.abandoned = vote.abandoned;
                    conference.votes.insert(key, vote);
                }
            }
        }
        conference.quiet = self.trust.quiet_enough(&self.ledger, reports);
        self.telling.left_over =
            !conference.floating.is_empty() || !conference.returning.is_empty();
        self.end_conferences += u32::from(conference.ending);
        self.conference = Some(conference);
        true
    }
}
