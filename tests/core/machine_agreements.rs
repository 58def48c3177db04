//! How many agreements a checkpoint in progress costs.

use scr_core::session::machine::{FileRef, Intent, Placement, SeriesConfig};

use super::machine::Ranks;

/// Agreements of so many collectives while a file is open, `fast` of them in each `ms`.
fn agreements(collectives: u64, fast: u64, ms: u64) -> u64 {
    let mut ranks = Ranks::of(1, SeriesConfig { learn: false, ..SeriesConfig::new("s", false) });
    let name = "state".to_string();
    let file = FileRef { series: 0, id: None, masked: name.clone(), name, temporary: false };
    let placement = ranks.machines[0].write_open(&file, Intent::REWRITE, 0);
    assert!(matches!(placement, Placement::Dataset(_)), "{placement:?}");
    (1..=collectives).for_each(|at| ranks.sync(if at % fast == 0 { ms } else { 0 }));
    ranks.agreements
}

#[test]
fn fast_collectives_share_one_and_slow_ones_have_each_their_own() {
    let shared = agreements(200, 10, 1);
    assert!((50..=70).contains(&shared), "{shared}");
    assert_eq!(agreements(100, 1, 1), 100);
    assert_eq!(agreements(20, 1, 10), 20);
}
