//! The state machine driven by hand: a rank could not write its file (docs/internals/machine.md: a
//! failed write, fsync or close votes invalid).

use scr_core::machine::{DatasetState, FileRef, Intent, Placement, SeriesConfig};

use super::machine::Ranks;

const MASKED: &str = "step_{id}/state";

impl Ranks {
    /// As [`Ranks::write`], but the store fails.
    fn fail_to_write(&mut self, rank: usize, id: u64) {
        let name = MASKED.replace("{id}", &id.to_string());
        let file = FileRef {
            series: 0,
            id: Some(id.to_string()),
            masked: MASKED.into(),
            name,
            temporary: false,
        };
        let (machine, now) = (&mut self.machines[rank], self.now_ms);
        let placement = machine.write_open(&file, Intent::REWRITE, now);
        let Placement::Dataset(placed) = placement else { panic!("not ours: {placement:?}") };
        machine.failed(&placed.key, "Input/output error", now);
        machine.write_closed(&placed.key, &file.name, 1, now);
    }

    /// State of each checkpoint that this rank knows, by id.
    fn states(&self, rank: usize) -> Vec<(String, DatasetState)> {
        let datasets = self.machines[rank].datasets(0).iter();
        datasets.map(|one| (one.key.id.clone(), one.state)).collect()
    }
}

#[test]
fn a_checkpoint_that_one_rank_could_not_write_is_given_up_by_all_and_replaces_nothing() {
    let config = SeriesConfig { flush_every: 1, ..SeriesConfig::new("state", true) };
    let mut ranks = Ranks::of(3, SeriesConfig { learn: false, ..config });
    let confirmed = |id: &str| (id.to_string(), DatasetState::Confirmed);
    for id in 1..=2 {
        (0..3).for_each(|rank| assert!(!ranks.write(rank, MASKED, id)));
        (0..4).for_each(|_| ranks.sync(200));
    }
    for rank in 0..3 {
        match rank {
            1 => ranks.fail_to_write(rank, 3),
            _ => assert!(!ranks.write(rank, MASKED, 3)),
        }
    }
    (0..4).for_each(|_| ranks.sync(200));
    for rank in 0..3 {
        let dropped = ("3".to_string(), DatasetState::Dropped);
        assert_eq!(ranks.states(rank), [confirmed("1"), confirmed("2"), dropped], "rank {rank}");
    }
    (0..3).for_each(|rank| assert!(!ranks.write(rank, MASKED, 4)));
    (0..4).for_each(|_| ranks.sync(200));
    assert_eq!(ranks.states(0), [confirmed("2"), confirmed("4")]);
    ranks.end();
    let flushed: Vec<_> = ranks.flushed.iter().map(|key| key.id.as_str()).collect();
    assert_eq!(flushed, ["1", "2", "4"]);
}
