//! The state machine driven by hand: seals and confirmations fail, and a rank falls back.

use scr_core::machine::{CompleteBy, DatasetState, SeriesConfig, Step};

use super::machine::Ranks;

const MASKED: &str = "step_{id}/state";

/// Two ranks of a program whose checkpoints have known sets of files from the first one on.
fn ranks(seals_once: bool) -> Ranks {
    let complete = if seals_once { CompleteBy::FirstSeal } else { CompleteBy::Files };
    let config = SeriesConfig { learn: false, complete, ..SeriesConfig::new("state", true) };
    Ranks::of(2, config)
}

impl Ranks {
    /// Both ranks write checkpoint `id`, with one collective after it. Whether it went to the PFS.
    fn checkpoint(&mut self, id: u64) -> bool {
        let on_prefix = [0, 1].map(|rank| self.write(rank, MASKED, id));
        assert_eq!(on_prefix[0], on_prefix[1]);
        self.sync(200);
        on_prefix[0]
    }

    fn state(&self, id: u64) -> Option<DatasetState> {
        let mut all = self.machines[0].datasets(0).iter();
        all.find(|one| one.key.id == id.to_string()).map(|one| one.state)
    }

    /// Dataset ids of the seals that were tried, and whether they were of files on the PFS.
    fn seals(&self) -> Vec<(u64, bool)> {
        let seal = |step: &Step| match step {
            Step::Seal(plan) => Some((plan.id, plan.on_prefix)),
            _ => None,
        };
        self.steps.iter().filter_map(seal).collect()
    }

    fn count(&self, wanted: fn(&Step) -> bool) -> usize {
        self.steps.iter().filter(|step| wanted(step)).count()
    }
}

#[test]
fn a_passing_error_costs_nothing_and_the_next_try_has_the_same_id() {
    let mut ranks = ranks(true);
    ranks.failing = 2;
    ranks.checkpoint(1);
    assert_eq!(ranks.seals(), [(1, false); 3]);
    assert_eq!(ranks.state(1), Some(DatasetState::Confirmed));
    assert!(!ranks.checkpoint(2));
    assert_eq!(ranks.state(2), Some(DatasetState::Confirmed));
}

#[test]
fn what_cannot_be_sealed_in_the_cache_is_sealed_on_the_prefix_and_the_next_is_cached() {
    let mut ranks = ranks(true);
    ranks.failing = 3;
    ranks.checkpoint(1);
    assert_eq!(ranks.seals(), [(1, false), (1, false), (1, false), (1, true)]);
    assert_eq!(ranks.state(1), Some(DatasetState::Confirmed));
    assert!(ranks.machines[0].datasets(0)[0].flushed);
    assert!(!ranks.checkpoint(2));
    assert_eq!(ranks.state(2), Some(DatasetState::Confirmed));
    assert_eq!(ranks.count(|step| matches!(step, Step::GiveUp { .. })), 0);
}

#[test]
fn what_cannot_be_sealed_at_all_is_on_the_prefix_and_holds_nothing_up() {
    let mut ranks = ranks(true);
    ranks.checkpoint(1);
    ranks.failing = 6;
    ranks.checkpoint(2);
    assert_eq!(ranks.state(2), Some(DatasetState::Dropped));
    assert_eq!(ranks.count(|step| matches!(step, Step::Spill { .. })), 1);
    assert_eq!(ranks.count(|step| matches!(step, Step::GiveUp { .. })), 1);
    assert!(ranks.machines.iter().all(|one| !one.has_cached(&one.datasets(0)[1].key)));
    // The older one stays until the newer one is complete.
    assert_eq!(ranks.state(1), Some(DatasetState::Confirmed));
    assert!(!ranks.checkpoint(3));
    assert_eq!(ranks.state(3), Some(DatasetState::Confirmed));
}

#[test]
fn after_three_of_them_in_a_row_all_ranks_write_to_the_prefix() {
    let mut ranks = ranks(true);
    ranks.failing = u32::MAX;
    for id in 1..=3 {
        assert!(!ranks.checkpoint(id), "{id}");
        assert_eq!(ranks.state(id), Some(DatasetState::Dropped));
        let fallen_back = ranks.machines.iter().all(|one| one.has_fallen_back());
        assert_eq!(fallen_back, id == 3);
    }
    assert!(ranks.checkpoint(4));
    // Nothing is to be brought there, and the other ranks are not held up.
    assert_eq!(ranks.count(|step| matches!(step, Step::Spill { .. })), 3);
    ranks.failing = 0;
    assert!(ranks.checkpoint(5));
    assert_eq!(ranks.state(5), Some(DatasetState::Confirmed));
}

#[test]
fn one_that_is_sealed_between_them_begins_the_count_anew() {
    let mut ranks = ranks(true);
    for id in 1..=6 {
        ranks.failing = if id == 3 { 0 } else { 6 };
        assert_eq!(ranks.checkpoint(id), id == 7, "{id}");
    }
    assert!(ranks.machines[0].has_fallen_back());
}

#[test]
fn what_lacks_a_marker_goes_to_the_prefix_whatever_its_number() {
    for lacks in [false, true] {
        let mut ranks = ranks(true);
        ranks.checkpoint(1);
        let key = ranks.machines[0].datasets(0)[0].key.clone();
        if lacks {
            ranks.machines.iter_mut().for_each(|machine| machine.lacks_marker(&key));
        }
        ranks.checkpoint(2);
        assert_eq!(ranks.count(|step| matches!(step, Step::Flush { .. })), usize::from(lacks));
        assert_eq!(ranks.state(1), Some(DatasetState::Confirmed));
    }
}

#[test]
fn a_rank_that_falls_back_takes_all_others_along() {
    let mut ranks = ranks(true);
    ranks.checkpoint(1);
    ranks.machines[1].fall_back();
    // Its own files at once, those of the others when they have heard.
    assert_eq!([0, 1].map(|rank| ranks.write(rank, MASKED, 2)), [false, true]);
    ranks.sync(200);
    assert!(ranks.machines.iter().all(|one| one.has_fallen_back()));
    assert_eq!(ranks.state(2), Some(DatasetState::Confirmed));
    assert!(ranks.checkpoint(3));
    assert_eq!(ranks.state(3), Some(DatasetState::Confirmed));
    ranks.end();
}
