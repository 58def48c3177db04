//! Random programs of several threads and communicators: with the streams' agreements none waits
//! where it would not without, and all ranks do the same things, one at a time.

mod program;
mod world;

use program::Program;
use world::{Mistake, run};

/// Programs that each test tries.
const PROGRAMS: u64 = 2000;

fn first_fault(mistake: Mistake) -> Option<String> {
    let random = (0..2000).map(|seed| (Program::random(seed, true), seed));
    let crossed = (0..20).map(|seed| (Program::of_two_threads(2, 200), seed));
    random
        .chain(crossed)
        .find_map(|(program, seed)| run(&program, seed, false, Some(mistake)).err())
}

#[test]
fn no_program_hangs_that_would_not_without_us() {
    let mut acts = 0;
    for seed in 0..PROGRAMS {
        let program = Program::random(seed, seed % 4 == 0);
        if seed % 4 == 0 {
            run(&program, seed, true, None).unwrap_or_else(|fault| panic!("plain {seed}: {fault}"));
        }
        acts += run(&program, seed, false, None).unwrap_or_else(|fault| panic!("{seed}: {fault}"));
    }
    assert!(acts as u64 > 20 * PROGRAMS, "{acts}");
}

#[test]
fn threads_that_are_always_in_a_call_agree() {
    for seed in 0..50 {
        let acts = run(&Program::of_two_threads(2, 400), seed, false, None).unwrap();
        assert!(acts > 80, "{seed}: {acts}");
    }
}

#[test]
fn a_thread_that_sits_in_a_call_keeps_nobody_from_agreeing() {
    for seed in 0..50 {
        let program = Program::with_one_that_sits(3, 300);
        let acts = run(&program, seed, false, None).unwrap();
        assert!(acts > 80, "{seed}: {acts}");
    }
    let starved = |seed: &u64| {
        let program = Program::with_one_that_sits(3, 300);
        run(&program, *seed, false, Some(Mistake::NeverMeets)).unwrap() < 40
    };
    assert!((0..50).any(|seed| starved(&seed)));
}

#[test]
fn mistakes_are_found() {
    for mistake in [
        Mistake::WaitsForTurn,
        Mistake::ActsAnyway,
        Mistake::OwnStride,
        Mistake::EndsSilently,
        Mistake::PlacesAnyway,
    ] {
        assert!(first_fault(mistake).is_some(), "{mistake:?}");
    }
    let kept = run(&Program::of_two_threads(2, 400), 1, false, Some(Mistake::KeepsTurn)).unwrap();
    assert!(kept < 400 && kept < run(&Program::of_two_threads(2, 400), 1, false, None).unwrap());
}
