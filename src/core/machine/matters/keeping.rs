//! How long a program keeps its checkpoints: at which distance it deletes, or writes over, its own.
//!
//! What it has deleted by itself never has to reach the PFS, so a checkpoint waits in the cache for
//! that for as long as this program was seen to take. What is there for longer is kept by the
//! program, and flushed in the background before its place is needed.

use crate::machine::state::dataset::Standing;
use crate::machine::state::ledger::MachineLedger;
use crate::machine::state::shared::DatasetState;
use crate::machine::terms::habit::{Habit, RecentIds};
use crate::machine::terms::keys::{DatasetKey, FileRef};
use crate::machine::terms::knowledge::Knowledge;
use crate::machine::terms::restart::Resumed;

/// The matter of how long the program keeps its checkpoints, by series.
#[derive(Debug, Clone)]
pub struct Keeping {
    /// Equal on all ranks.
    habits: Vec<Habit>,
    /// The last checkpoints.
    courses: Vec<RecentIds>,
    /// The largest distance seen since the last report.
    distances: Vec<Option<u64>>,
}

impl Keeping {
    pub fn new(series: usize, knowledge: &[Knowledge]) -> Self {
        let habit = |index: usize| knowledge.get(index).map(|known| known.habit);
        Keeping {
            habits: (0..series).map(|index| habit(index).unwrap_or_default()).collect(),
            courses: vec![RecentIds::default(); series],
            distances: vec![None; series],
        }
    }

    pub fn habits(&self) -> &[Habit] {
        &self.habits
    }

    /// Takes what this rank has seen, for a report.
    pub fn take_distance(&mut self, series: usize) -> Option<u64> {
        self.distances[series].take()
    }

    /// Notes that the program deletes a file of a checkpoint that it had written, or moves it away.
    pub fn note_given_up(
        &mut self,
        ledger: &MachineLedger,
        file: &FileRef,
        into: Option<&DatasetKey>,
    ) {
        let Some(id) = &file.id else { return };
        let newest = ledger.newest(file.series, id);
        let same = into.zip(newest.as_ref()).is_some_and(|(into, newest)| into.same_group(newest));
        let unfinished = newest.is_some_and(|newest| ledger.status(&newest) == Standing::Open);
        if same || unfinished || ledger.ending {
            return;
        }
        let seen = &mut self.distances[file.series];
        *seen = (*seen).max(self.courses[file.series].distance(id));
    }

    /// Notes that all know of a checkpoint that has begun.
    pub fn note_course(&mut self, ledger: &mut MachineLedger, key: &DatasetKey) {
        if key.id.is_empty() {
            return;
        }
        // At distance 0 it is a late part of what it replaces.
        let replaced = self.courses[key.series].begun(&key.id).filter(|newer| *newer > 0);
        self.note_distance(ledger, key.series, replaced);
    }

    /// Begins with the checkpoints that the restart and the prefix's index know.
    pub fn resume_course(&mut self, resumed: &Resumed) {
        let mut known: Vec<_> = resumed.listed.clone();
        let offered = resumed.decision.offered.iter();
        known.extend(offered.map(|one| (one.key.series, one.key.id.clone(), one.number)));
        known.sort_by_key(|(_, _, number)| *number);
        for (series, id, _) in known.iter().filter(|(_, id, _)| !id.is_empty()) {
            self.courses[*series].begun(id);
        }
    }

    /// Learns from what the ranks have seen, the same on all.
    pub fn note_distance(
        &mut self,
        ledger: &mut MachineLedger,
        series: usize,
        distance: Option<u64>,
    ) {
        if !ledger.is_kept_series(series) {
            return;
        }
        let shared = &mut ledger.shared.series[series];
        let habit = &mut self.habits[series];
        shared.learned |= distance.is_some_and(|distance| habit.given_up(distance));
    }

    /// Makes due what the program keeps for longer than was its habit, the oldest first; what has
    /// to go, since some rank has no room for two more like it, before that.
    pub fn make_kept_due(&mut self, ledger: &mut MachineLedger, index: usize, scarce: bool) {
        if !ledger.is_kept_series(index) {
            return;
        }
        let joins = ledger.config.series[index].joins_generations();
        for at in 0..ledger.shared.series[index].datasets.len() {
            let series = &ledger.shared.series[index];
            let dataset = &series.datasets[at];
            let places = ledger.kept_in(index, ledger.store_of(index, dataset.number));
            let newer = series.confirmed_after(at, joins, &|_| true);
            let sealed = dataset.state == DatasetState::Confirmed || dataset.is_second_rate();
            let waits = sealed && dataset.is_kept() && !dataset.due;
            let outlived = newer >= self.habits[index].patience(places);
            let coming = series.datasets.iter().any(|one| one.due && !one.flushed);
            if !waits || !(outlived || (scarce && newer > 0 && !coming)) {
                continue;
            }
            let series = &mut ledger.shared.series[index];
            series.datasets[at].due = true;
            series.learned |= outlived && self.habits[index].outlived();
        }
    }
}
