//! The conference: every rank's report goes in, the votes that the decisions rest on come out.

use std::collections::{BTreeMap, BTreeSet};

use super::Machine;
use super::keys::DatasetKey;
use super::knowledge::Why;
use super::local::{LocalDataset, LocalFile, Status};
use super::report::{DatasetReport, Mark, Report, SealedReport, SeriesReport};
use super::shared::{DatasetState, SharedDataset};

/// What all ranks together say of a dataset in progress.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Vote {
    pub open: u32,
    pub files: u32,
    pub on_prefix: u32,
    /// Every rank's files have been quiet for the settle time, or are known to be all.
    pub ready: bool,
    /// Every rank's files are known to be all.
    pub complete: bool,
    /// Every rank has the names that it had in the last ones.
    pub covers: bool,
    /// Some rank has begun a later dataset of the series.
    pub followed: bool,
    /// See [`DatasetReport::abandoned`].
    pub abandoned: bool,
    /// Time since the first rank began it, milliseconds.
    pub since_begun_ms: u64,
    /// The most bytes in cache on any rank.
    pub bytes: u64,
    /// Every rank has encoded it.
    pub encoded: bool,
    /// That has failed on some rank.
    pub failed: bool,
    /// Some rank has changed it since that began.
    pub spoiled: bool,
    /// The first rank that calls it invalid, and why.
    pub invalid: Option<(usize, String)>,
}

/// Files that belong to another dataset than the one they were written into, on all ranks together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Stray {
    /// What they must come after.
    pub after: Vec<DatasetKey>,
    pub open: u32,
    pub files: u32,
    pub on_prefix: u32,
}

/// A conference in progress; equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Conference {
    pub votes: BTreeMap<DatasetKey, Vote>,
    pub ending: bool,
    pub halt: i64,
    pub entropy: u64,
    /// Some rank has no room for two more datasets like those in its store.
    pub scarce: bool,
    /// All ranks can encode beside the program.
    pub aside: bool,
    pub encode_tried: BTreeSet<DatasetKey>,
    /// Series in which some rank has a floating dataset.
    pub floating: BTreeMap<usize, Stray>,
    /// What returns to a dataset; see [`DatasetReport::returns`].
    pub returning: BTreeMap<DatasetKey, Stray>,
    /// Seals, adoptions and drops that this conference has tried; one try each.
    pub tried: BTreeSet<DatasetKey>,
    pub confirm_tried: BTreeSet<DatasetKey>,
    /// Datasets that all ranks have left alone for long enough to be trusted.
    pub quiet: Vec<DatasetKey>,
    pub flush_tried: BTreeSet<DatasetKey>,
    pub spill_tried: BTreeSet<DatasetKey>,
    /// Series whose deletions were published.
    pub published: BTreeSet<usize>,
    pub halted: bool,
}

impl Vote {
    /// What holds as long as no rank says otherwise.
    fn of_all() -> Vote {
        Vote { ready: true, complete: true, covers: true, encoded: true, ..Vote::default() }
    }
}

impl Stray {
    fn count(&mut self, dataset: &DatasetReport) {
        self.after.extend(dataset.after.clone());
        self.open += dataset.open;
        self.files += dataset.files;
        self.on_prefix += dataset.on_prefix;
    }
}

impl Machine {
    /// Makes this rank's part of a conference; `entropy` are fresh random bits.
    pub fn report(&mut self, entropy: u64, now_ms: u64) -> Report {
        self.tick(now_ms);
        self.find_open_over();
        let mut report = Report {
            entropy,
            digest: self.shared.digest(),
            halt: self.halt,
            ending: self.ending,
            fallen_back: self.falls_back,
            scarce: self.scarce,
            aside: self.aside,
            series: self.series_reports(),
            datasets: Vec::new(),
            sealed: Vec::new(),
        };
        for (index, series) in self.series.iter().enumerate() {
            for (at, dataset) in series.datasets.iter().enumerate() {
                let status = self.status(&dataset.key);
                if matches!(status, Status::Open | Status::Provisional) {
                    report.datasets.push(self.dataset_report(index, at));
                }
                if status != Status::Open {
                    report.sealed.extend(self.sealed_report(index, at));
                }
            }
        }
        for dataset in self.series.iter_mut().flat_map(|series| &mut series.datasets) {
            dataset.touched = false;
            dataset.replaced.clear();
        }
        self.agreement.reported();
        report
    }

    fn series_reports(&mut self) -> Vec<SeriesReport> {
        let empty = super::knowledge::set_hash(&BTreeSet::new());
        let count = self.series.len();
        let report = |index: usize| {
            let datasets = self.series[index].datasets.iter();
            let writes_nothing = !self.shared.series[index].rewrites
                && self.expected_set(index, datasets) == Some(empty);
            let series = &mut self.series[index];
            let mut report = std::mem::take(&mut series.news);
            report.writes_nothing = writes_nothing;
            for (name, bare) in std::mem::take(&mut series.joined) {
                report.unsafe_names.push(Mark { name, bare, why: Why::Writers });
            }
            report.written = series.written.iter().copied().collect();
            report
        };
        (0..count).map(report).collect()
    }

    fn dataset_report(&self, series: usize, at: usize) -> DatasetReport {
        let datasets = &self.series[series].datasets;
        let dataset = &datasets[at];
        let count = |files: usize| u32::try_from(files).unwrap_or(u32::MAX);
        let followed = datasets[at + 1..].iter().any(|later| {
            later.is_successor()
                && !self.is_floating(&later.key)
                && self.status(&later.key) == Status::Open
        });
        DatasetReport {
            key: dataset.key.clone(),
            open: dataset.open_files(),
            files: count(dataset.files.len()),
            on_prefix: count(
                dataset.files.values().filter(|file| file.on_prefix.is_some()).count(),
            ),
            bytes: self.cached_bytes(&dataset.key),
            encoded: dataset.encoding.is_some_and(|encoding| encoding.ended),
            failed: dataset.encoding.is_some_and(|encoding| encoding.failed),
            spoiled: dataset.encoding.is_some_and(|encoding| encoding.spoiled),
            begun: dataset.begun,
            order: dataset.order,
            sealed: self.status(&dataset.key) == Status::Provisional,
            complete: self.looks_complete(dataset),
            covers: self.covers_last(dataset),
            settled: self.is_settled(dataset),
            quiet_ms: self.quiet_ms(series),
            since_begun_ms: match dataset.begun {
                true => self.clock_ms.saturating_sub(dataset.begun_ms),
                false => 0,
            },
            followed,
            abandoned: !dataset.abandoned.is_empty(),
            invalid: dataset.why_invalid().cloned(),
            replaced: dataset.replaced.clone(),
            after: self.is_floating(&dataset.key).then(|| self.before(dataset)).flatten(),
            returns: dataset.returns,
            output: dataset.explicit.is_some_and(|explicit| explicit.output),
            lacks: self.lacks(series, at),
        }
    }

    /// The newest dataset that has files of the same names from this rank.
    fn before(&self, floating: &LocalDataset) -> Option<DatasetKey> {
        let mut datasets = self.series[floating.key.series].datasets.iter().rev();
        let newest = datasets.find(|dataset| {
            dataset.key != floating.key
                && dataset.files.keys().any(|name| floating.files.contains_key(name))
        });
        newest.map(|dataset| dataset.key.clone())
    }

    fn sealed_report(&self, series: usize, at: usize) -> Option<SealedReport> {
        let datasets = &self.series[series].datasets;
        let dataset = &datasets[at];
        let shared = self.shared.find(&dataset.key)?;
        let newer = |same_group: bool| {
            datasets[at + 1..].iter().filter(move |newer| {
                self.status(&newer.key) == Status::Confirmed
                    && (!same_group || newer.key.same_group(&dataset.key))
            })
        };
        let kept = || {
            let files = dataset.files.iter();
            let quiet = |file: &LocalFile| !self.is_silenced(series, file.masked);
            files.filter(move |(_, file)| !file.deleted && file.on_prefix.is_none() && quiet(file))
        };
        let mut bare = kept().filter(|(_, file)| file.bare);
        let report = SealedReport {
            id: shared.id,
            deleted_from: dataset.files.values().any(|file| file.deleted && !file.amended),
            live: bare.any(|(name, _)| !newer(false).any(|newer| newer.files.contains_key(name))),
            held: kept().any(|(name, _)| !newer(true).any(|newer| newer.files.contains_key(name))),
            kept: self.is_kept_series(series)
                && kept()
                    .any(|(name, _)| !newer(false).any(|newer| newer.files.contains_key(name))),
        };
        (report.deleted_from || report.live || report.held || report.kept).then_some(report)
    }

    /// Takes all ranks' reports (in rank order), the same on all ranks. `false`: the ranks differ
    /// in what must be equal; agreements have ended on all of them.
    pub fn confer(&mut self, reports: &[Report]) -> bool {
        let digest = self.shared.digest();
        if reports.len() != self.config.world_size()
            || reports.iter().any(|report| {
                report.digest != digest || report.series.len() != self.config.series.len()
            })
        {
            self.agreement.disable();
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
        self.shared.fallen_back |= reports.iter().any(|report| report.fallen_back);
        for series in 0..self.config.series.len() {
            self.take_series_news(series, reports);
            self.meet(series, reports, &mut conference);
        }
        self.number_begins(reports);
        self.take_sealed_news(reports);
        self.take_lacks(reports);
        self.heard = self.listen(reports);
        for index in 0..self.config.series.len() {
            for at in 0..self.shared.series[index].datasets.len() {
                let dataset = &self.shared.series[index].datasets[at];
                if dataset.state == DatasetState::Open {
                    let vote = self.vote_of(&dataset.key, reports);
                    let key = dataset.key.clone();
                    self.shared.series[index].datasets[at].abandoned = vote.abandoned;
                    conference.votes.insert(key, vote);
                }
            }
        }
        conference.quiet = self.quiet_enough(reports);
        self.left_over = !conference.floating.is_empty() || !conference.returning.is_empty();
        self.end_conferences += u32::from(conference.ending);
        self.conference = Some(conference);
        true
    }

    /// Enters datasets that are new, or open again, into the shared list and into this rank's own.
    fn meet(&mut self, series: usize, reports: &[Report], conference: &mut Conference) {
        let mut course = Vec::new();
        for report in reports {
            let own = report.datasets.iter().filter(|dataset| dataset.key.series == series);
            let own: Vec<&DatasetReport> = own.collect();
            for (index, dataset) in own.iter().enumerate() {
                if self.is_floating(&dataset.key) {
                    if dataset.files > 0 {
                        conference.floating.entry(series).or_default().count(dataset);
                    }
                    continue;
                }
                if let Some(before) = dataset.key.before().filter(|_| dataset.returns) {
                    conference.returning.entry(before).or_default().count(dataset);
                    continue;
                }
                let list = &mut self.shared.series[series].datasets;
                let at = match list.iter().position(|known| known.key == dataset.key) {
                    Some(at) => at,
                    None => {
                        // Ahead of what this rank began later, if others have named that already.
                        let is_later = |known: &SharedDataset| {
                            known.id == 0 && own[index..].iter().any(|later| later.key == known.key)
                        };
                        let at = list.iter().position(is_later).unwrap_or(list.len());
                        list.insert(at, SharedDataset::new(dataset.key.clone()));
                        let again = dataset.key.generation > 0 && !dataset.key.id.is_empty();
                        self.series[series].begun += u64::from(!again);
                        course.push(dataset.key.clone());
                        at
                    }
                };
                list[at].output |= dataset.output;
                if !dataset.sealed && list[at].state == DatasetState::Provisional {
                    list[at].state = DatasetState::Open;
                }
            }
        }
        course.iter().for_each(|key| self.note_course(key));
        self.open_for_floating(series, conference);
        let clock_ms = self.clock_ms;
        let open = self.shared.series[series].open();
        for key in open.map(|dataset| dataset.key.clone()).collect::<Vec<_>>() {
            let local = self.series[series].entry(&key, clock_ms);
            if local.phase == super::local::Phase::Sealed {
                local.phase = super::local::Phase::Open;
            }
        }
        self.order_local(series);
    }

    /// What floats is going to a sealed dataset: that is open again on all ranks, and sealed with
    /// it. Confirmed as it is, it would have lost the record of the rank that the files are from.
    fn open_for_floating(&mut self, series: usize, conference: &Conference) {
        let Some(floating) = conference.floating.get(&series) else { return };
        let Some(into) = self.newest_taker(series).cloned() else { return };
        if let Some(taker) = self.shared.find_mut(&into).filter(|_| !floating.after.contains(&into))
        {
            taker.state = DatasetState::Open;
        }
    }

    /// Gives what is new its place in the order in which the ranks began it, whatever its series.
    fn number_begins(&mut self, reports: &[Report]) {
        for report in reports {
            let begun = report.datasets.iter().filter(|dataset| dataset.order > 0);
            let mut begun: Vec<&DatasetReport> = begun.collect();
            begun.sort_by_key(|dataset| dataset.order);
            for dataset in begun {
                let turn = self.shared.turns + 1;
                let known = self.shared.find_mut(&dataset.key);
                if let Some(new) = known.filter(|known| known.turn == 0) {
                    new.turn = turn;
                    self.shared.turns = turn;
                }
            }
        }
    }

    /// Puts this rank's datasets into the shared order; those not shared yet come last.
    fn order_local(&mut self, series: usize) {
        let shared = &self.shared.series[series].datasets;
        self.series[series].datasets.sort_by_key(|dataset| {
            shared.iter().position(|known| known.key == dataset.key).unwrap_or(usize::MAX)
        });
    }

    fn vote_of(&self, key: &DatasetKey, reports: &[Report]) -> Vote {
        let mut vote = Vote::of_all();
        for (rank, report) in reports.iter().enumerate() {
            let Some(dataset) = report.datasets.iter().find(|dataset| dataset.key == *key) else {
                // It hears of the dataset just now.
                let nothing_to_write = report.series[key.series].writes_nothing;
                vote.ready &= nothing_to_write;
                vote.complete &= nothing_to_write;
                vote.covers = false;
                vote.encoded = false;
                continue;
            };
            vote.bytes = vote.bytes.max(dataset.bytes);
            vote.encoded &= dataset.encoded;
            vote.failed |= dataset.failed;
            vote.spoiled |= dataset.spoiled;
            vote.open += dataset.open;
            vote.files += dataset.files;
            vote.on_prefix += dataset.on_prefix;
            vote.ready &= dataset.complete || dataset.settled;
            vote.complete &= dataset.complete;
            vote.covers &= dataset.covers;
            vote.followed |= dataset.followed;
            vote.since_begun_ms = vote.since_begun_ms.max(dataset.since_begun_ms);
            vote.abandoned |= dataset.abandoned;
            if let (None, Some(reason)) = (&vote.invalid, &dataset.invalid) {
                vote.invalid = Some((rank, reason.clone()));
            }
        }
        vote.invalid = vote.invalid.or_else(|| self.overwritten(key, reports));
        vote
    }

    fn take_sealed_news(&mut self, reports: &[Report]) {
        for series in &mut self.shared.series {
            series.confirms = false;
            series.waited = std::mem::take(&mut series.waits);
        }
        for dataset in self.shared.series.iter_mut().flat_map(|series| &mut series.datasets) {
            if dataset.id == 0 || dataset.state == DatasetState::Open {
                continue;
            }
            let news = reports.iter().flat_map(|report| &report.sealed);
            let news = news.filter(|sealed| sealed.id == dataset.id);
            let (mut deleted_from, mut live, mut held, mut kept) = (false, false, false, false);
            for sealed in news {
                deleted_from |= sealed.deleted_from;
                live |= sealed.live;
                held |= sealed.held;
                kept |= sealed.kept;
            }
            dataset.deleted_from = deleted_from;
            dataset.live = live;
            dataset.held = held;
            dataset.kept = kept;
            dataset.fresh = false;
        }
    }

    /// Returns this rank's entry of a shared dataset, made if need be.
    pub(super) fn local_mut(&mut self, key: &DatasetKey) -> &mut LocalDataset {
        let clock_ms = self.clock_ms;
        self.series[key.series].entry(key, clock_ms)
    }
}
