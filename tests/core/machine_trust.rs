//! The state machine driven by hand: a checkpoint that is left alone for longer than it took may
//! be offered after the loss of a node, if nothing is known to be complete, or it has all names of
//! that and more. It is not confirmed by it.

use scr_core::machine::{DatasetState, SeriesConfig, Step};

use super::machine::Ranks;

const STATE: &str = "step_{id}/state";
const HEADER: &str = "step_{id}/header";

fn ranks() -> Ranks {
    Ranks::of(2, SeriesConfig { learn: false, ..SeriesConfig::new("state", true) })
}

impl Ranks {
    /// Ids of the datasets that a step was to trust, and how often each.
    fn trusted(&self) -> Vec<u64> {
        let id = |step: &Step| match step {
            Step::Trust { id, .. } => Some(*id),
            _ => None,
        };
        self.steps.iter().filter_map(id).collect()
    }

    fn first_state(&self) -> DatasetState {
        self.machines[0].datasets(0)[0].state
    }

    /// The program computes for so long, with a collective each 10 ms.
    fn compute(&mut self, ms: u64) {
        (0..ms / 10).for_each(|_| self.sync(10));
    }

    /// Both ranks write their files of checkpoint 1 in so many milliseconds.
    fn write_slowly(&mut self, ms: u64) {
        self.write(0, STATE, 1);
        self.now_ms += ms;
        self.write(1, STATE, 1);
    }
}

#[test]
fn the_first_checkpoint_is_trusted_once_it_was_left_alone_for_longer_than_it_took() {
    let mut ranks = ranks();
    ranks.write_slowly(400);
    ranks.compute(380);
    assert_eq!((ranks.first_state(), ranks.trusted()), (DatasetState::Provisional, vec![]));
    ranks.compute(1000);
    assert_eq!((ranks.first_state(), ranks.trusted()), (DatasetState::Provisional, vec![1]));
}

#[test]
fn what_is_written_to_it_later_is_part_of_it_and_needs_trust_anew() {
    let mut ranks = ranks();
    ranks.write_slowly(0);
    ranks.compute(300);
    assert_eq!(ranks.trusted(), [1]);
    ranks.write(0, HEADER, 1);
    ranks.compute(200);
    assert_eq!(ranks.machines[0].datasets(0).len(), 1);
    assert_eq!(ranks.trusted(), [1]); // it has taken 400 ms by now
    ranks.compute(1000);
    assert_eq!(ranks.trusted(), [1, 1]);
    ranks.write(0, STATE, 2);
    ranks.compute(20);
    assert_eq!(ranks.first_state(), DatasetState::Confirmed);
}

#[test]
fn where_something_is_known_to_be_complete_what_lacks_names_of_it_is_not_trusted() {
    let mut ranks = ranks();
    for id in 1..=2 {
        for rank in 0..2 {
            ranks.write(rank, STATE, id);
        }
        ranks.sync(100);
    }
    ranks.write(0, STATE, 3);
    ranks.write(1, HEADER, 3);
    ranks.compute(1000);
    assert_eq!(ranks.machines[0].datasets(0).last().unwrap().state, DatasetState::Provisional);
    assert_eq!(ranks.trusted(), []);
}

#[test]
fn one_that_has_all_names_of_those_before_it_and_more_is_trusted() {
    let mut ranks = ranks();
    for id in 1..=2 {
        for rank in 0..2 {
            ranks.write(rank, STATE, id);
        }
        ranks.sync(100);
    }
    (0..2).for_each(|rank| _ = ranks.write(rank, STATE, 3));
    ranks.write(1, HEADER, 3);
    ranks.compute(1000);
    assert_eq!(ranks.machines[0].datasets(0).last().unwrap().state, DatasetState::Provisional);
    assert_eq!(ranks.trusted(), [3]);
}
