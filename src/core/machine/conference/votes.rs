//! The conference: what every rank's report comes to.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::terms::{DatasetKey, DatasetReport, EncodingReport, Report};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vote {
    pub open: u32,
    pub files: u32,
    pub on_prefix: u32,
    pub named_there: u32,
    pub readiness: Readiness,
    pub covers: bool,
    pub followed: bool,
    /// On some rank; see `ProgramWord`.
    pub abandoned: bool,
    pub since_begun_ms: u64,
    /// The most bytes in cache on any rank.
    pub bytes: u64,
    /// Encoded on every rank; failed or spoiled on some.
    pub encoding: EncodingReport,
    /// The first rank that calls it invalid, and why.
    pub invalid: Option<(usize, String)>,
}

/// Whether a rank has written its files; the least of any rank's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Readiness {
    #[default]
    Writes,
    /// The files have been quiet for the settle time.
    Settled,
    /// The files are known to be all.
    Complete,
}

/// Files of all ranks that belong to another dataset than the one they were written into.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stray {
    /// The datasets that the files must come after.
    pub after: Vec<DatasetKey>,
    pub open: u32,
    pub files: u32,
    pub on_prefix: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConferenceState {
    pub votes: BTreeMap<DatasetKey, Vote>,
    pub ending: bool,
    pub halt: i64,
    pub entropy: u64,
    /// On some rank; see `Report`.
    pub scarce: bool,
    /// On all ranks; see `Report`.
    pub aside: bool,
    pub encode_tried: BTreeSet<DatasetKey>,
    /// By series, where some rank has a floating dataset.
    pub floating: BTreeMap<usize, Stray>,
    /// See [`DatasetReport::returns`].
    pub returning: BTreeMap<DatasetKey, Stray>,
    /// Seals, adoptions and drops are tried once.
    pub tried: BTreeSet<DatasetKey>,
    pub confirm_tried: BTreeSet<DatasetKey>,
    /// Datasets that all ranks have left alone for long enough to be trusted.
    pub quiet: Vec<DatasetKey>,
    pub flush_tried: BTreeSet<DatasetKey>,
    pub spill_tried: BTreeSet<DatasetKey>,
    pub published: BTreeSet<usize>,
    pub halted: bool,
}

impl Vote {
    pub fn of(key: &DatasetKey, reports: &[Report]) -> Vote {
        let encoding = EncodingReport { encoded: true, ..EncodingReport::default() };
        let (readiness, mut excess) = (Readiness::Complete, Some(0_u64));
        let mut vote = Vote { readiness, covers: true, encoding, ..Vote::default() };
        for (rank, report) in reports.iter().enumerate() {
            let Some(dataset) = report.datasets.iter().find(|dataset| dataset.key == *key) else {
                // It hears of the dataset just now.
                if !report.series[key.series].writes_nothing {
                    (vote.readiness, excess) = (Readiness::Writes, None);
                }
                vote.covers = false;
                vote.encoding.encoded = false;
                continue;
            };
            vote.bytes = vote.bytes.max(dataset.bytes);
            vote.encoding.encoded &= dataset.encoding.encoded;
            vote.encoding.failed |= dataset.encoding.failed;
            vote.encoding.spoiled |= dataset.encoding.spoiled;
            vote.open += dataset.open;
            vote.files += dataset.files;
            vote.on_prefix += dataset.on_prefix;
            vote.named_there += dataset.named_there;
            vote.readiness = vote.readiness.min(Readiness::of(dataset));
            // Who has not written yet may: another rank has only moved there what that one had.
            let own = dataset.set.excess.filter(|own| dataset.begun || *own == 0);
            excess = excess.zip(own).map(|(sum, own)| sum.wrapping_add(own));
            vote.covers &= dataset.set.covers;
            vote.followed |= dataset.followed;
            vote.since_begun_ms = vote.since_begun_ms.max(dataset.since_begun_ms);
            vote.abandoned |= dataset.word.abandoned;
            if let (None, Some(reason)) = (&vote.invalid, &dataset.invalid) {
                vote.invalid = Some((rank, reason.clone()));
            }
        }
        // What one rank lacks another one has: all are there.
        if excess == Some(0) {
            vote.readiness = Readiness::Complete;
        }
        vote
    }
}

impl Readiness {
    fn of(dataset: &DatasetReport) -> Readiness {
        match (dataset.set.excess == Some(0), dataset.set.settled) {
            (true, _) => Readiness::Complete,
            (false, true) => Readiness::Settled,
            (false, false) => Readiness::Writes,
        }
    }
}

impl Stray {
    pub fn count(&mut self, dataset: &DatasetReport) {
        self.after.extend(dataset.after.clone());
        self.open += dataset.open;
        self.files += dataset.files;
        self.on_prefix += dataset.on_prefix;
    }
}

impl ConferenceState {
    pub fn closes(&self) -> bool {
        self.ending || self.halt != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::terms::{SeriesReport, SetReport};

    fn report(excess: Option<u64>) -> Report {
        let set = SetReport { excess, settled: true, ..SetReport::default() };
        let own = DatasetReport { set, begun: true, ..DatasetReport::default() };
        Report { datasets: vec![own], ..Report::default() }
    }

    #[test]
    fn a_dataset_is_complete_whichever_rank_has_made_which_file() {
        let less = 5_u64.wrapping_neg();
        let rows = [
            ([Some(0), Some(0)], Readiness::Complete),
            ([Some(5), Some(less)], Readiness::Complete),
            ([Some(5), Some(0)], Readiness::Settled), // another file
            ([Some(5), Some(5)], Readiness::Settled),
            ([Some(0), None], Readiness::Settled),
        ];
        for (excess, readiness) in rows {
            let vote = Vote::of(&DatasetKey::default(), &excess.map(report));
            assert_eq!(vote.readiness, readiness, "{excess:?}");
        }
        let mut reports = [report(Some(5)), report(Some(less))];
        reports[1].datasets[0].begun = false;
        assert_eq!(Vote::of(&DatasetKey::default(), &reports).readiness, Readiness::Settled);
    }

    #[test]
    fn a_rank_that_has_not_heard_of_the_dataset_still_writes_unless_it_never_does() {
        for (writes_nothing, readiness) in [(true, Readiness::Complete), (false, Readiness::Writes)]
        {
            let series = vec![SeriesReport { writes_nothing, ..SeriesReport::default() }];
            let unheard = Report { series, ..Report::default() };
            let vote = Vote::of(&DatasetKey::default(), &[report(Some(0)), unheard]);
            assert_eq!(vote.readiness, readiness);
        }
    }
}
