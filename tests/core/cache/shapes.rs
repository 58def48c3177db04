//! Random jobs: files of any number and size, several schemes, sets and stores in one run, any
//! nodes lost, the ranks anywhere else afterwards. Every dataset is offered exactly if its own
//! scheme promises so, with the content that was written.

use proptest::prelude::*;

use super::cluster::{Cluster, offered_ids};
use super::job::{Dataset, restart, run};

const SCHEMES: [(&str, usize); 6] =
    [("SINGLE", 0), ("PARTNER", 1), ("PARTNER", 3), ("XOR", 1), ("RS", 2), ("RS", 4)];

/// Mostly small files, now and then one of some MB.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..5usize, 12 => 0..50_000usize, 1 => 1_000_000..4_000_000usize]
}

fn dataset(ranks: usize) -> impl Strategy<Value = Dataset> {
    let sizes = proptest::collection::vec(proptest::collection::vec(size(), 0..6), ranks);
    let group = prop_oneof![3 => Just("NODE"), 1 => Just("SWITCH")];
    let store = prop_oneof![3 => Just("ram"), 2 => Just("ssd"), 1 => Just("bb")];
    (0..SCHEMES.len(), 2..9usize, group, store, sizes).prop_map(
        |(scheme, set_size, group, store, sizes)| {
            // In a store that all reach, two copies of a file have the same place.
            let scheme = match (SCHEMES[scheme], store) {
                (("PARTNER", _), "bb") => ("PARTNER", 1),
                (scheme, _) => scheme,
            };
            Dataset { id: 0, scheme, set_size, group, store, sizes }
        },
    )
}

/// A job: where its ranks run, its datasets, the nodes that are lost, where it runs then.
#[derive(Debug, Clone)]
struct Job {
    before: String,
    datasets: Vec<Dataset>,
    lost: Vec<char>,
    after: String,
}

fn placement(ranks: usize, nodes: u8, from: u8) -> impl Strategy<Value = String> {
    proptest::collection::vec(from..from + nodes, ranks)
        .prop_map(|nodes| nodes.into_iter().map(char::from).collect())
}

fn job() -> impl Strategy<Value = Job> {
    (2..9usize, 1..7u8).prop_flat_map(|(ranks, nodes)| {
        let datasets = proptest::collection::vec(dataset(ranks), 1..4);
        let lost = proptest::collection::vec(b'a'..b'a' + nodes, 0..3);
        // Two more nodes than before: spares.
        (placement(ranks, nodes, b'a'), datasets, lost, placement(ranks, nodes + 2, b'a')).prop_map(
            |(before, mut datasets, lost, after)| {
                for (index, dataset) in datasets.iter_mut().enumerate() {
                    dataset.id = index as u64 + 1;
                }
                Job { before, datasets, lost: lost.into_iter().map(char::from).collect(), after }
            },
        )
    })
}

fn check(job: &Job) {
    let cluster = Cluster::with_more_stores();
    run(&cluster, &job.before, &job.datasets);
    let used = |node: &char| job.before.contains(*node);
    job.lost.iter().filter(|node| used(node)).for_each(|node| cluster.lose(&node.to_string()));
    let unused = job.before.chars().filter(|node| !job.after.contains(*node));
    let gone: Vec<char> = job.lost.iter().copied().chain(unused).collect();
    let survive = |one: &&Dataset| one.survives(&job.before, &gone);
    let expected: Vec<u64> = job.datasets.iter().filter(survive).map(|one| one.id).collect();
    let report = restart(&cluster, &job.after, &job.datasets);
    assert_eq!(offered_ids(&report), expected, "{report:?}");
    // And once more as it is: nothing is done, nothing is missing.
    let again = restart(&cluster, &job.after, &job.datasets);
    assert_eq!(offered_ids(&again), expected, "{again:?}");
    assert!(again.offered.iter().all(|one| one.rebuilt.is_empty() && one.moved.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_dataset_comes_back_as_its_own_scheme_promises(job in job()) {
        check(&job);
    }
}
