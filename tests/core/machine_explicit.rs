//! The state machine driven by hand: datasets whose boundary the program gives.

use scr_core::machine::{CompleteBy, DatasetKey, DatasetState, FileRef, SeriesConfig, Step};

use super::machine::Ranks;

fn ranks(count: usize, change: impl Fn(SeriesConfig) -> SeriesConfig) -> Ranks {
    let config = SeriesConfig {
        complete: CompleteBy::Program,
        learn: false,
        ..SeriesConfig::new("api", true)
    };
    Ranks::of(count, change(config))
}

/// All ranks begin `id`, and these write a file of it.
fn begin(ranks: &mut Ranks, id: &str, writers: &[usize]) -> DatasetKey {
    begin_as(ranks, id, false, writers)
}

fn begin_as(ranks: &mut Ranks, id: &str, output: bool, writers: &[usize]) -> DatasetKey {
    let now = ranks.now_ms;
    let begun = ranks.machines.iter_mut().map(|one| one.begin_explicit(0, id, output, now));
    let keys: Vec<DatasetKey> = begun.collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    for rank in writers {
        let name = format!("{id}/f{rank}");
        let (masked, id) = (format!("{{id}}/{rank}"), Some(id.to_string()));
        let file = FileRef { series: 0, id, name, masked, temporary: false };
        let placed = ranks.machines[*rank].add_explicit(&file, &keys[0], None, now);
        assert!(placed.key == keys[0] && !placed.is_on_prefix(), "{placed:?}");
    }
    keys[0].clone()
}

fn complete_on(ranks: &mut Ranks, rank: usize, key: &DatasetKey, wrote: bool) {
    let sizes = wrote.then(|| (format!("{}/f{rank}", key.id), 100));
    let now = ranks.now_ms;
    ranks.machines[rank].complete_explicit(key, sizes.as_slice(), now);
}

fn write(ranks: &mut Ranks, id: &str) -> DatasetKey {
    let all: Vec<usize> = (0..ranks.machines.len()).collect();
    let key = begin(ranks, id, &all);
    all.iter().for_each(|rank| complete_on(ranks, *rank, &key, true));
    ranks.confer();
    key
}

fn states(ranks: &Ranks, key: &DatasetKey) -> Vec<Option<DatasetState>> {
    ranks.machines.iter().map(|one| one.state_of(key)).collect()
}

#[test]
fn it_is_sealed_and_confirmed_by_the_conference_after_its_end_and_not_before() {
    let mut ranks = ranks(3, |config| config);
    // The last rank has no file.
    let key = begin(&mut ranks, "a", &[0, 1]);
    complete_on(&mut ranks, 0, &key, true);
    complete_on(&mut ranks, 2, &key, false);
    // However long it is quiet: rank 1 has not said that it is complete.
    (0..5).for_each(|_| ranks.sync(1000));
    ranks.confer();
    assert!(states(&ranks, &key).iter().all(|state| *state != Some(DatasetState::Confirmed)));
    assert!(!ranks.steps.iter().any(|step| matches!(step, Step::Seal(_))), "{:?}", ranks.steps);
    complete_on(&mut ranks, 1, &key, true);
    ranks.confer();
    assert_eq!(states(&ranks, &key), [Some(DatasetState::Confirmed); 3]);
}

#[test]
fn invalid_on_one_rank_drops_it_everywhere_and_keeps_the_one_before() {
    let mut ranks = ranks(2, |config| SeriesConfig { cache_size: 1, ..config });
    let good = write(&mut ranks, "good");
    let bad = begin(&mut ranks, "bad", &[0, 1]);
    (0..2).for_each(|rank| complete_on(&mut ranks, rank, &bad, true));
    let now = ranks.now_ms;
    ranks.machines[1].failed(&bad, "the program says so", now);
    ranks.confer();
    ranks.confer();
    for state in states(&ranks, &bad) {
        assert!(matches!(state, None | Some(DatasetState::Dropped)), "{state:?}");
    }
    assert_eq!(states(&ranks, &good), [Some(DatasetState::Confirmed); 2]);
    let newer = write(&mut ranks, "newer");
    ranks.confer();
    assert_eq!(states(&ranks, &newer), [Some(DatasetState::Confirmed); 2]);
    assert_eq!(states(&ranks, &good), [None; 2], "one is kept");
}

#[test]
fn a_name_that_is_given_again_is_another_dataset() {
    let mut ranks = ranks(2, |config| config);
    let (first, second) = (write(&mut ranks, "same"), write(&mut ranks, "same"));
    assert!(second.generation > first.generation, "{first:?} {second:?}");
    let third = write(&mut ranks, "same");
    ranks.confer();
    let datasets = ranks.machines[0].datasets(0);
    let kept: Vec<&DatasetKey> = datasets.iter().map(|one| &one.key).collect();
    assert_eq!(kept, [&second, &third]);
    assert_eq!(ranks.machines[0].next_id(), 4);
}

#[test]
fn what_was_rejected_is_no_checkpoint_any_more() {
    let mut ranks = ranks(2, |config| config);
    let (old, bad) = (write(&mut ranks, "old"), write(&mut ranks, "bad"));
    ranks.machines.iter_mut().for_each(|one| one.reject(&bad));
    assert_eq!(states(&ranks, &bad), [Some(DatasetState::Dropped); 2]);
    assert_eq!(states(&ranks, &old), [Some(DatasetState::Confirmed); 2]);
    // It is not what the prefix gets at the end.
    ranks.end();
    assert_eq!(ranks.flushed, [old]);
}

#[test]
fn one_that_is_open_cannot_be_rejected() {
    let mut ranks = ranks(1, |config| config);
    let key = begin(&mut ranks, "a", &[0]);
    ranks.machines[0].reject(&key);
    complete_on(&mut ranks, 0, &key, true);
    ranks.confer();
    assert_eq!(states(&ranks, &key), [Some(DatasetState::Confirmed)]);
}

#[test]
fn output_is_due_and_a_checkpoint_by_its_number() {
    let mut ranks = ranks(2, |config| SeriesConfig { flush_every: 3, cache_size: 9, ..config });
    write(&mut ranks, "first");
    let both = begin_as(&mut ranks, "both", true, &[0, 1]);
    (0..2).for_each(|rank| complete_on(&mut ranks, rank, &both, true));
    ranks.confer();
    assert!(ranks.machines.iter().all(|one| one.is_output(&both)));
    assert!(ranks.flushed.iter().eq([&both]), "{:?}", ranks.flushed);
    let third = write(&mut ranks, "third");
    assert_eq!(ranks.flushed, [both, third]);
}

#[test]
fn a_seal_that_fails_is_done_again() {
    let mut ranks = ranks(2, |config| config);
    ranks.failing = 1;
    let key = write(&mut ranks, "a");
    for _ in 0..4 {
        ranks.sync(1000);
        ranks.confer();
    }
    assert_eq!(states(&ranks, &key), [Some(DatasetState::Confirmed); 2]);
}
