//! Mistakes that were made on purpose: each is found by a death somewhere.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use scr_core::system::Planted;

use super::cluster::Mistake;
use super::deaths::{JOBS, schedules, trial};
use crate::mortal::{Careless, What};

/// Goes through all deaths so often at most: threads are not replayed exactly, so a mistake that
/// shows in a short moment only may be missed once.
const PASSES: usize = 6;

/// Tries until a promise is broken.
fn is_found(mistake: Mistake, what: What, job: usize) -> bool {
    let mut all = schedules(JOBS[job], what, |_| true);
    Rng::with_seed(1).shuffle(&mut all);
    let breaks = |at: usize| {
        let (job, plan) = all[at % all.len()];
        catch_unwind(AssertUnwindSafe(|| trial(job, plan, Some(mistake)))).is_err()
    };
    let found = (0..PASSES * all.len()).find(|at| breaks(*at));
    eprintln!("{mistake:?}: found {found:?} in {} deaths, several times over", all.len());
    found.is_some()
}

#[test]
fn what_is_not_made_durable_is_found() {
    for (careless, job) in [(Careless::Data, 0), (Careless::Records, 0), (Careless::Directories, 0)]
    {
        assert!(is_found(Mistake::Careless(careless), What::Power, job));
    }
}

#[test]
fn names_before_data_are_found() {
    assert!(is_found(Mistake::Careless(Careless::RecordInPlace), What::Rank, 0));
    assert!(is_found(Mistake::Careless(Careless::FlushInPlace), What::Node, 0));
}

#[test]
fn what_is_never_removed_is_found() {
    assert!(is_found(Mistake::Careless(Careless::Removal), What::Rank, 0));
}

#[test]
fn older_ones_that_go_too_early_are_found() {
    assert!(is_found(Mistake::Planted(Planted::EvictEarly), What::Rank, 0));
    assert!(is_found(Mistake::Planted(Planted::ClearEarly), What::Rank, 0));
}

#[test]
fn missing_redundancy_is_found() {
    assert!(is_found(Mistake::Planted(Planted::NoRedundancy), What::Node, 1));
}

#[test]
fn sets_that_are_lost_with_a_node_are_found() {
    assert!(is_found(Mistake::Planted(Planted::NodesUnheeded), What::Node, 1));
}
