//! What a pointer file brings to the prefix: a name without id beside those of checkpoints with
//! one.

use scr_core::machine::SeriesConfig;

use super::machine::Ranks;

fn ranks(flush_every: u64, cache_size: usize) -> Ranks {
    let config = SeriesConfig { learn: false, flush_every, ..SeriesConfig::new("data", true) };
    Ranks::of(2, SeriesConfig { cache_size, ..config })
}

fn write(ranks: &mut Ranks, id: u64) {
    for rank in 0..2 {
        ranks.write(rank, &format!("{{id}}/r{rank}"), id);
    }
}

/// Time for a seal and its confirmation.
fn calm(ranks: &mut Ranks) {
    (0..8).for_each(|_| ranks.sync(10));
}

fn flushed(ranks: &Ranks) -> Vec<&str> {
    ranks.flushed.iter().map(|key| key.id.as_str()).collect()
}

#[test]
fn one_that_every_checkpoint_has_takes_no_other_there_than_those_that_are_due() {
    for (flush_every, cache_size, wanted) in
        [(2, 2, &["2", "4", "6"][..]), (6, 5, &["6"]), (0, 1, &["6"])]
    {
        let mut ranks = ranks(flush_every, cache_size);
        for id in 1..=6 {
            write(&mut ranks, id);
            calm(&mut ranks);
            ranks.write(0, "latest", id);
            calm(&mut ranks);
        }
        ranks.end();
        assert_eq!(flushed(&ranks), wanted, "SCR_FLUSH={flush_every}");
    }
}

#[test]
fn nor_does_it_at_the_end_when_the_last_is_sealed_there() {
    let mut ranks = ranks(0, 2);
    for id in 1..=3 {
        write(&mut ranks, id);
        ranks.write(0, "latest", id);
        if id < 3 {
            calm(&mut ranks);
        }
    }
    ranks.end();
    assert_eq!(flushed(&ranks), ["3"]);
}

#[test]
fn what_only_an_older_one_has_goes_with_the_one_that_is_due() {
    let mut ranks = ranks(2, 2);
    ranks.write(0, "mesh", 1);
    for id in 1..=4 {
        write(&mut ranks, id);
        calm(&mut ranks);
    }
    assert_eq!(flushed(&ranks), ["1", "2", "4"]);
}

#[test]
fn a_pointer_comes_there_with_what_it_names() {
    let mut ranks = ranks(2, 2);
    for id in 1..=2 {
        write(&mut ranks, id);
        ranks.write(0, "latest", id);
        calm(&mut ranks);
    }
    assert_eq!(flushed(&ranks), ["2"]);
    // It still names the second one, when the third is the newest.
    write(&mut ranks, 3);
    ranks.end();
    assert_eq!(flushed(&ranks), ["2", "3"]);
}

#[test]
fn one_that_waits_in_vain_for_a_checkpoint_of_its_series_is_told_of() {
    let config = |name| SeriesConfig { learn: false, ..SeriesConfig::new(name, true) };
    for (pointers_series, told) in [(1, true), (0, false)] {
        let mut ranks = Ranks::of_all(2, vec![config("data"), config("other")]);
        for id in 1..=3 {
            write(&mut ranks, id);
            calm(&mut ranks);
            assert_eq!(ranks.machines[0].stray().is_some(), told && id > 1, "checkpoint {id}");
            ranks.write_to(pointers_series, 0, "latest", id);
            calm(&mut ranks);
        }
        let waits = told.then_some((1, "latest"));
        assert_eq!(ranks.machines[0].stray(), waits);
        assert_eq!(ranks.machines[1].stray(), None, "it has no such file");
        // The first checkpoint of its series takes it.
        ranks.write_to(1, 1, "{id}/other", 1);
        calm(&mut ranks);
        assert_eq!(ranks.machines[0].stray(), None);
    }
}

#[test]
fn one_stays_with_a_checkpoint_in_the_cache_when_its_rank_falls_back() {
    let mut ranks = ranks(0, 2);
    write(&mut ranks, 1);
    ranks.machines[0].fall_back();
    assert!(!ranks.write(0, "latest", 1));
    assert!(ranks.write(0, "{id}/r0", 2));
    // Rank 1 has not heard of it.
    assert!(!ranks.write(1, "{id}/r1", 2) && !ranks.write(0, "latest", 2));
    calm(&mut ranks);
    write(&mut ranks, 3);
    assert!(ranks.write(0, "latest", 3), "all write there");
}
