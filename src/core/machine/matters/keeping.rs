//! How long a program keeps its checkpoints. What it deletes by itself never has to reach the PFS,
//! so a checkpoint waits in the cache for as long as this program was seen to take. What stays
//! longer is kept by the program, and flushed in the background before its place is needed.

use crate::machine::state::{DatasetState, RunFacts, Status};
use crate::machine::terms::{DatasetKey, FileRef, Habit, Knowledge, RecentIds, Resumed};

#[derive(Debug, Clone)]
pub struct Keeping {
    /// Equal on all ranks.
    habits: Vec<Habit>,
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

    pub fn take_distance(&mut self, series: usize) -> Option<u64> {
        self.distances[series].take()
    }

    /// Notes that the program deletes a file of a checkpoint that it had written, or moves it away.
    pub fn note_given_up(&mut self, facts: &RunFacts, file: &FileRef, into: Option<&DatasetKey>) {
        let Some(id) = &file.id else { return };
        let newest = facts.newest(file.series, id);
        let same = into.zip(newest.as_ref()).is_some_and(|(into, newest)| into.same_group(newest));
        let unfinished = newest.is_some_and(|newest| facts.status(&newest) == Status::Open);
        if same || unfinished || facts.ending {
            return;
        }
        let seen = &mut self.distances[file.series];
        *seen = (*seen).max(self.courses[file.series].distance(id));
    }

    /// Notes that all know of a checkpoint that has begun.
    pub fn note_course(&mut self, facts: &mut RunFacts, key: &DatasetKey) {
        if key.id.is_empty() {
            return;
        }
        // At distance 0 it is a late part of what it replaces.
        let replaced = self.courses[key.series].begun(&key.id).filter(|newer| *newer > 0);
        self.note_distance(facts, key.series, replaced);
    }

    pub fn resume_course(&mut self, resumed: &Resumed) {
        let mut known: Vec<_> = resumed.listed.clone();
        let offered = resumed.decision.offered.iter();
        known.extend(offered.map(|one| (one.key.series, one.key.id.clone(), one.number)));
        known.sort_by_key(|(_, _, number)| *number);
        for (series, id, _) in known.iter().filter(|(_, id, _)| !id.is_empty()) {
            self.courses[*series].resume(id);
        }
    }

    pub fn note_distance(&mut self, facts: &mut RunFacts, series: usize, distance: Option<u64>) {
        if !facts.is_kept_series(series) {
            return;
        }
        let shared = &mut facts.shared.series[series];
        let habit = &mut self.habits[series];
        shared.learned |= distance.is_some_and(|distance| habit.given_up(distance));
    }

    /// Makes due what the program keeps for longer than was its habit; the oldest before that,
    /// where some rank has no room for two more.
    pub fn make_kept_due(&mut self, facts: &mut RunFacts, index: usize, scarce: bool) {
        if !facts.is_kept_series(index) {
            return;
        }
        let joins = facts.config.series[index].joins_generations();
        for at in 0..facts.shared.series[index].datasets.len() {
            let series = &facts.shared.series[index];
            let dataset = &series.datasets[at];
            let places = facts.kept_in(index, facts.store_of(index, dataset.number));
            let newer = series.confirmed_after(at, joins, &|_| true);
            let sealed = dataset.state == DatasetState::Confirmed || dataset.is_second_rate();
            let waits = sealed && dataset.is_kept() && !dataset.due;
            let outlived = newer >= self.habits[index].patience(places);
            let coming = series.datasets.iter().any(|one| one.due && !one.flushed);
            if !waits || !(outlived || (scarce && newer > 0 && !coming)) {
                continue;
            }
            let series = &mut facts.shared.series[index];
            series.datasets[at].due = true;
            series.learned |= outlived && self.habits[index].outlived();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::state::testing::{facts, file, share};

    #[test]
    fn what_is_kept_for_longer_than_its_program_was_seen_to_take_is_due() {
        // The distance at which the program gave one up; which of four are due then.
        let rows: [(Option<u64>, &[bool]); 3] = [
            (None, &[true, false, false, false]),
            (Some(1), &[true, true, false, false]),
            (Some(0), &[true, true, true, false]),
        ];
        for (distance, expected) in rows {
            let mut facts = facts(true);
            (facts.config.series[0].keeps, facts.config.series[0].flush_every) = (true, 0);
            let mut keeping = Keeping::new(1, &[]);
            for id in ["1", "2", "3", "4"] {
                share(&mut facts, &DatasetKey::new(0, id, 0), DatasetState::Confirmed);
            }
            facts.shared.series[0].datasets.iter_mut().for_each(|one| one.told.kept = true);
            keeping.note_distance(&mut facts, 0, distance);
            keeping.make_kept_due(&mut facts, 0, false);
            let due = facts.shared.series[0].datasets.iter().map(|one| one.due);
            assert_eq!(due.collect::<Vec<_>>(), expected, "{distance:?}");
        }
    }

    #[test]
    fn only_files_of_checkpoints_that_are_over_tell_a_distance() {
        let (mut facts, mut keeping) = (facts(true), Keeping::new(1, &[]));
        for (id, state) in [("1", DatasetState::Confirmed), ("2", DatasetState::Open)] {
            share(&mut facts, &DatasetKey::new(0, id, 0), state);
            keeping.note_course(&mut facts, &DatasetKey::new(0, id, 0));
        }
        keeping.note_given_up(&facts, &file("2", "s2"), None);
        assert_eq!(keeping.take_distance(0), None, "it is in progress");
        keeping.note_given_up(&facts, &file("1", "s1"), None);
        assert_eq!((keeping.take_distance(0), keeping.take_distance(0)), (Some(1), None));
    }
}
