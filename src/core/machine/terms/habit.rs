//! At which distance a program deletes, or writes over, its own checkpoints.

use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Habit {
    /// The most newer checkpoints that there were when the program gave one up; `None`: it was not
    /// seen to.
    pub distance: Option<u64>,
    pub outlived: u64,
}

impl Habit {
    /// A program that keeps so many checkpoints in a row is taken to keep all: none is waited for.
    const OUTLIVED_MAX: u64 = 8;
    const DISTANCE_MAX: usize = 16;

    /// Tells how many newer complete checkpoints there have to be before one is flushed. Until more
    /// is known, the program is expected to keep what the store is made for, `places`.
    pub fn patience(&self, places: usize) -> usize {
        match self.distance {
            _ if self.keeps_all() => 0,
            Some(distance) => distance as usize + 1,
            None => places + 1,
        }
    }

    fn keeps_all(&self) -> bool {
        self.outlived >= Self::OUTLIVED_MAX
    }

    /// Tells whether it is news that the program gives a checkpoint up at this distance.
    pub fn given_up(&mut self, distance: u64) -> bool {
        let before = *self;
        self.outlived = 0;
        self.distance = self.distance.max(Some(distance));
        before.keeps_all() || before.distance != self.distance
    }

    /// Tells whether it is news that one more checkpoint was there for longer.
    pub fn outlived(&mut self) -> bool {
        let before = *self;
        self.outlived = (self.outlived + 1).min(Self::OUTLIVED_MAX);
        before.keeps_all() != self.keeps_all()
    }
}

/// The captured ids of the last checkpoints of a series that all know of, the newest last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentIds {
    ids: VecDeque<String>,
    /// Those that an earlier launch has left.
    resumed: BTreeSet<String>,
}

impl RecentIds {
    /// Takes one that an earlier launch has left.
    pub fn resume(&mut self, id: &str) {
        self.begun(id);
        self.resumed.insert(id.to_owned());
    }

    /// Returns the distance at which the new checkpoint replaces an older one of this launch: who
    /// goes back, or begins afresh, writes those of an earlier one anew, and has not kept so many.
    pub fn begun(&mut self, id: &str) -> Option<u64> {
        let replaced = if self.resumed.remove(id) { None } else { self.distance(id) };
        self.ids.retain(|known| known != id);
        if self.ids.len() > Habit::DISTANCE_MAX {
            self.ids.pop_front();
        }
        self.ids.push_back(id.to_string());
        replaced
    }

    pub fn distance(&self, id: &str) -> Option<u64> {
        let newer = self.ids.iter().rev().position(|known| known == id);
        newer.map(|newer| newer as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_waits_for_as_long_as_its_program_was_seen_to_take() {
        let mut habit = Habit::default();
        assert_eq!(habit.patience(2), 3, "one more than the store is made for");
        assert!(habit.given_up(1) && !habit.given_up(1) && !habit.given_up(0));
        assert!(!habit.outlived());
        assert_eq!(habit.patience(5), 2);
        assert!(habit.given_up(4));
        assert_eq!(habit.patience(2), 5);
    }

    #[test]
    fn a_program_that_keeps_all_is_not_waited_for() {
        let mut habit = Habit::default();
        let news = (0..Habit::OUTLIVED_MAX + 1).map(|_| habit.outlived());
        assert_eq!(news.filter(|news| *news).count(), 1);
        assert_eq!(habit.patience(2), 0);
        assert!(habit.given_up(0), "it deletes after all");
        assert_eq!(habit.patience(2), 1);
    }

    #[test]
    fn the_course_of_a_series_tells_distances() {
        let mut course = RecentIds::default();
        let begun: Vec<_> = ["1", "2", "1", "2"].iter().map(|id| course.begun(id)).collect();
        assert_eq!(begun, [None, None, Some(1), Some(1)]);
        (10..40).for_each(|id| _ = course.begun(&id.to_string()));
        assert_eq!((course.distance("39"), course.distance("23")), (Some(0), Some(16)));
        assert_eq!((course.distance("22"), course.distance("2")), (None, None));
        course.resume("50");
        assert_eq!(
            ["51", "50", "51", "50"].map(|id| course.begun(id)),
            [None, None, Some(1), Some(1)]
        );
    }
}
