//! The state machine driven by hand: datasets that are output.

use scr_core::machine::{OutputSeries, SeriesConfig};

use super::machine::Ranks;

#[test]
fn output_leaves_the_cache_once_it_is_on_the_prefix_unless_it_is_a_checkpoint_too() {
    for (output, kept) in [(OutputSeries::Only, 0), (OutputSeries::Checkpoints, 2)] {
        let config = SeriesConfig { output, ..SeriesConfig::new("viz", true) };
        let mut ranks = Ranks::of(2, SeriesConfig { learn: false, ..config });
        for id in 1..=4 {
            for rank in 0..2 {
                ranks.write(rank, "{id}/a", id);
            }
            (0..4).for_each(|_| ranks.sync(200));
        }
        // Known to be complete by its files, the newest as well.
        assert_eq!(ranks.flushed.len(), 4);
        assert_eq!(ranks.machines[0].datasets(0).len(), kept, "{:?}", ranks.machines[0]);
    }
}
