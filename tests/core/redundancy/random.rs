//! Any number of files of any sizes on any member; any one member is lost.

use proptest::prelude::*;

use super::Cluster;

fn sizes() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let size = prop_oneof![
        2 => Just(0),
        4 => 1..300_usize,
        1 => 130_000..132_000_usize,
        1 => 0..400_000_usize,
    ];
    prop::collection::vec(prop::collection::vec(size, 0..=5), 2..=9)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn one_lost_member_comes_back(
        sizes in sizes(),
        lost in any::<prop::sample::Index>(),
        scheme in prop_oneof![Just("XOR"), Just("PARTNER")],
    ) {
        let cluster = Cluster::encoded(scheme, &sizes);
        let lost = lost.index(sizes.len());
        let before = cluster.snapshot(lost);
        cluster.lose(lost);
        cluster.rebuild_and_check();
        prop_assert!(cluster.snapshot(lost) == before);
    }
}
