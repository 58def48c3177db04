//! Numbers of datasets.

use scr_core::machine::SeriesConfig;

use super::machine::Ranks;

#[test]
fn ids_of_several_series_follow_the_order_in_which_the_program_began() {
    let series = |name: &str| SeriesConfig { learn: false, ..SeriesConfig::new(name, true) };
    let mut ranks = Ranks::of_all(2, vec![series("a"), series("b"), series("c")]);
    // They take turns, three times within the settle time.
    let order = [2, 0, 1, 0, 1, 2, 1, 0, 2];
    for (at, series) in order.iter().enumerate() {
        for rank in 0..2 {
            ranks.write_to(*series, rank, "{id}", at as u64);
        }
    }
    ranks.sync(1000);
    ranks.sync(1000);
    let known = &ranks.machines[0];
    let all = (0..3).flat_map(|series| known.datasets(series));
    let mut ids: Vec<(u64, String)> = all.map(|one| (one.id, one.key.id.clone())).collect();
    ids.sort();
    let expected = (0..9).map(|at| (at + 1, at.to_string()));
    assert_eq!(ids, expected.collect::<Vec<_>>());
}

#[test]
fn another_number_in_a_name_is_no_new_kind() {
    let mut ranks = Ranks::of(1, SeriesConfig::new("ckpt", true));
    let mut on_prefix = Vec::new();
    for id in 1..=4 {
        on_prefix.push(ranks.write(0, &format!("{{id}}/part.{}", id + 6), id));
        for _ in 0..4 {
            ranks.sync(200);
        }
    }
    assert_eq!(on_prefix, [true, false, false, false]);
}
